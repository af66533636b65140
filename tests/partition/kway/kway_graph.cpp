// SPDX-License-Identifier: MIT
#include "cleave/partition/kway/kway.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include "support/undirected_archetype.hpp"

using namespace cleave;

namespace {

/// Two rings of people who know their neighbours, joined by one acquaintance. Every second person belongs to
/// the first ring.
struct people {
  std::vector<int> nodes() const {
    std::vector<int> all;
    for (int i = 0; i < 40; ++i) all.push_back(100 + i);
    return all;
  }
  std::vector<int> neighbours(int n) const {
    auto const i = n - 100;
    std::vector<int> near{100 + (i + 2) % 40, 100 + (i + 38) % 40};
    if (i < 2) near.push_back(101 - i);
    return near;
  }
};

}  // namespace

TEST_CASE("partition_kway: cuts a user's graph at its weakest edge, by position in nodes()") {
  auto const p = partition_kway(people{}, 2);
  CHECK(p.cut == 1);
  for (std::size_t i = 2; i < 40; ++i) CHECK(p.of[i] == p.of[i - 2]);
  partition start{std::vector<part_id>(40, part_id{0}), 2};
  for (std::size_t i = 0; i < 20; ++i) start.of[i] = part_id{1};
  auto const better = refine_kway(people{}, start);
  CHECK(better.cut <= 4);
  CHECK(better.within_limits);
}

TEST_CASE_TEMPLATE("partition_kway: requires only undirected_graph and accepts each refinement of it", Graph,
                   archetype::undirected, archetype::undirected_weighted, archetype::undirected_edges,
                   archetype::undirected_named) {
  Graph const g;
  auto const p = partition_kway(g, 2);
  CHECK(p.cut == 1);
  CHECK(p.of[0] != p.of[1]);
  CHECK(partition_kway<std::uint64_t>(g, 2).of == p.of);
}
