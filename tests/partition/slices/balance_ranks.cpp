// SPDX-License-Identifier: MIT
#include "cleave/partition/slices/balance_ranks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "cleave/partition/model/metrics.hpp"
#include "cleave/partition/model/validity.hpp"
#include "support/error_text.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

namespace {

using cleave::balance_options;
using cleave::balance_ranks;
using cleave::rank_id;
using cleave::testing::error_text;
using cleave::testing::rng;
using cleave::testing::snapshot_builder;

std::vector<rank_id> ranks_of(std::vector<std::uint32_t> const& numbers) {
  std::vector<rank_id> ranks;
  for (auto const r : numbers) ranks.push_back(rank_id{r});
  return ranks;
}

/// Nodes that each read the one before, and some that read earlier ones too: they have a single order.
cleave::snapshot_arrays random_chain(rng& r, std::size_t nodes) {
  snapshot_builder b;
  std::vector<std::uint32_t> made;
  std::vector<std::uint32_t> states;
  for (int i = 0; i < 3; ++i) states.push_back(b.state(r.below(6)));
  for (std::size_t n = 0; n < nodes; ++n) {
    std::vector<std::uint32_t> operands;
    if (n > 0) operands.push_back(made.back());
    if (n > 2 && r.one_in(3)) operands.push_back(made[r.below(made.size() - 1)]);
    if (r.one_in(2)) operands.push_back(states[r.below(3)]);
    made.push_back(b.node(static_cast<double>(r.below(30)), operands, r.below(5)));
  }
  return b.build();
}

cleave::partition on_ranks(cleave::partition p, std::vector<std::uint32_t> const& rank_of,
                           std::uint32_t ranks) {
  for (auto& part : p.of)
    if (part != cleave::no_part) part = cleave::part_id{rank_of[index(part)]};
  p.parts = ranks;
  return p;
}

/// Returns the least largest load of a rank over all cuts of a chain, by trying each.
double best_of_all(cleave::snapshot_arrays const& g, std::vector<std::uint32_t> const& rank_of,
                   std::uint32_t ranks, balance_options const& o) {
  double best = std::numeric_limits<double>::infinity();
  auto const stages = rank_of.size();
  for (std::uint32_t bits = 0; bits < 1u << (g.nodes() - 1); ++bits) {
    if (static_cast<std::size_t>(std::popcount(bits)) != stages - 1) continue;
    cleave::partition p{{}, static_cast<std::uint32_t>(stages)};
    std::uint32_t stage = 0;
    for (std::size_t n = 0; n < g.nodes(); ++n) {
      p.of.push_back(cleave::part_id{stage});
      stage += bits >> n & 1;
    }
    auto const q = on_ranks(p, rank_of, ranks);
    if (cleave::find_overfull_part(g, q, o.memory)) continue;
    best = std::min(best, cleave::bottleneck(g, q, {o.cost_per_byte, o.speed, o.link}));
  }
  return best;
}

}  // namespace

namespace {

/// Counts of cases, and of those with the best of all cuts.
struct tally {
  int cases = 0, found = 0;
  double worst = 1;  ///< largest ratio to the best
};

/// Compares results for chains of this many nodes with the best of all cuts.
tally compare_with_all(rng& r, std::size_t nodes, int rounds) {
  tally t;
  for (int i = 0; i < rounds; ++i) {
    auto const g = random_chain(r, nodes - r.below(4));
    auto const ranks = static_cast<std::uint32_t>(2 + r.below(2));
    std::vector<std::uint32_t> rank_of;
    for (std::uint32_t s = 0; s < 2 * ranks; ++s)
      rank_of.push_back(i % 2 == 0 ? s % ranks : std::min(s, 2 * ranks - 1 - s));
    balance_options o{.cost_per_byte = 0.5};
    if (i % 3 == 1) o.speed = ranks == 2 ? cleave::per_part<double>{1, 2} : cleave::per_part<double>{1, 2, 3};
    if (i % 5 == 2) o.memory = std::size_t{12};
    auto const best = best_of_all(g, rank_of, ranks, o);
    CAPTURE(i);
    try {
      auto const made = balance_ranks(g, ranks_of(rank_of), ranks, o);
      auto const q = on_ranks(made.stages, rank_of, ranks);
      REQUIRE(made.rank_loads == cleave::part_loads(g, q, {o.cost_per_byte, o.speed, o.link}));
      REQUIRE(made.bottleneck == *std::ranges::max_element(made.rank_loads));
      REQUIRE(!cleave::find_overfull_part(g, q, o.memory));
      REQUIRE(!cleave::detail::find_backward_edge(g, made.stages));
      REQUIRE(!cleave::detail::find_empty_part(made.stages));
      REQUIRE(made.bound <= best * (1 + 1e-9));
      REQUIRE(made.bottleneck >= best * (1 - 1e-9));
      t.found += made.bottleneck <= best * (1 + 1e-9);
      t.worst = std::max(t.worst, made.bottleneck / best);
      ++t.cases;
    } catch (cleave::infeasible_error const&) {
      CHECK(!o.memory.empty());
    }
  }
  return t;
}

}  // namespace

