// SPDX-License-Identifier: MIT
#include "cleave/graph/order.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <ranges>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

namespace {

/// A graph in which node i reads the nodes `reads[i]`; nodes are in any order.
struct needs {
  std::vector<std::vector<std::size_t>> reads;
  auto nodes() const { return std::views::iota(std::size_t{}, reads.size()); }
  std::vector<std::size_t> const& operands(std::size_t n) const { return reads[n]; }
};

needs random_needs(testing::rng& random, std::size_t n, std::size_t edges) {
  needs g{std::vector<std::vector<std::size_t>>(n)};
  while (edges-- > 0) g.reads[random.below(n)].push_back(random.below(n));
  return g;
}

/// Removes nodes without predecessors until none is left to remove; remaining nodes lie on or after a cycle.
bool has_cycle(needs g) {
  std::vector<char> gone(g.reads.size());
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t n = 0; n < gone.size(); ++n)
      if (!gone[n] && std::ranges::all_of(g.reads[n], [&](auto m) { return gone[m] != 0; }))
        gone[n] = changed = true;
  }
  return std::ranges::find(gone, 0) != gone.end();
}

}  // namespace

TEST_CASE("topological_order: puts each node after its predecessors, the first ready node first") {
  CHECK(topological_order(needs{{{2}, {}, {}, {0, 1}}}) == std::vector<std::size_t>{1, 2, 0, 3});
  CHECK(topological_order(needs{}).empty());
}

TEST_CASE("find_cycle: returns a cycle exactly if the graph has one") {
  testing::rng random(3);
  int cyclic = 0;
  for (int round = 0; round < 3000; ++round) {
    auto const n = 1 + random.below(9);
    auto const g = random_needs(random, n, random.below(2 * n));
    auto const cycle = find_cycle(g);
    CHECK(cycle.has_value() == has_cycle(g));
    if (!cycle) {
      auto const order = topological_order(g);
      for (std::size_t i = 0; i < order.size(); ++i)
        for (auto const need : g.reads[order[i]])
          CHECK(std::ranges::find(order, need) < order.begin() + static_cast<std::ptrdiff_t>(i));
      CHECK(order.size() == n);
      continue;
    }
    ++cyclic;
    for (std::size_t i = 0; i < cycle->size(); ++i) {
      auto const& reads = g.reads[(*cycle)[(i + 1) % cycle->size()]];
      CHECK(std::ranges::find(reads, (*cycle)[i]) != reads.end());
      CHECK(std::ranges::count(*cycle, (*cycle)[i]) == 1);
    }
    CHECK_THROWS_AS(topological_order(g), cycle_error<std::size_t>);
  }
  CHECK(cyclic > 300);
}

TEST_CASE("topological_order: abbreviates a long cycle in the message and keeps all of it as witness") {
  needs ring{std::vector<std::vector<std::size_t>>(1000)};
  for (std::size_t n = 0; n < 1000; ++n) ring.reads[n] = {(n + 999) % 1000};
  try {
    topological_order(ring);
    FAIL("no error");
  } catch (cycle_error<std::size_t> const& e) {
    CHECK(e.witness.size() == 1000);
    CHECK(std::string(e.what()).find("… 984 more … -> ") != std::string::npos);
    CHECK(std::string(e.what()).size() < 300);
  }
}

TEST_CASE("find_cycle: returns the node of a self-loop") {
  CHECK(find_cycle(needs{{{}, {1}, {}}}) == std::vector<std::size_t>{1});
}
