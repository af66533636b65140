// SPDX-License-Identifier: MIT
#include "cleave/graph/neighbours.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "support/undirected_archetype.hpp"

using namespace cleave;

using namespace cleave::detail;

// Each archetype stands on its own rung and on no other.
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

/// Has members with the names of all rungs that mean something else: other arguments, or none.
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

// That rungs missed by an inch do not compile, with these messages, is tested with the house's diagnostics.
TEST_CASE("check_undirected_concepts: accepts each concept alone and unrelated members of the same names") {
  CHECK(pass<archetype::undirected, archetype::undirected_weighted, archetype::undirected_edges,
             archetype::undirected_named, namesakes>());
  CHECK_FALSE(node_weighted_graph<namesakes>);
  CHECK_FALSE(edge_weighted_graph<namesakes>);
  CHECK_FALSE(named_undirected_graph<namesakes>);
}
