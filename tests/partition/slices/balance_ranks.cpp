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
#include "support/cases.hpp"
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
    auto const cost = static_cast<double>(r.below(30));
    made.push_back(b.node(cost, operands, r.below(5)));
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

/// Returns the least largest load of a rank over all assignments of units to stages that are `legal`.
double best_assignment(cleave::snapshot_arrays const& g, std::vector<std::uint32_t> const& rank_of,
                       std::uint32_t ranks, balance_options const& o, auto legal) {
  double best = std::numeric_limits<double>::infinity();
  auto const stages = static_cast<std::uint32_t>(rank_of.size());
  cleave::partition p{std::vector(g.nodes(), cleave::no_part), stages};
  auto const assign = [&](auto& self, std::size_t n) -> void {
    if (n < g.nodes() && g.replicable[n]) return self(self, n + 1);
    for (std::uint32_t s = 0; s < stages && n < g.nodes(); ++s) {
      p.of[n] = cleave::part_id{s};
      self(self, n + 1);
    }
    if (n < g.nodes() || cleave::detail::find_split_group(g, p) || !legal(p)) return;
    auto const q = on_ranks(p, rank_of, ranks);
    if (!cleave::find_overfull_part(g, q, o.memory))
      best = std::min(best, cleave::bottleneck(g, q, {o.cost_per_byte, o.speed, o.link}));
  };
  assign(assign, 0);
  return best;
}

/// Counts of cases, and of those with the best of all cuts.
struct tally {
  int cases = 0, found = 0;
  int limited = 0, refused = 0;  ///< cases with a memory limit that changes the best cut; without any cut
  double worst = 1;              ///< largest ratio to the best
};

/// Compares results for chains of this many nodes with the best of all cuts. If there are few cuts, a chain
/// is refused only if none fits.
tally compare_with_all(rng& r, std::size_t nodes, std::uint32_t stages_per_rank, int rounds, bool few_cuts) {
  tally t;
  for (int i = 0; i < rounds; ++i) {
    auto const g = random_chain(r, nodes - r.below(4));
    auto const ranks = static_cast<std::uint32_t>(2 + r.below(2));
    std::vector<std::uint32_t> rank_of;
    for (std::uint32_t s = 0; s < stages_per_rank * ranks; ++s) {
      auto const turn = s % (2 * ranks);
      rank_of.push_back(i % 2 == 0 ? s % ranks : std::min(turn, 2 * ranks - 1 - turn));
    }
    balance_options o{.cost_per_byte = 0.5};
    if (i % 3 == 1) o.speed = ranks == 2 ? cleave::per_part<double>{1, 2} : cleave::per_part<double>{1, 2, 3};
    if (i % 4 == 2) o.link = ranks == 2 ? cleave::per_part<double>{0, 1} : cleave::per_part<double>{2, 0, 1};
    auto const unlimited = best_of_all(g, rank_of, ranks, o);
    if (i % 5 > 2) o.memory = r.below(12);
    auto const best = o.memory.empty() ? unlimited : best_of_all(g, rank_of, ranks, o);
    t.limited += unlimited < best && best < std::numeric_limits<double>::infinity();
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
      if (few_cuts) REQUIRE(best == std::numeric_limits<double>::infinity());
      ++t.refused;
    }
  }
  return t;
}

}  // namespace

TEST_CASE("balance_ranks: finds the best of all cuts if there are few") {
  rng r(7);
  auto const rounds = cleave::testing::cases(60, 120);
  auto const t = compare_with_all(r, 13, 2, static_cast<int>(rounds), true);
  CHECK(t.found == t.cases);
  CHECK(t.limited > static_cast<int>(cleave::testing::cases(0, 5)));
  CHECK(t.refused > static_cast<int>(rounds / 24));
}

