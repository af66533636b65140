// SPDX-License-Identifier: MIT
// Values that pass through all parts between their producer and their readers: `balance_options::relayed`.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "cleave/partition/acyclic/acyclic.hpp"
#include "cleave/partition/exact/exact.hpp"
#include "cleave/partition/model/metrics.hpp"
#include "cleave/partition/repartition/repartition_stages.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "support/error_text.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

namespace {

using cleave::testing::error_text;
using cleave::testing::random_graph;
using cleave::testing::rng;
using cleave::testing::snapshot_builder;

/// The loads of parts, counted hop by hop.
std::vector<double> hop_loads(cleave::snapshot_arrays const& g, cleave::partition const& p,
                              double cost_per_byte) {
  auto load = cleave::part_weights(g, p);
  for (std::size_t v = 0; v < g.values(); ++v) {
    auto const n = g.producer[v];
    if (n == cleave::none<std::uint32_t> || p.of[n] == cleave::no_part) continue;
    for (std::uint32_t hop = 0; hop + 1 < p.parts; ++hop) {  // from part `hop` to the next one
      bool crosses = false;
      for (auto const user : g.users[v])
        if (p.of[user] != cleave::no_part)
          crosses |= std::min(index(p.of[n]), index(p.of[user])) <= hop &&
                     hop < std::max(index(p.of[n]), index(p.of[user]));
      if (!crosses) continue;
      load[hop] += cost_per_byte * static_cast<double>(g.bytes[v]);
      load[hop + 1] += cost_per_byte * static_cast<double>(g.bytes[v]);
    }
  }
  return load;
}

}  // namespace

TEST_CASE("part_loads: a relayed value counts once for each end of each hop") {
  rng r(3);
  for (int i = 0; i < 200; ++i) {
    auto const g = random_graph(r, {.nodes = 12});
    auto const p = cleave::testing::random_partition(r, g.nodes(), 5);  // edges run backward too
    CHECK(cleave::part_loads(g, p, {.cost_per_byte = 2, .relayed = true}) == hop_loads(g, p, 2));
  }
}

TEST_CASE("balance: relayed: the loads are those of part_loads, and no cut of a chain is better") {
  rng r(4);
  for (int i = 0; i < 80; ++i) {
    snapshot_builder b;
    std::vector<std::uint32_t> made;
    for (std::size_t n = 0; n < 11; ++n) {
      std::vector<std::uint32_t> operands;
      if (n > 0) operands.push_back(made.back());
      if (n > 1 && r.one_in(2)) operands.push_back(made[r.below(n)]);
      made.push_back(b.node(static_cast<double>(r.below(20)), operands, r.below(6)));
    }
    auto const g = b.build();
    cleave::balance_options o{.cost_per_byte = 1, .relayed = true};
    if (i % 3 > 0) o.link = {1, 0, 2, 0.5};
    if (i % 3 > 1) o.speed = {1, 2, 4, 1};
    cleave::load_model const model{o.cost_per_byte, o.speed, o.link, true};
    auto const p = cleave::balance(g, 4, o);
    REQUIRE(p.loads == cleave::part_loads(g, p, model));
    double best = std::numeric_limits<double>::infinity();
    for (std::uint32_t bits = 0; bits < 1u << 10; ++bits) {
      if (std::popcount(bits) != 3) continue;
      cleave::partition q{{}, 4};
      std::uint32_t part = 0;
      for (std::size_t n = 0; n < 11; ++n) {
        q.of.push_back(cleave::part_id{part});
        part += bits >> n & 1;
      }
      best = std::min(best, cleave::bottleneck(g, q, model));
    }
    REQUIRE(p.bottleneck == best);
    REQUIRE(p.bound <= best);
    o.relayed = false;
    REQUIRE(p.bottleneck >= cleave::balance(g, 4, o).bottleneck);
  }
}

TEST_CASE("balance: relayed: general graphs, speeds and links") {
  rng r(5);
  for (int i = 0; i < 60; ++i) {
    auto const g = random_graph(r, {.nodes = 40, .replicable = 9, .tied = 8});
    cleave::balance_options o{.cost_per_byte = 0.5, .relayed = true};
    if (i % 2 == 0) o.speed = {1, 2, 4}, o.link = {1, 0, 2};
    auto const p = cleave::balance(g, 3, o);
    REQUIRE(p.parts == 3);
    auto const loads = cleave::part_loads(g, p, {o.cost_per_byte, o.speed, o.link, true});
    for (std::size_t s = 0; s < loads.size(); ++s)
      REQUIRE(std::abs(loads[s] - p.loads[s]) <= 1e-9 * (1 + loads[s]));
  }
}

TEST_CASE("balance: relayed: large sums do not overflow") {
  snapshot_builder b;
  auto const first = b.node(1, {b.input()}, std::size_t{1} << 40);
  auto last = first;
  for (int n = 0; n < 2000; ++n) last = b.node(1, {last, first}, std::size_t{1} << 40);
  auto const g = b.build();
  auto const p = cleave::balance(g, 8, {.relayed = true});
  auto const loads = cleave::part_loads(g, p, {.relayed = true});
  for (std::size_t s = 0; s < loads.size(); ++s) CHECK(p.loads[s] == doctest::Approx(loads[s]).epsilon(1e-7));
}

TEST_CASE("balance: relayed: other partitioners and empty parts are refused") {
  snapshot_builder b;
  b.node(1, {b.node(1, {b.input()})});
  auto const g = b.build();
  cleave::balance_options const o{.relayed = true};
  char const only[] = "`relayed` is supported by balance only; leave it out";
  CHECK(error_text([&] { cleave::partition_exact(g, 2, {.balance = o}); }).find(only) != std::string::npos);
  CHECK(error_text([&] { cleave::partition_acyclic(g, 2, {.limits = o}); }).find(only) != std::string::npos);
  cleave::partition const old{{cleave::part_id{0}, cleave::part_id{1}}, 2};
  CHECK(error_text([&] { cleave::repartition_stages(g, old, 2, {.balance = o}); }).find(only) !=
        std::string::npos);
  CHECK(error_text([&] {
          cleave::balance(g, 2, {.relayed = true, .empty = cleave::empty_parts::allowed});
        }).find("needs parts that are not empty") != std::string::npos);
}
