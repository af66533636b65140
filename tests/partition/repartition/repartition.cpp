// SPDX-License-Identifier: MIT
#include "cleave/partition/repartition/repartition.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "support/error_text.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using graph = adjacency<std::uint32_t, std::int64_t, std::int64_t>;

graph graph_of(std::size_t nodes, std::vector<std::array<std::size_t, 3>> const& edges) {
  std::vector<std::vector<std::array<std::size_t, 2>>> rows(nodes);
  for (auto const& [a, b, w] : edges) rows[a].push_back({b, w}), rows[b].push_back({a, w});
  graph g;
  for (auto const& row : rows) {
    for (auto const& [to, w] : row)
      g.targets.push_back(static_cast<std::uint32_t>(to)),
          g.edge_weight.push_back(static_cast<std::int64_t>(w));
    g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
  }
  return g;
}

graph random_graph(cleave::testing::rng& dice, std::size_t nodes, std::size_t edges) {
  std::vector<std::array<std::size_t, 3>> list;
  while (edges-- > 0)
    if (auto const a = dice.below(nodes), b = dice.below(nodes); a != b)
      list.push_back({a, b, 1 + dice.below(4)});
  auto g = graph_of(nodes, list);
  for (std::size_t n = 0; n < nodes; ++n)
    g.node_weight.push_back(static_cast<std::int64_t>(1 + dice.below(3)));
  return g;
}

/// A grid of side * side nodes.
graph grid(std::size_t side) {
  std::vector<std::array<std::size_t, 3>> edges;
  for (std::size_t y = 0; y < side; ++y)
    for (std::size_t x = 0; x < side; ++x) {
      if (x + 1 < side) edges.push_back({y * side + x, y * side + x + 1, 1});
      if (y + 1 < side) edges.push_back({y * side + x, (y + 1) * side + x, 1});
    }
  return graph_of(side * side, edges);
}

partition bands(std::size_t side, std::uint32_t k) {
  partition p{{}, k};
  for (std::size_t n = 0; n < side * side; ++n)
    p.of.push_back(part_id{static_cast<std::uint32_t>(n / side * k / side)});
  return p;
}

/// The objective and the excess weight of a partition, by definition.
struct verdict {
  std::int64_t excess = 0;
  double objective = 0;
};
verdict judge(graph const& g, partition const& old, partition const& p, repartition_options const& o) {
  verdict v;
  std::vector<std::int64_t> weight(p.parts);
  std::int64_t total = 0;
  for (std::size_t n = 0; n < p.of.size(); ++n) {
    weight[index(p.of[n])] += g.view().weight(n);
    total += g.view().weight(n);
    for (auto arc = g.offsets[n]; arc < g.offsets[n + 1]; ++arc)
      if (p.of[g.targets[arc]] != p.of[n])
        v.objective += 0.5 * static_cast<double>(g.view().weight_of_edge(arc));
    if (old.of[n] != no_part && old.of[n] != p.of[n])
      v.objective += o.cost_per_byte * static_cast<double>(o.bytes.empty() ? 1 : o.bytes[n]);
  }
  auto const fair = (total + p.parts - 1) / p.parts;
  auto const limit = fair + static_cast<std::int64_t>(o.kway.imbalance[0] * static_cast<double>(fair));
  for (auto const w : weight) v.excess += std::max<std::int64_t>(0, w - limit);
  return v;
}

bool has_empty_part(partition const& p) {
  std::vector<char> used(p.parts);
  for (auto const part : p.of) used[index(part)] = 1;
  return std::ranges::count(used, 0) > 0;
}

}  // namespace

