// SPDX-License-Identifier: MIT
#include "cleave/graph/concepts.hpp"

#include <doctest/doctest.h>

#include "cleave/graph/adapter_fault.hpp"
#include "cleave/graph/check_graph_concepts.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/order.hpp"
#include "cleave/graph/snapshot.hpp"
#include "support/archetype.hpp"
#include "support/toy_ir.hpp"

using namespace cleave;

// Each archetype satisfies its own concept and none that requires more.
static_assert(dataflow_graph<archetype::graph> && !multi_result<archetype::graph>);
static_assert(multi_result<archetype::results_graph> && !weighted_graph<archetype::results_graph>);
static_assert(weighted_graph<archetype::weighted> && !sized_graph<archetype::weighted>);
static_assert(sized_graph<archetype::sized> && !weighted_graph<archetype::sized>);
static_assert(function_graph<archetype::function> && !stateful_graph<archetype::function>);
static_assert(stateful_graph<archetype::stateful> && !closed_graph<archetype::stateful>);
static_assert(closed_graph<archetype::closed> && !stateful_graph<archetype::closed>);
static_assert(tied_graph<archetype::tied> && !aliasing_graph<archetype::tied>);
static_assert(aliasing_graph<archetype::aliasing> && !replicating_graph<archetype::aliasing>);
static_assert(replicating_graph<archetype::replicating> && !bounded_graph<archetype::replicating>);
static_assert(bounded_graph<archetype::bounded> && !nested_graph<archetype::bounded>);
static_assert(nested_graph<archetype::nested> && !effectful_graph<archetype::nested>);
static_assert(grouped_graph<archetype::grouped> && !effectful_graph<archetype::grouped>);
static_assert(carrying_graph<archetype::carrying> && !carrying_graph<archetype::function>);
static_assert(effectful_graph<archetype::effectful> && !accompanied_graph<archetype::effectful>);
static_assert(accompanied_graph<archetype::accompanied> && !named_graph<archetype::accompanied>);
static_assert(named_graph<archetype::named> && !hierarchical_graph<archetype::named>);
static_assert(hierarchical_graph<archetype::hierarchical>);
static_assert(!dataflow_graph<int> && !dataflow_graph<archetype::node>);
static_assert(weighted_graph<toy::graph> && sized_graph<toy::graph> && stateful_graph<toy::graph> &&
              replicating_graph<toy::graph> && effectful_graph<toy::graph> && named_graph<toy::graph>);
static_assert(stateful_graph<module_graph> && tied_graph<module_graph> && effectful_graph<module_graph> &&
              named_graph<module_graph>);

TEST_CASE_TEMPLATE("snapshot_of: requires no more members than the concept that it reads", Graph,
                   archetype::graph, archetype::results_graph, archetype::weighted, archetype::sized,
                   archetype::function, archetype::stateful, archetype::closed, archetype::tied,
                   archetype::replicating, archetype::bounded, archetype::effectful, archetype::grouped,
                   archetype::carrying, archetype::accompanied, archetype::named, archetype::hierarchical) {
  Graph const g;
  CHECK_FALSE(find_adapter_fault(g));
  CHECK_FALSE(find_cycle(g));
  CHECK(topological_order(g).size() == 2);
  auto const s = snapshot_of(g);
  CHECK(s.nodes() == 2);
  CHECK(s.weight.size() == (weighted_graph<Graph> ? 2 : 0));
  CHECK(s.bytes.size() == (sized_graph<Graph> ? s.values() : 0));
  CHECK(s.companions.rows() == (accompanied_graph<Graph> ? s.values() : 0));
  CHECK(s.name.rows() == (named_graph<Graph> ? 2 : 0));
  CHECK(s.storage.size() == (tied_graph<Graph> ? s.values() : 0));
}

TEST_CASE("snapshot_of: reads graphs that overwrite memory and graphs with bodies") {
  archetype::aliasing const in_place;
  CHECK(snapshot_of(in_place).results[0].size() == 2);  // its own result and the value that it overwrote
  archetype::nested const with_body;
  CHECK(snapshot_of(with_body).operands[1].size() == 1);  // the node reads the yielded value anyway
}
