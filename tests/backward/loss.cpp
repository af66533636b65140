// SPDX-License-Identifier: MIT
#include "cleave/backward/loss.hpp"
#include "support/nested_arguments.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {

using argument = module_argument;

using testing::dict;
using testing::row;

argument node(std::uint32_t n) { return node_argument(n); }
argument text(std::string s) { return {std::move(s)}; }
argument const yes{true}, no{false};

module_graph program(argument const& output) {
  module_graph g;
  for (auto const* name : {"y", "cost"}) {
    module_node n;
    n.kind = node_kind::placeholder;
    n.name = n.target = name;
    g.add(std::move(n));
  }
  module_node n;
  n.kind = node_kind::output;
  n.args = {output};
  g.add(std::move(n));
  return g;
}

TEST_CASE("loss_of: rejects a wrong specification, and the message uses the names of the program") {
  auto const refused = [](module_graph const& g, argument const& spec, std::vector<std::string> const& said) {
    try {
      loss_of(g, spec);
      FAIL("accepted");
    } catch (loss_error const& e) {
      for (auto const& part : said) {
        CAPTURE(std::string(e.what()));
        CHECK(std::string(e.what()).find(part) != std::string::npos);
      }
    }
  };
  auto const g = program(row({node(0), node(1)}));
  CHECK(loss_of(g, row({no, yes})) == 1u);
  refused(g, yes, {"(y, cost)"});
  refused(g, row({no, no}), {"(false, false)", "(y, cost)"});
  refused(g, row({yes, yes}), {"y and cost"});
  refused(g, row({yes}), {"(true)", "number of elements", "(y, cost)"});
  refused(g, dict({{text("a"), yes}}), {"{'a': true}", "differs in kind"});
  refused(g, text("x"), {"'x'"});
  refused(g, {std::int64_t{3}}, {"3"});
  refused(program(dict({{text("a"), node(1)}})), dict({{text("b"), yes}}),
          {"{'b': true}", "{'a': cost}", "keys"});
  refused(program(row({{0.5}, node(1)})), row({yes, no}), {"0.5"});
  refused(g, {container{container::kind::tuple, 2}, true}, {"fewer or more elements"});
  refused(module_graph(), yes, {"the program has no output"});
  module_graph empty;
  module_node output;
  output.kind = node_kind::output;
  empty.add(std::move(output));
  refused(empty, yes, {"the program has no output"});
  refused(program(row(std::vector<argument>(1000, node(0)))), yes, {"(y, y, ", "…"});
}

}  // namespace
