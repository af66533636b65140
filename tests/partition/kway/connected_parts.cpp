// SPDX-License-Identifier: MIT
#include "cleave/partition/kway/detail/connected_parts.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/partition/kway/kway.hpp"
#include "cleave/partition/verify/verify_partition.hpp"
#include "support/cases.hpp"
#include "support/rng.hpp"
#include "support/small_adjacency.hpp"

using namespace cleave;
using cleave::testing::rng;

namespace {

constexpr kway_preset presets[] = {kway_preset::fast, kway_preset::standard, kway_preset::quality};

/// Counts the pieces of each part by joining sets: the trivial twin of `partition_report::pieces`.
std::vector<std::size_t> pieces_by_sets(adjacency<std::uint32_t> const& g, partition const& p) {
  std::vector<std::size_t> set(g.view().nodes());
  std::iota(set.begin(), set.end(), 0u);
  auto const root = [&](std::size_t n) {
    while (set[n] != n) n = set[n];
    return n;
  };
  for (std::size_t n = 0; n < set.size(); ++n)
    for (auto const to : g.view().neighbours(n))
      if (p.of[n] == p.of[to]) set[root(n)] = root(to);
  std::vector<std::size_t> pieces(p.parts, 0);
  for (std::size_t n = 0; n < set.size(); ++n) pieces[index(p.of[n])] += root(n) == n;
  return pieces;
}

bool is_connected(adjacency<std::uint32_t> const& g, partition const& p) {
  auto const v = verify_partition(g.view(), p, {.imbalance = 1e9, .connected = true});
  return std::ranges::none_of(v.findings,
                              [](auto const& f) { return f.what == partition_fault::disconnected_part; });
}

}  // namespace

TEST_CASE("verify_partition: counts the pieces of each part, and finds parts in more pieces than needed") {
  rng r(3);
  for (int i = 0; i < 200; ++i) {
    auto const g = testing::random_adjacency(r, 1 + r.below(30), r.below(50), 5);
    partition p{.of = {}, .parts = 1 + static_cast<std::uint32_t>(r.below(4))};
    for (std::size_t n = 0; n < g.view().nodes(); ++n)
      p.of.push_back(part_id{static_cast<std::uint32_t>(r.below(p.parts))});
    auto const v = verify_partition(g.view(), p, {.imbalance = 1e9, .connected = true});
    CHECK(v.pieces == pieces_by_sets(g, p));
    // With one part, pieces are components, so a part never has too many.
    partition const whole{.of = std::vector<part_id>(g.view().nodes(), part_id{0}), .parts = 1};
    CHECK(verify_partition(g.view(), whole, {.connected = true}).sound());
  }
  auto const path = testing::grid_adjacency(5, 1);
  partition const split{.of = {part_id{0}, part_id{1}, part_id{1}, part_id{0}, part_id{0}}, .parts = 2};
  auto const v = verify_partition(path.view(), split, {.imbalance = 1, .connected = true});
  REQUIRE(v.findings.size() == 1);
  CHECK(v.findings[0] == partition_finding{partition_fault::disconnected_part, 0, 0, 2, 1});
  CHECK(describe(v.findings[0]) == "part 0 has 2 connected pieces, but could have 1");
  CHECK(verify_partition(path.view(), split, {.imbalance = 1}).sound());
}

TEST_CASE("partition_kway: with `connected`, every part of any graph is as connected as the graph") {
  rng r(5);
  std::size_t cuts = 0;
  auto const rounds = testing::cases(40, 150);
  for (std::size_t i = 0; i < rounds; ++i) {
    // sparse enough that there are often several components, and many articulation nodes
    auto const nodes = 2 + r.below(150);
    auto const g = testing::random_adjacency(r, nodes, nodes + r.below(nodes), 1 + r.below(9));
    auto const k = 1 + static_cast<std::uint32_t>(r.below((std::min<std::size_t>)(nodes, 9)));
    auto const p = partition_kway(
        g.view(), k,
        {.preset = presets[r.below(3)], .imbalance = 0.2, .connected = true, .seed = r.below(99)});
    CHECK(is_connected(g, p));
    auto const v = verify_partition(g.view(), p, {.imbalance = 1e9});
    CHECK(p.cut == v.cut);
    CHECK(p.part_weights == v.part_weight);
    cuts += p.cut > 0;
  }
  CHECK(cuts > rounds * 2 / 3);
}

