// SPDX-License-Identifier: MIT
#include "cleave/partition/repartition/repartition_stages.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cleave/partition/model/validity.hpp"
#include "support/cases.hpp"
#include "support/error_text.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// A chain of nodes with these weights and values of 0 bytes.
snapshot_arrays chain(std::vector<double> const& weights) {
  cleave::testing::snapshot_builder b;
  auto value = b.input(0);
  for (double const w : weights) value = b.node(w, {value}, 0);
  return b.build();
}

partition in_blocks(std::size_t nodes, std::uint32_t k) {
  partition p{{}, k};
  for (std::size_t n = 0; n < nodes; ++n) p.of.push_back(part_id{static_cast<std::uint32_t>(n * k / nodes)});
  return p;
}

std::size_t moved_between(partition const& old, partition const& p) {
  std::size_t moved = 0;
  for (std::size_t n = 0; n < p.of.size(); ++n)
    moved += old.of[n] != no_part && p.of[n] != no_part && p.of[n] != old.of[n];
  return moved;
}

}  // namespace

TEST_CASE("repartition_stages: is never worse than the old or balanced stages, and mostly optimal") {
  cleave::testing::rng dice(13);
  int optimal = 0;
  auto const rounds = static_cast<int>(testing::cases(40, 100));
  for (int round = 0; round < rounds; ++round) {
    auto const g = cleave::testing::random_graph(dice, {.nodes = 7, .reach = 4, .tied = 6});
    auto const k = static_cast<std::uint32_t>(2 + dice.below(2));
    auto const old = [&] {  // balanced before the weights changed
      auto before = g;
      for (auto& w : before.weight) w = static_cast<double>(dice.below(9));
      return balance(before, k);
    }();
    stage_repartition_options o{.cost_per_moved_byte = static_cast<double>(dice.below(6)),
                                .balance = {.cost_per_byte = 0.5}};
    auto const parts = static_cast<std::uint32_t>(std::max<std::size_t>(1, old.parts));
    auto const found = repartition_stages(g, old, parts, o);
    auto const cost = [&](partition const& p) {
      return bottleneck(g, p, {.cost_per_byte = 0.5}) +
             o.cost_per_moved_byte * static_cast<double>(moved_between(old, p));
    };
    CHECK(found.objective == doctest::Approx(cost(found)));
    CHECK(found.moved_nodes == moved_between(old, found));
    CHECK_FALSE(find_backward_edge(g, found));
    CHECK_FALSE(find_split_group(g, found));
    CHECK_FALSE(find_empty_part(found));
    CHECK(found.objective <= cost(old) + 1e-9);
    CHECK(found.objective <= cost(balance(g, parts, o.balance)) + 1e-9);

    auto best = std::numeric_limits<double>::infinity();
    partition p{std::vector(g.nodes(), part_id{0}), parts};
    std::size_t all = 1;
    for (std::size_t n = 0; n < g.nodes(); ++n) all *= parts;
    for (std::size_t code = 0; code < all; ++code) {
      auto rest = code;
      for (auto& part : p.of) part = part_id{static_cast<std::uint32_t>(rest % parts)}, rest /= parts;
      if (find_empty_part(p) || find_backward_edge(g, p) || find_split_group(g, p)) continue;
      best = std::min(best, cost(p));
    }
    CHECK(found.objective >= best - 1e-9);
    optimal += found.objective <= best + 1e-9;
  }
  CHECK(optimal >= rounds * 7 / 10);
}

TEST_CASE("repartition_stages: obeys limits, pins, speeds and links, and is no worse than legal old stages") {
  cleave::testing::rng dice(14);
  int legal = 0, infeasible = 0;
  auto const rounds = static_cast<int>(testing::cases(100, 300));
  for (int round = 0; round < rounds; ++round) {
    auto const g = cleave::testing::random_graph(dice, {.nodes = 1 + dice.below(30), .reach = 6, .tied = 6});
    auto const k = static_cast<std::uint32_t>(1 + dice.below(4));
    stage_repartition_options o{.cost_per_moved_byte = static_cast<double>(dice.below(4)) / 4,
                                .balance = {.cost_per_byte = 0.5, .empty = empty_parts::allowed}};
    std::vector<double> speed, link;
    for (std::uint32_t s = 0; s < k; ++s) {
      speed.push_back(static_cast<double>(1 + dice.below(3)));
      link.push_back(static_cast<double>(dice.below(3)));
    }
    o.balance.speed = speed;
    o.balance.link = link;
    auto const old = balance(g, k, o.balance);
    auto changed = g;
    for (auto& w : changed.weight) w = static_cast<double>(dice.below(9));
    for (std::size_t n = 0; n < g.nodes(); ++n) {
      o.balance.node_memory.push_back(dice.below(5));
      o.balance.fixed.push_back(dice.one_in(15) ? old.of[n] : no_part);
    }
    if (dice.one_in(2)) o.balance.memory = 4 + 2 * g.nodes() / k + dice.below(8);
    auto const cost = [&](partition p) {
      p.parts = k;
      return bottleneck(changed, p, {.cost_per_byte = 0.5, .speed = speed, .link = link}) +
             o.cost_per_moved_byte * static_cast<double>([&] {
               std::size_t bytes = 0;
               for (std::size_t n = 0; n < p.of.size(); ++n)
                 bytes += p.of[n] != old.of[n] ? o.balance.node_memory[n] : 0;
               return bytes;
             }());
    };
    try {
      auto const found = repartition_stages(changed, old, k, o);
      CHECK(found.objective == doctest::Approx(cost(found)));
      CHECK_FALSE(find_backward_edge(changed, found));
      CHECK_FALSE(find_split_group(changed, found));
      CHECK_FALSE(find_overfull_part(changed, found, o.balance.memory, o.balance.node_memory));
      for (std::size_t n = 0; n < g.nodes(); ++n)
        if (o.balance.fixed[n] != no_part) CHECK(found.of[n] == o.balance.fixed[n]);
      partition all = old;
      all.parts = k;
      if (find_overfull_part(changed, all, o.balance.memory, o.balance.node_memory)) continue;
      CHECK(found.objective <= cost(old) + 1e-9);
      ++legal;
    } catch (infeasible_error const&) {
      ++infeasible;
    }
  }
  CHECK(legal > rounds / 3);
  CHECK(infeasible < rounds / 2);
}

