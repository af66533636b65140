// SPDX-License-Identifier: MIT
#include "cleave/split/modules/split_hierarchy.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {

module_graph::position add(module_graph& g, node_kind kind, std::string const& name,
                           std::vector<module_argument> args = {},
                           std::vector<keyword_argument> kwargs = {}) {
  module_node n;
  n.kind = kind;
  n.name = n.target = name;
  n.args = std::move(args);
  n.kwargs = std::move(kwargs);
  return g.add(std::move(n));
}

/// Calls a module `body` with these arguments. It has two placeholders; the second has a default.
module_graph calling(std::vector<module_argument> args, std::vector<keyword_argument> kwargs) {
  module_graph body;
  auto const h = add(body, node_kind::placeholder, "h");
  module_node optional;
  optional.kind = node_kind::placeholder;
  optional.name = optional.target = "k";
  optional.default_value = {std::int64_t{1}};
  auto const k = body.add(std::move(optional));
  auto const a = add(body, node_kind::call_module, "a", {node_argument(h), node_argument(k)});
  add(body, node_kind::output, "output", {node_argument(a)});
  body.add_attribute({"a", module_attribute::kind::module, {}, {}, {}, {}});
  module_graph g;
  add(g, node_kind::placeholder, "x");
  add(g, node_kind::call_module, "body", std::move(args), std::move(kwargs));
  module_attribute b{"body", module_attribute::kind::module, {}, {}, {}, {}};
  b.body.push_back(std::move(body));
  g.add_attribute(std::move(b));
  return g;
}

}  // namespace

TEST_CASE("find_level_call_fault: finds arguments that do not fit and names the call and its module") {
  using enum argument_fault::kind;
  auto const x = node_argument(0);
  auto const fault = [](module_graph const& g) { return find_level_call_fault(cut_modules(g, {"body.a"})); };
  CHECK_FALSE(fault(calling({x}, {})));
  CHECK_FALSE(fault(calling({}, {{"k", x}, {"h", x}})));

  auto const many = calling({x, x, x}, {});
  REQUIRE(fault(many));
  CHECK(fault(many)->path == "body");
  CHECK(fault(many)->call == level_call{0, 1});
  CHECK(fault(many)->fault.what == too_many);
  CHECK(fault(calling({}, {}))->fault == argument_fault{missing, "h"});
  CHECK(fault(calling({x}, {{"z", x}}))->fault == argument_fault{unknown_keyword, "z"});
  try {
    split_hierarchy(many, {"body.a"});
    FAIL("split");
  } catch (level_call_error const& e) {
    CHECK(e.witness == *fault(many));
    CHECK(std::string(e.what()) ==
          "hierarchy: call ':body' of 'body' cannot be opened: evaluate: more arguments than placeholders");
  }
}
