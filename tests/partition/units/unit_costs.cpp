// SPDX-License-Identifier: MIT
#include "cleave/partition/units/units.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

namespace {

using index_type = std::uint32_t;
using cleave::testing::snapshot_builder;

cleave::unit_costs<index_type> costs(cleave::snapshot_arrays const& g, cleave::load_model const& model = {},
                                     std::uint32_t parts = 2) {
  return cleave::costs_of(g, cleave::detail::units_of(g), parts, model);
}

std::string message(auto act) {
  try {
    act();
  } catch (cleave::detail::overflow_error const& e) {
    return std::to_string(e.witness) + ": " + e.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("costs_of: weights and transfers equal sums over the nodes of each unit") {
  cleave::testing::rng r(1);
  for (int i = 0; i < 200; ++i) {
    auto const g =
        random_graph(r, {.nodes = r.below(14), .states = 2, .replicable = 5, .tied = 4, .ordered = 5});
    auto const u = cleave::detail::units_of(g);
    auto const parts = static_cast<std::uint32_t>(1 + r.below(4));
    std::vector<double> speed;
    for (std::uint32_t s = 0; s < parts; ++s)
      speed.push_back(cleave::detail::power_of_two(static_cast<int>(r.below(3))));
    auto const c = cleave::costs_of(g, u, parts, {.cost_per_byte = 0.25, .speed = speed});

    double const most = std::ranges::max(speed);
    double sum = 0;
    std::int64_t bits = 0;
    REQUIRE(c.units() == u.size());
    for (std::uint32_t s = 0; s < parts; ++s) {
      sum += speed[s] / most;
      REQUIRE((c.speed_of[s] == c.fastest) == (speed[s] == most));
      for (std::size_t unit = 0; unit < u.size(); ++unit) {
        double weight = 0;
        for (auto const n : u.members[unit]) weight += g.weight[n];
        REQUIRE(c.scale.value(c.weight[c.speed_of[s]][unit]) == weight / speed[s]);
        bits |= c.weight[c.speed_of[s]][unit];
      }
    }
    REQUIRE(c.relative_speed == sum);

    std::size_t row = 0;
    for (index_type v = 0; v < g.values(); ++v) {
      if (g.from[v] != cleave::source::node || g.replicable[g.producer[v]] || g.bytes[v] == 0) continue;
      std::set<index_type> units{u.of[g.producer[v]]};
      for (auto const n : g.users[v])
        if (!g.replicable[n]) units.insert(u.of[n]);
      if (units.size() < 2) continue;
      REQUIRE(row < c.transfer.size());
      REQUIRE(c.scale.value(c.transfer[row]) == 0.25 * static_cast<double>(g.bytes[v]));
      REQUIRE(c.touching[row].size() == units.size());
      REQUIRE(std::set<index_type>(c.touching[row].begin(), c.touching[row].end()) == units);
      for (auto const unit : units) REQUIRE(std::ranges::count(c.touched[unit], row) == 1);
      bits |= c.transfer[row++];
    }
    REQUIRE(c.transfer.size() == row);
    REQUIRE(c.touched.item.size() == c.touching.item.size());
    REQUIRE((bits == 0 || bits % 2 == 1));  // the scale is no finer than the costs need
  }
}

TEST_CASE("costs_of: rounds any costs to 2^-60 of their sum") {
  cleave::testing::rng r(2);
  for (int i = 0; i < 200; ++i) {
    auto g = random_graph(r, {.nodes = 1 + r.below(9)});
    double const unit = cleave::detail::power_of_two(static_cast<int>(r.below(1800)) - 900);
    for (auto& w : g.weight) w = r.unit() * unit;
    auto const c = costs(g, {.cost_per_byte = r.unit() * unit});
    double total = 0;
    for (std::size_t n = 0; n < g.nodes(); ++n) total += g.weight[n];
    for (std::size_t v = 0; v < c.transfer.size(); ++v)
      total += 2 * static_cast<double>(c.touching[v].size()) * c.scale.value(c.transfer[v]);
    for (std::size_t n = 0; n < g.nodes(); ++n)
      REQUIRE(cleave::magnitude(c.scale.value(c.weight[0][n]) - g.weight[n]) <= total * 0x1p-60);
    std::int64_t sum = 0;
    for (auto const w : c.weight[0]) sum += w;
    for (std::size_t v = 0; v < c.transfer.size(); ++v)
      sum += 2 * c.transfer[v] * static_cast<std::int64_t>(c.touching[v].size());
    REQUIRE(sum <= (std::int64_t{1} << 60) + 100);  // each cost is rounded
  }
}

TEST_CASE("costs_of: accepts an empty graph and omits transfers that cost nothing") {
  CHECK(costs(cleave::snapshot_arrays()).units() == 0);
  snapshot_builder b;
  b.node(4, {b.node(0, {}, 100)});
  CHECK(costs(b.build()).transfer.size() == 1);
  auto const c = costs(b.build(), {.cost_per_byte = 0});
  CHECK(c.transfer.empty());
  CHECK(c.weight == std::vector<std::vector<std::int64_t>>{{0, 1}});
  CHECK(c.scale.value(1) == 4);
  CHECK(c.relative_speed == 2);
}

TEST_CASE("find_bad_weight: returns the first weight that is negative, infinite or NaN") {
  using limits = std::numeric_limits<double>;
  snapshot_builder b;
  for (double const w : {0.0, -0.0, 1.0, limits::max(), limits::denorm_min()}) b.node(w);
  auto g = b.build();
  CHECK(!cleave::detail::find_bad_weight(g));
  CHECK(!cleave::detail::find_bad_weight(cleave::snapshot_arrays()));
  g.weight[4] = -1;
  for (double const w :
       {-limits::denorm_min(), -limits::infinity(), limits::infinity(), limits::quiet_NaN()}) {
    g.weight[2] = w;
    CHECK(cleave::detail::find_bad_weight(g) == 2);
  }
}

TEST_CASE("costs_of: sums that are not finite are an error that names the node") {
  double const most = std::numeric_limits<double>::max();
  snapshot_builder b;
  auto const x = b.node(most, {}, 3);
  b.node(0, {x});
  CHECK(costs(b.build()).units() == 2);
  CHECK(message([&] {
          costs(b.build(), {.speed = {1, 0.5}});
        }).starts_with("0: the weights, summed up to node #0"));
  CHECK(message([&] { costs(b.build(), {.cost_per_byte = most}); }).starts_with("0: the transfer costs"));
  b.node(most);
  b.name("heavy");
  CHECK(message([&] { costs(b.build()); }) ==
        "2: the weights, summed up to node heavy (#2), are not finite; scale them down");
}