TEST_CASE("repartition_stages: moves nodes of a chain only if that pays") {
  auto const old = in_blocks(8, 2);
  auto const g = chain({3, 3, 3, 3, 1, 1, 1, 1});  // 12 and 4
  auto const free = repartition_stages(g, old, 2, {.cost_per_moved_byte = 0});
  CHECK(free.bottleneck == 9);
  CHECK(free.moved_nodes == 1);
  auto const cheap = repartition_stages(g, old, 2, {.cost_per_moved_byte = 1});
  CHECK(cheap.objective == 10);
  auto const dear = repartition_stages(g, old, 2, {.cost_per_moved_byte = 4});
  CHECK(dear.moved_nodes == 0);
  CHECK(dear.objective == 12);
  stage_repartition_options stays{.cost_per_moved_byte = 0, .stays = std::vector<char>(8)};
  stays.stays[3] = 1;
  CHECK(repartition_stages(g, old, 2, stays).bottleneck == 12);
}

TEST_CASE("repartition_stages: accepts more and fewer parts, new nodes and other starts") {
  auto const g = chain(std::vector<double>(12, 1));
  auto const old = in_blocks(12, 3);
  auto const more = repartition_stages(g, old, 4, {.cost_per_moved_byte = 0.01});
  CHECK(more.parts == 4);
  CHECK(more.bottleneck == 3);
  auto const fewer = repartition_stages(g, old, 2, {.cost_per_moved_byte = 0.01});
  CHECK(fewer.bottleneck == 6);
  auto grown = old;
  grown.of[5] = no_part;
  auto const kept = repartition_stages(g, grown, 3);
  CHECK(kept.of == old.of);
  CHECK(kept.moved_bytes == 0);
  stage_repartition_options o{.cost_per_moved_byte = 0, .starts = {in_blocks(12, 2), partition{}}};
  CHECK(repartition_stages(g, in_blocks(12, 1), 2, o).bottleneck == 6);
}

TEST_CASE("repartition_stages: moves nodes if memory no longer suffices, and throws if nothing fits") {
  auto const g = chain({1, 1, 1, 1});
  stage_repartition_options o{.cost_per_moved_byte = 100, .balance = {.memory = std::size_t{6}}};
  o.balance.node_memory = {4, 4, 1, 1};
  auto const found = repartition_stages(g, in_blocks(4, 2), 2, o);
  CHECK(found.of[0] != found.of[1]);
  CHECK(found.moved_bytes == 4);
  o.balance.node_memory = {4, 4, 4, 4};
  CHECK_THROWS_AS(repartition_stages(g, in_blocks(4, 2), 2, o), infeasible_error);
}

TEST_CASE("repartition_stages: rejects invalid input and explains why") {
  auto const g = chain({1, 1, 1});
  auto const said = [&](stage_repartition_options const& o, std::size_t nodes, std::uint32_t k) {
    return cleave::testing::error_text([&] { repartition_stages(g, in_blocks(nodes, 3), k, o); });
  };
  CHECK(said({}, 3, 3) == "accepted");
  CHECK(said({.cost_per_moved_byte = -1}, 3, 3) ==
        "repartition_stages: cost_per_moved_byte is negative or not finite: expected a finite number of at "
        "least 0");
  CHECK(said({}, 4, 3) == "repartition_stages: the old partition has 4 entries, but the graph has 3 nodes");
  CHECK(said({.moving = {1}}, 3, 3) == "repartition_stages: moving has 1 entries, but the graph has 3 nodes");
  CHECK(said({.stays = {1}}, 3, 3) == "repartition_stages: stays has 1 entries, but the graph has 3 nodes");
  CHECK(said({.stays = {1, 1, 1}}, 3, 2) ==
        "repartition_stages: node #2 must stay, but its old part is not one of the 2 parts");
  CHECK(said({}, 3, 0).find("k is 0; pass at least 1") != std::string::npos);
}