TEST_CASE("repartition: is never worse than the old parts or a renumbered new cut, and mostly optimal") {
  cleave::testing::rng dice(6);
  int optimal = 0, rounds = 0;
  for (int round = 0; round < 120; ++round) {
    auto const nodes = 4 + dice.below(4);
    auto const k = static_cast<std::uint32_t>(2 + dice.below(2));
    auto const g = random_graph(dice, nodes, 2 * nodes);
    partition old{{}, k};
    for (std::size_t n = 0; n < nodes; ++n)
      old.of.push_back(part_id{static_cast<std::uint32_t>(dice.below(k))});
    repartition_options o{.cost_per_byte = static_cast<double>(dice.below(5)) / 2,
                          .bytes = {},
                          .stays = {},
                          .kway = {.imbalance = 0.3}};
    for (std::size_t n = 0; n < nodes; ++n) o.bytes.push_back(dice.below(3));
    auto const found = repartition(g.view(), old, k, o);
    auto const here = judge(g, old, found, o);
    REQUIRE(here.objective == doctest::Approx(found.objective));
    REQUIRE(found.parts == k);

    auto best = std::numeric_limits<double>::infinity();
    bool feasible = false;
    partition p{std::vector(nodes, part_id{0}), k};
    for (std::size_t code = 0; code < static_cast<std::size_t>(k == 2 ? 1 << nodes : 2187 * 3); ++code) {
      auto rest = code;
      for (auto& part : p.of) part = part_id{static_cast<std::uint32_t>(rest % k)}, rest /= k;
      if (rest > 0 || has_empty_part(p)) continue;
      auto const v = judge(g, old, p, o);
      if (v.excess > 0) continue;
      feasible = true;
      best = std::min(best, v.objective);
    }
    if (!feasible) continue;
    ++rounds;
    CHECK(found.within_limits);
    CHECK(here.excess == 0);
    CHECK_FALSE(has_empty_part(found));
    CHECK(found.objective >= best - 1e-9);
    optimal += found.objective <= best + 1e-9;

    if (auto const kept = judge(g, old, old, o); kept.excess == 0 && !has_empty_part(old))
      CHECK(found.objective <= kept.objective + 1e-9);
    auto const fresh = partition_kway(g.view(), k, o.kway);
    std::vector<std::uint32_t> number(k);
    std::iota(number.begin(), number.end(), 0u);
    if (fresh.within_limits) do {
        partition renamed = fresh;
        for (auto& part : renamed.of) part = part_id{number[index(part)]};
        CHECK(found.objective <= judge(g, old, renamed, o).objective + 1e-9);
      } while (std::ranges::next_permutation(number).found);
  }
  CHECK(rounds > 60);
  CHECK(optimal * 10 >= rounds * 8);
}

TEST_CASE("repartition: keeps good parts, and with free moves cuts no more than a new partition") {
  auto const g = grid(12);
  auto const old = bands(12, 4);
  auto const kept = repartition(g.view(), old, 4);
  CHECK(kept.way == repartition_way::kept);
  CHECK(kept.of == old.of);
  CHECK(kept.moved_bytes == 0);
  CHECK(kept.objective == kept.cut);

  auto const free = repartition(g.view(), old, 4, {.cost_per_byte = 0});
  CHECK(free.cut <= partition_kway(g.view(), 4).cut);
  CHECK(free.cut < kept.cut);  // squares, not bands
}

TEST_CASE("repartition: rebalances changed weights, and moves least if moving is most expensive") {
  auto g = grid(16);
  for (std::size_t n = 0; n < 256; ++n) g.node_weight.push_back(n < 64 ? 3 : 1);  // the first band grows
  auto const old = bands(16, 4);
  auto last = std::numeric_limits<std::uint64_t>::max();
  for (double const cost : {0.0, 0.25, 1.0, 100.0}) {
    auto const found = repartition(g.view(), old, 4, {.cost_per_byte = cost});
    CHECK(found.within_limits);
    CHECK(found.imbalance <= 0.03);
    CHECK(found.moved_bytes == found.moved_nodes);
    last = std::min(last, found.moved_bytes);
    if (cost == 100) CHECK(found.moved_bytes == last);
  }
  CHECK(last <= 120);  // of 256: about 32 leave the first band, and half as many pass through each later band
}

TEST_CASE("repartition: keeps nodes that must stay or are fixed, and moves new nodes for free") {
  auto const g = grid(8);
  auto old = bands(8, 2);
  repartition_options o{
      .cost_per_byte = 0.1, .bytes = {}, .stays = std::vector<char>(64), .kway = {.imbalance = 0.1}};
  std::swap(old.of[0], old.of[63]);  // two misplaced nodes
  o.stays[0] = 1;
  auto const found = repartition(g.view(), old, 2, o);
  CHECK(found.of[0] == old.of[0]);
  CHECK(found.of[63] != old.of[63]);
  o.kway.fixed.assign(64, no_part);
  o.kway.fixed[63] = old.of[63];
  o.kway.fixed[9] = part_id{1};
  auto const fixed = repartition(g.view(), old, 2, o);
  CHECK(fixed.of[63] == old.of[63]);
  CHECK(fixed.of[9] == part_id{1});

  for (std::size_t n = 10; n < 14; ++n) old.of[n] = no_part;
  auto const grown = repartition(g.view(), old, 2, {.cost_per_byte = 1000});
  CHECK(grown.moved_bytes == 0);  // new nodes move for free
  CHECK(grown.within_limits);
  for (std::size_t n = 0; n < 64; ++n) CHECK((old.of[n] == no_part || grown.of[n] == old.of[n]));
}