TEST_CASE("balance_ranks: comes close to the best of many cuts") {
  rng r(8);
  auto const t = compare_with_all(r, cleave::testing::cases(18, 23), 3, 6, false);
  CHECK(t.cases > 4);
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
  for (std::size_t i = 0; i < cleave::testing::cases(5, 30); ++i) {
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
  auto const nodes = cleave::testing::cases(40, 60);
  for (std::size_t i = 0; i < cleave::testing::cases(3, 40); ++i) {
    auto const g =
        cleave::testing::random_graph(r, {.nodes = nodes, .states = 3, .replicable = 9, .tied = 7});
    auto const made = balance_ranks(g, ranks_of({0, 1, 2, 2, 1, 0}), 3, {.cost_per_byte = 0.25});
    REQUIRE(!cleave::detail::find_backward_edge(g, made.stages));
    REQUIRE(!cleave::detail::find_split_group(g, made.stages));
    REQUIRE(!cleave::detail::find_unassigned_node(g, made.stages));
    auto const start = on_ranks(balance(g, 6, {.cost_per_byte = 0.25}), {0, 1, 2, 2, 1, 0}, 3);
    REQUIRE(made.bottleneck <= cleave::bottleneck(g, start, {.cost_per_byte = 0.25}) * (1 + 1e-9));
    REQUIRE(made.bound <= made.bottleneck);
  }
}

TEST_CASE(
    "balance_ranks: of general graphs, lies between the bound and the best of all cuts, and keeps limits") {
  rng r(11);
  int cases = 0, refused = 0;
  auto const rounds = static_cast<int>(cleave::testing::cases(40, 120));
  for (int i = 0; i < rounds; ++i) {
    auto const g = cleave::testing::random_graph(r, {.nodes = 7, .states = 2, .replicable = 5, .tied = 6});
    std::vector<std::uint32_t> const rank_of =
        i % 2 == 0 ? std::vector<std::uint32_t>{0, 1, 1, 0} : std::vector<std::uint32_t>{1, 0, 1};
    balance_options o{.cost_per_byte = 0.5};
    if (i % 3 == 1) o.memory = {4 + r.below(12), 4 + r.below(12)};
    if (i % 4 == 1) o.speed = {1, 3}, o.link = {1, 0};
    auto const least = best_assignment(g, {0, 1}, 2, {o.cost_per_byte, {}, o.speed, o.link},
                                       [](cleave::partition const&) { return true; });
    auto const best = best_assignment(g, rank_of, 2, o, [&](cleave::partition const& p) {
      return !cleave::detail::find_backward_edge(g, p) && !cleave::detail::find_empty_part(p);
    });
    CAPTURE(i);
    try {
      auto const made = balance_ranks(g, ranks_of(rank_of), 2, o);
      auto const q = on_ranks(made.stages, rank_of, 2);
      REQUIRE(made.rank_loads == cleave::part_loads(g, q, {o.cost_per_byte, o.speed, o.link}));
      REQUIRE(!cleave::find_overfull_part(g, q, o.memory));
      REQUIRE(made.bottleneck >= best * (1 - 1e-9));
      REQUIRE(made.bound <= least * (1 + 1e-9));
      REQUIRE(made.stages.bound <= made.stages.bottleneck);
      ++cases;
    } catch (cleave::infeasible_error const&) {
      if (o.memory.empty()) REQUIRE(best == std::numeric_limits<double>::infinity());  // too few units
      ++refused;
    }
  }
  CHECK(cases > rounds / 2);
  CHECK(refused > rounds / 24);
}

TEST_CASE("balance_ranks: one rank runs all, and a rank without a stage has no load") {
  snapshot_builder b;
  auto last = b.node(3, {b.input()}, 5);
  for (double const weight : {3.0, 6.0}) last = b.node(weight, {last}, 5);
  auto const g = b.build();
  auto const alone = balance_ranks(g, ranks_of({0, 0}), 1);
  CHECK(alone.rank_loads == std::vector<double>{12});
  CHECK(alone.bound == 12);
  CHECK(cleave::part_weights(g, alone.stages) == std::vector<double>{6, 6});
  CHECK(balance_ranks(g, ranks_of({2, 0}), 3, {.cost_per_byte = 0}).rank_loads ==
        std::vector<double>{6, 0, 6});
}

TEST_CASE("balance_ranks: refuses graphs without a node to place") {
  snapshot_builder b;
  auto const empty = b.build();
  auto const text = [](cleave::snapshot_arrays const& g) {
    return error_text([&] { balance_ranks(g, ranks_of({0, 0}), 1); });
  };
  CHECK(text(empty).find("the number of nodes to place is 0 ") != std::string::npos);
  b.node(1, {}, 4);
  b.replicable();
  CHECK(text(b.build()).find("the number of nodes to place is 0 ") != std::string::npos);
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
  CHECK(refused({0, 1}, 1, {}) == "balance_ranks: stage 1 is on rank 1, but there is only 1 rank");
  CHECK(refused({0}, 4'000'000'000, {}) ==
        "balance_ranks: there are 4000000000 ranks, but the graph has only 2 nodes; use fewer ranks");
  CHECK(refused({0, 1, 0, 1}, 2, {}) ==
        "the number of stages is 4, but the number of nodes to place is 2 (nodes that must share a stage "
        "count once); use a schedule with fewer stages");
  CHECK(refused(std::vector<std::uint32_t>(100'000), 1, {}).find("the number of stages is 100000,") == 0);
  CHECK(refused({0, 1}, 2, {.speed = {1, 2, 3}}) == "balance_ranks: 3 speeds are given for 2 parts");
}
