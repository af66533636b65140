// SPDX-License-Identifier: MIT
#include "cleave/graph/check_graph_concepts.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "cleave/graph/module_graph.hpp"
#include "support/archetype.hpp"
#include "support/toy_ir.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

// tests/house/diagnostics tests that near misses of a concept do not compile, with the expected messages.
template <class... Graphs>
constexpr bool pass() {
  (check_graph_concepts<Graphs>(), ...);
  return true;
}

/// Has members with the names of all concepts but with other parameters, so that it satisfies none of them.
struct namesakes {
  static std::vector<int> nodes() { return {0}; }
  static std::vector<int> operands(int) { return {}; }
  double weight() { return 1; }
  int bytes() { return 1; }
  int storage() { return 1; }
  void overwrites(int, int) {}
  bool replicable() { return true; }
  void portable(int, int) {}
  void regions() {}
  void after() {}
  void companions() {}
  void together() {}
  int name() { return 1; }
  int path() { return 1; }
  void inputs(int) {}
  void outputs(int) {}
  void state(int) {}
  void constants(int) {}
};

/// Has a const and a non-const overload of the same member.
struct both_ways {
  static std::vector<int> nodes() { return {0}; }
  static std::vector<int> operands(int) { return {}; }
  double& weight(int) { return cost; }
  double weight(int) const { return cost; }
  double cost = 3;
};

}  // namespace

static_assert(pass<archetype::graph, archetype::results_graph, archetype::weighted, archetype::sized,
                   archetype::costed, archetype::function, archetype::stateful, archetype::closed,
                   archetype::tied, archetype::aliasing, archetype::replicating, archetype::bounded,
                   archetype::nested, archetype::effectful, archetype::grouped, archetype::carrying,
                   archetype::accompanied, archetype::named, archetype::hierarchical>());
static_assert(pass<toy::graph, module_graph>());
static_assert(pass<namesakes>() && !weighted_graph<namesakes> && !sized_graph<namesakes> &&
              !function_graph<namesakes> && !named_graph<namesakes>);
static_assert(pass<both_ways>() && weighted_graph<both_ways>);

TEST_CASE("check_graph_concepts: accepts each concept alone, whole adapters and unrelated namesakes") {
  CHECK(pass<archetype::graph, toy::graph, module_graph, namesakes, both_ways>());
}