TEST_CASE("repartition: accepts more and fewer parts and moves few nodes") {
  auto const g = grid(12);
  auto const old = bands(12, 4);
  auto const more = repartition(g.view(), old, 6, {.cost_per_byte = 5});
  CHECK(more.parts == 6);
  CHECK(more.within_limits);
  CHECK_FALSE(has_empty_part(more));
  CHECK(more.moved_nodes >= 48);  // two parts of 24 are filled
  CHECK(more.moved_nodes <= 60);
  auto const fewer = repartition(g.view(), old, 3, {.cost_per_byte = 5});
  CHECK(fewer.parts == 3);
  CHECK(fewer.within_limits);
  CHECK(fewer.moved_nodes >= 36);  // the nodes of part 3
  CHECK(fewer.moved_nodes <= 60);
  CHECK(repartition(g.view(), old, 1).cut == 0);
}

TEST_CASE("repartition: accepts floating-point weights, unequal shares and no nodes") {
  auto const whole = grid(10);
  adjacency<std::uint32_t, double, float> g{.offsets = whole.offsets,
                                            .targets = whole.targets,
                                            .node_weight = std::vector<double>(100, 0.125),
                                            .edge_weight = std::vector<float>(whole.targets.size(), 0.5f)};
  repartition_options o{.cost_per_byte = 0.3, .bytes = {}, .stays = {}, .kway = {.share = {3.0, 1.0}}};
  auto const found = repartition(g.view(), bands(10, 2), 2, o);
  CHECK(found.within_limits);
  CHECK(found.part_weights[0] <= 12.5 * 0.75 * 1.03 + 1e-9);
  CHECK(found.part_weights[1] <= 12.5 * 0.25 * 1.03 + 1e-9);
  CHECK(found.objective == doctest::Approx(found.cut + 0.3 * static_cast<double>(found.moved_bytes)));
  CHECK(repartition(graph().view(), {{}, 2}, 3).of.empty());
}

TEST_CASE("repartition: gives the same parts with 1 and 2 threads") {
  auto const g = grid(30);
  repartition_options o{.cost_per_byte = 0.5, .bytes = {}, .stays = {}, .kway = {.seed = 7}};
  auto const one = repartition(g.view(), bands(30, 5), 5, o);
  o.kway.threads = 2;
  CHECK(repartition(g.view(), bands(30, 5), 5, o).of == one.of);
}

TEST_CASE("repartition: rejects invalid input and explains why") {
  auto const g = grid(3);
  auto const old = bands(3, 3);
  auto const said = [&](repartition_options const& o, partition const& p, std::uint32_t k = 3) {
    return cleave::testing::error_text<repartition_error>([&] { repartition(g.view(), p, k, o); });
  };
  CHECK(said({.cost_per_byte = -1}, old) ==
        "repartition: cost_per_byte is negative or not finite: expected a finite number of at least 0");
  CHECK(said({}, bands(2, 2)) ==
        "repartition: the old partition has 4 entries, but the number of nodes is 9");
  CHECK(said({.bytes = {1}}, old) ==
        "repartition: `bytes` has 1 entries for a graph of 9 nodes: give one entry per node, or none");
  std::vector<std::uint64_t> huge(9, 1);
  huge[4] = std::uint64_t{1} << 63;
  CHECK(said({.bytes = huge}, old) == "repartition: the sum of `bytes` reaches 2^63 at node #4");
  CHECK(said({.stays = {1}}, old) ==
        "repartition: `stays` has 1 entries for a graph of 9 nodes: give one entry per node, or none");
  CHECK(said({.stays = std::vector<char>(9, 1)}, old, 2) ==
        "repartition: node #6 must stay, but its old part is not one of the 2 parts");
  repartition_options o{.stays = std::vector<char>(9, 1)};
  o.kway.fixed.assign(9, part_id{0});
  CHECK(said(o, old) == "repartition: node #3 must stay, but is fixed to another part");
  CHECK(said({}, old, 4'000'000'000) ==
        "repartition: 4000000000 parts are requested for a graph of 9 nodes: request at most the "
        "number of nodes + 65,536");
  CHECK(said({}, old) == "accepted");
  CHECK_THROWS_AS(repartition(g.view(), old, 0), kway_option_error);
}