TEST_CASE("partition_kway: connected parts of grids keep the limits and cut about as little") {
  for (auto const preset : presets)
    for (std::uint32_t const k : {2u, 7u, 16u}) {
      auto const g = testing::grid_adjacency(static_cast<std::uint32_t>(testing::cases(30, 60)), 25);
      kway_options o{.preset = preset};
      auto const free = partition_kway(g.view(), k, o);
      o.connected = true;
      auto const p = partition_kway(g.view(), k, o);
      CHECK(is_connected(g, p));
      CHECK(p.within_limits);
      CHECK(verify_partition(g.view(), p, {.imbalance = 0.03, .connected = true}).sound());
      CHECK(static_cast<double>(p.cut) <= 1.15 * static_cast<double>(free.cut));
    }
}

TEST_CASE("refine_kway: joins scattered parts, keeps fixed nodes, and does not depend on threads") {
  rng r(8);
  for (std::size_t i = 0; i < testing::cases(20, 60); ++i) {
    auto const width = 3 + static_cast<std::uint32_t>(r.below(12));
    auto const g = testing::grid_adjacency(width, 3 + static_cast<std::uint32_t>(r.below(12)));
    partition start{.of = {}, .parts = 2 + static_cast<std::uint32_t>(r.below(4))};
    for (std::size_t n = 0; n < g.view().nodes(); ++n)
      start.of.push_back(part_id{static_cast<std::uint32_t>(r.below(start.parts))});
    kway_options o{.preset = kway_preset::fast, .imbalance = 0.1, .connected = true};
    auto const p = refine_kway(g.view(), start, o);
    CHECK(is_connected(g, p));
    o.threads = 3;
    CHECK(refine_kway(g.view(), start, o).of == p.of);
    o.fixed.assign(g.view().nodes(), no_part);
    o.fixed[0] = part_id{1};
    o.fixed.back() = part_id{0};
    auto const bound = refine_kway(g.view(), start, o);
    CHECK(bound.of.front() == part_id{1});
    CHECK(bound.of.back() == part_id{0});
    CHECK(is_connected(g, bound));
  }
}

TEST_CASE("connected_parts: weight flows through full parts to the one with room") {
  // A path of 30 nodes: the first of three parts is too heavy, the second is full, and the third has room.
  auto const path = testing::grid_adjacency(30, 1);
  detail::partitioned_level p{.of = {}, .weight = {16, 10, 4}, .limit = {10, 10, 10}};
  for (std::uint32_t n = 0; n < 30; ++n) p.of.push_back(n < 16 ? 0 : n < 26 ? 1 : 2);
  detail::weighted_view const g{30, path.offsets.data(), path.targets.data(), {}, {}};
  std::vector<std::uint32_t> const free;
  detail::connected_parts(g, p, free).repair();
  CHECK(p.weight == std::vector<std::int64_t>{10, 10, 10});
  CHECK(std::ranges::is_sorted(p.of));
}

TEST_CASE("connected_parts: fixed nodes stay, however heavy nodes are") {
  // A star of heavy leaves: no single node may leave the part of the hub but leaves, and leaf 1 is fixed.
  adjacency<std::uint32_t> const star = testing::adjacency_of(5, {{0, 1}, {0, 2}, {0, 3}, {3, 4}});
  constexpr auto heavy = std::int64_t{1} << 60;
  detail::partitioned_level p{
      .of = {0, 0, 0, 0, 1}, .weight = {4 * heavy, heavy}, .limit = {heavy, 4 * heavy}};
  std::vector<std::int64_t> const weights(5, heavy);
  detail::weighted_view const g{5, star.offsets.data(), star.targets.data(), weights.data(), {}};
  auto const free = detail::no_block;
  std::vector<std::uint32_t> const fixed{free, 0, free, free, free};
  detail::connected_parts(g, p, fixed).repair();
  CHECK(p.of[1] == 0);
  CHECK(p.of[3] == 1);
}
