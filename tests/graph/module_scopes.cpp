// SPDX-License-Identifier: MIT
#include "cleave/graph/module_scopes.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace cleave;

using namespace cleave::detail;
using position = module_graph::position;

namespace {

position add(module_graph& g, std::string target, std::vector<module_argument> args) {
  module_node n;
  n.name = "n" + std::to_string(g.list().size());
  n.target = std::move(target);
  n.args = std::move(args);
  return g.add(std::move(n));
}

}  // namespace

TEST_CASE("module_marks: recognizes marks by their target, with or without a path") {
  module_graph g;
  auto const e = add(g, "torch.amp._enter_autocast", {{std::string("cuda")}});
  add(g, "my_enter_autocast", {});
  add(g, "_set_grad_enabled", {{false}});
  add(g, "_exit_autocast", {node_argument(e)});
  auto const marks = module_marks(g, torch_scopes());
  REQUIRE(marks.size() == 3);
  CHECK(marks[0].mark.what == scope_action::enter);
  CHECK(marks[1].mark.kind == 1);
  CHECK(marks[2].mark.entered == e);
}

TEST_CASE("module_marks: checks the operands of torch's marks, but not those of other kinds") {
  auto const fault = [](std::string const& target, std::vector<module_argument> args) -> std::string {
    module_graph g;
    add(g, "f", {});
    add(g, target, std::move(args));
    try {
      module_marks(g, torch_scopes());
    } catch (mark_operand_error const& e) {
      CHECK(e.witness == 1);
      return e.what();
    }
    return "";
  };
  CHECK(
      fault("_exit_autocast", {node_argument(0), {true}}) ==
      "node 'n1': '_exit_autocast' has 2 operands; it must have one: the entry of the scope that it leaves");
  CHECK(fault("_exit_autocast", {{true}}) != "");
  CHECK(fault("_exit_autocast", {}) != "");
  CHECK(fault("_set_grad_enabled", {{std::int64_t{1}}}) ==
        "node 'n1': '_set_grad_enabled' has 1 operands; it must have one: true or false");
  CHECK(fault("_set_grad_enabled", {}) != "");
  CHECK(fault("_set_grad_enabled", {{true}, {true}}) != "");
  CHECK(fault("_enter_autocast", {node_argument(0)}) ==
        "node 'n1': '_enter_autocast' has 1 operands; it must have constants only, no nodes");
  CHECK(fault("_enter_autocast", {{true}, {false}}) == "");

  module_graph g;
  add(g, "lock", {});
  add(g, "unlock", {});
  CHECK(module_marks(g, {{{"lock"}, "lock", "unlock"}}).size() == 2);
}