TEST_CASE("balance_ranks: finds the best of all cuts if there are few") {
  rng r(7);
  auto const t = compare_with_all(r, 13, 60);
  CHECK(t.cases > 50);
  CHECK(t.found == t.cases);
}

TEST_CASE("balance_ranks: comes close to the best of many cuts") {
  rng r(8);
  auto const t = compare_with_all(r, 20, 20);
  CHECK(t.cases > 15);
  CHECK(t.worst < 1.1);
  CHECK(2 * t.found > t.cases);
}

TEST_CASE("balance_ranks: gives the rank with a heavy node less of the rest") {
  // Balanced stages would be 9, 9, 9 and 15 for ranks 0 1 0 1, so 18 and 24; 21 and 21 are possible.
  snapshot_builder b;
  std::uint32_t last = b.input();
  for (int i = 0; i < 27; ++i) last = b.node(1, {last}, 0);
  b.node(15, {last}, 0);
  auto const g = b.build();
  auto const made = balance_ranks(g, ranks_of({0, 1, 0, 1}), 2);
  CHECK(made.rank_loads == std::vector<double>{21, 21});
  CHECK(made.bound == 21);
  auto const stages = balance(g, 4);
  CHECK(cleave::bottleneck(g, on_ranks(stages, {0, 1, 0, 1}, 2)) > 21);
}

TEST_CASE("balance_ranks: among cuts with equal loads of ranks, takes even stages") {
  snapshot_builder b;
  std::uint32_t last = b.input();
  for (int i = 0; i < 12; ++i) last = b.node(1, {last}, 0);
  auto const made = balance_ranks(b.build(), ranks_of({0, 1, 0, 1}), 2);
  CHECK(made.stages.loads == std::vector<double>{3, 3, 3, 3});
}

TEST_CASE("balance_ranks: with one stage a rank, the result is that of balance") {
  rng r(9);
  for (int i = 0; i < 30; ++i) {
    auto const g = cleave::testing::random_graph(r, {.nodes = 30, .replicable = 8, .tied = 6});
    auto const made = balance_ranks(g, ranks_of({2, 0, 1}), 3);
    auto const plain = balance(g, 3);
    CHECK(made.stages.of == plain.of);
    CHECK(made.bottleneck == doctest::Approx(plain.bottleneck));
  }
}

TEST_CASE(
    "balance_ranks: keeps the constraints of general graphs, and never worsens the stages it starts from") {
  rng r(10);
  for (int i = 0; i < 40; ++i) {
    auto const g = cleave::testing::random_graph(r, {.nodes = 60, .states = 3, .replicable = 9, .tied = 7});
    auto const made = balance_ranks(g, ranks_of({0, 1, 2, 2, 1, 0}), 3, {.cost_per_byte = 0.25});
    REQUIRE(!cleave::detail::find_backward_edge(g, made.stages));
    REQUIRE(!cleave::detail::find_split_group(g, made.stages));
    REQUIRE(!cleave::detail::find_unassigned_node(g, made.stages));
    auto const start = on_ranks(balance(g, 6, {.cost_per_byte = 0.25}), {0, 1, 2, 2, 1, 0}, 3);
    REQUIRE(made.bottleneck <= cleave::bottleneck(g, start, {.cost_per_byte = 0.25}) * (1 + 1e-9));
    REQUIRE(made.bound <= made.bottleneck);
  }
}

TEST_CASE("balance_ranks: refuses what it cannot do") {
  snapshot_builder b;
  b.node(1, {b.node(1, {b.input()})});
  auto const g = b.build();
  auto const refused = [&](std::vector<std::uint32_t> const& rank_of, std::uint32_t ranks,
                           balance_options const& o) {
    return error_text([&] { balance_ranks(g, ranks_of(rank_of), ranks, o); });
  };
  CHECK(refused({}, 1, {}) == "balance_ranks: there are no stages; give at least one rank");
  CHECK(refused({0, 2}, 2, {}) == "balance_ranks: stage 1 is on rank 2, but there are only 2 ranks");
  CHECK(refused({0, 0}, 1, {.relayed = true}).find("are not supported; leave them out") != std::string::npos);
  CHECK(refused({0, 1, 0, 1}, 2, {}).find("has 2 nodes to place, but there are 4 stages") !=
        std::string::npos);
  CHECK(refused({0, 1}, 2, {.speed = {1, 2, 3}}) == "balance_ranks: 3 speeds are given for 2 parts");
}
