// SPDX-License-Identifier: MIT
#include "support/archetype.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "cleave/graph/adapter_fault.hpp"
#include "cleave/graph/order.hpp"
#include "cleave/partition/named/assign.hpp"
#include "cleave/partition/named/cut_points.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "cleave/split/dataflow.hpp"
#include "cleave/split/split.hpp"

using namespace cleave;

using namespace cleave::detail;

static_assert(stage_builder<archetype::builder<archetype::node, archetype::node>, archetype::graph>);
static_assert(stage_builder<archetype::builder<archetype::node, archetype::value>, archetype::results_graph>);

TEST_CASE("balance: requires no more of a graph than weights and sizes") {
  archetype::costed const g;
  CHECK(balance(g, 2).parts == 2);
  CHECK(balance(g, 2, {.memory = 1}).loads == std::vector<double>{9, 9});
}

TEST_CASE_TEMPLATE("split: assigning, splitting and emitting a graph require only nodes and operands", Graph,
                   archetype::graph, archetype::results_graph) {
  Graph const g;
  auto const p = assign(g, [](archetype::node n) { return n; });
  CHECK(p.parts == 2);
  CHECK(assign(g, std::vector<std::uint32_t>{0, 1}).of == p.of);
  CHECK(assign_at_markers(g, [](archetype::node n) { return n == archetype::node(2); }).of == p.of);

  auto const stages = split(g, p);
  CHECK(stages[stage_id{1}].inputs.size() == 1);
  CHECK_FALSE(find_dataflow_fault(dataflow_of(stages.snapshot(), stages.plan())));
  for (stage_id const i : stages.plan().order) {
    archetype::builder<archetype::node, value_t<Graph>> b;
    emit(stages, i, b);
    CHECK(b.results == 1);
  }
}

TEST_CASE_TEMPLATE(
    "topological_order: requires only nodes and operands, as do find_cycle and find_adapter_fault", Graph,
    archetype::graph, archetype::results_graph) {
  Graph const g;
  CHECK(topological_order(g) == g.nodes());
  CHECK_FALSE(find_cycle(g));
  CHECK_FALSE(find_adapter_fault(g));
}

TEST_CASE("assign_by_name: requires names, and assign_after_modules and cuts_at_modules require paths") {
  archetype::named const g;
  CHECK(assign_by_name(g, {{"#0", "a"}, {"#1", "b"}}).parts == 2);
  CHECK_THROWS_AS(assign_by_name(g, {{"n", "a"}}), assignment_error);  // two nodes have this name
  archetype::hierarchical const placed;
  CHECK(assign_after_modules(placed, {"n"}).parts == 1);
  CHECK(cuts_at_modules(placed, snapshot_of(placed), {{"n"}}).points.size() == 1);
}
