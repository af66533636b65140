// SPDX-License-Identifier: MIT
#include "cleave/graph/module_graph.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/graph/adapter_fault.hpp"
#include "cleave/graph/check_graph_concepts.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/snapshot.hpp"
#include "support/module_nodes.hpp"

using namespace cleave;

using namespace cleave::detail;
using testing::node;
using positions = std::vector<std::uint32_t>;

static_assert(dataflow_graph<module_graph> && function_graph<module_graph> && stateful_graph<module_graph> &&
              tied_graph<module_graph> && effectful_graph<module_graph> && named_graph<module_graph>);
static_assert(!aliasing_graph<module_graph> && !weighted_graph<module_graph>);

namespace {

/// x, w, w again, f(x, w, [w_1]), g(f, key=x) after f, output(g, x)
module_graph small() {
  module_graph g;
  auto const x = g.add(node(node_kind::placeholder, "x"));
  auto const w = g.add(node(node_kind::get_attr, "w"));
  auto again = node(node_kind::get_attr, "w_1");
  again.target = "w";
  auto const w_1 = g.add(again);
  auto const f =
      g.add(node(node_kind::call_function, "f",
                 {node_argument(x), node_argument(w), {container{container::kind::list, 1}, node_ref{w_1}}}));
  auto h = node(node_kind::call_method, "g", {node_argument(f)});
  h.kwargs.push_back({"key", node_argument(x)});
  h.after.push_back(f);
  auto const last = g.add(h);
  g.add(node(node_kind::output, "output", {tuple_argument({last, x})}));
  return g;
}

}  // namespace

TEST_CASE("module_graph: calls are its nodes, placeholders its inputs, get_attr nodes its state") {
  auto const g = small();
  CHECK_FALSE(find_adapter_fault(g));
  CHECK(positions(g.nodes().begin(), g.nodes().end()) == positions{3, 4});
  CHECK(positions(g.inputs().begin(), g.inputs().end()) == positions{0});
  CHECK(positions(g.state().begin(), g.state().end()) == positions{1, 2});
  CHECK(g.outputs() == positions{4, 0});
  CHECK(g.output() == 5u);
  CHECK(g.operands(3) == positions{0, 1, 2});
  CHECK(g.operands(4) == positions{3, 0});
  CHECK(g.after(4) == positions{3});
  CHECK(g.name(4) == "g");
}

TEST_CASE("module_graph: nodes share storage if they read the same path or paths with the same memory") {
  auto g = small();
  CHECK(g.storage(1) == g.storage(2));
  CHECK(g.storage(0) != g.storage(3));
  CHECK(g.find_attribute("w") == nullptr);
  auto const before = g.storage(1);
  g.add_attribute({"w", module_attribute::kind::parameter, "memory", {}, {}, {}});
  g.add_attribute({"tied", module_attribute::kind::parameter, "memory", {}, {}, {}});
  CHECK(g.storage(1) != before);
  auto tied = node(node_kind::get_attr, "tied");
  CHECK(g.storage(g.add(tied)) == g.storage(1));
  CHECK(g.attributes().size() == 2);
  CHECK(g.find_attribute("tied")->what == module_attribute::kind::parameter);
}

TEST_CASE("module_graph: a snapshot has a value for each placeholder, attribute and call") {
  auto const g = small();
  auto const s = snapshot_of(g);
  CHECK(s.nodes() == 2);
  CHECK(s.values() == 5);
  CHECK(s.inputs.size() == 1);
  CHECK(s.state.size() == 2);
  CHECK(s.storage[s.state[0]] == s.storage[s.state[1]]);
  CHECK(s.after[1].size() == 1);
  CHECK(s.label(1) == "g (#1)");
}

TEST_CASE("module_graph: an empty graph has no output") {
  module_graph const g;
  CHECK(g.nodes().empty());
  CHECK(g.outputs().empty());
  CHECK_FALSE(g.output());
}
