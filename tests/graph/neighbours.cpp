// SPDX-License-Identifier: MIT
#include "cleave/graph/neighbours.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "support/undirected_archetype.hpp"

using namespace cleave;

using namespace cleave::detail;

// Each archetype satisfies its own concept and no other.
static_assert(undirected_graph<archetype::undirected> && !node_weighted_graph<archetype::undirected> &&
              !edge_weighted_graph<archetype::undirected> && !named_undirected_graph<archetype::undirected>);
static_assert(node_weighted_graph<archetype::undirected_weighted> &&
              !edge_weighted_graph<archetype::undirected_weighted>);
static_assert(edge_weighted_graph<archetype::undirected_edges> &&
              !node_weighted_graph<archetype::undirected_edges>);
static_assert(named_undirected_graph<archetype::undirected_named> &&
              !edge_weighted_graph<archetype::undirected_named>);
static_assert(!undirected_graph<int> && !undirected_graph<archetype::graph>);

namespace {

/// Has members with the names of all concepts but with other parameters, so that it satisfies none of them.
struct namesakes : archetype::undirected {
  double weight() { return 1; }
  int edge_weights(int, int) { return 1; }
  int name() { return 1; }
};

template <class... Graphs>
constexpr bool pass() {
  (check_undirected_concepts<Graphs>(), ...);
  return true;
}

}  // namespace

// tests/house/diagnostics tests that near misses of a concept do not compile, with the expected messages.
TEST_CASE("check_undirected_concepts: accepts each concept alone and unrelated members of the same names") {
  CHECK(pass<archetype::undirected, archetype::undirected_weighted, archetype::undirected_edges,
             archetype::undirected_named, namesakes>());
  CHECK_FALSE(node_weighted_graph<namesakes>);
  CHECK_FALSE(edge_weighted_graph<namesakes>);
  CHECK_FALSE(named_undirected_graph<namesakes>);
}
