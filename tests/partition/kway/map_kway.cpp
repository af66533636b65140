// SPDX-License-Identifier: MIT
#include "cleave/partition/kway/map_kway.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/partition/kway/machine.hpp"
#include "cleave/partition/verify/verify_partition.hpp"
#include "support/cases.hpp"
#include "support/error_text.hpp"
#include "support/rng.hpp"
#include "support/small_adjacency.hpp"

using namespace cleave;
using cleave::testing::rng;

namespace {

constexpr kway_preset presets[] = {kway_preset::fast, kway_preset::standard, kway_preset::quality};

/// Finds the cheapest mapping in which no place has more than `limit` nodes, by trying all.
std::int64_t cheapest(adjacency<std::uint32_t> const& g, machine const& m, std::size_t limit) {
  auto least = (std::numeric_limits<std::int64_t>::max)();
  partition p{.of = std::vector<part_id>(g.view().nodes(), part_id{0}), .parts = m.places()};
  for (;;) {
    std::vector<std::size_t> size(m.places(), 0);
    for (auto const place : p.of) ++size[index(place)];
    if (*std::ranges::max_element(size) <= limit)
      least = (std::min)(least, communication_cost(g.view(), p, m));
    std::size_t n = 0;
    while (n < p.of.size() && index(p.of[n]) + 1 == m.places()) p.of[n++] = part_id{0};
    if (n == p.of.size()) return least;
    p.of[n] = part_id{index(p.of[n]) + 1};
  }
}

std::string machine_fault(auto make) { return testing::error_text<detail::machine_error>(make); }

}  // namespace

TEST_CASE("machine: distances of groups, tables and networks") {
  auto const boards = machine::hierarchy({2, 3, 2}, {1, 5, 20});
  CHECK(boards.places() == 12);
  CHECK(boards.distance(0, 0) == 0);
  CHECK(boards.distance(0, 1) == 1);
  CHECK(boards.distance(1, 2) == 5);
  CHECK(boards.distance(5, 6) == 20);
  CHECK(boards.diameter() == 20);
  std::vector<std::int64_t> table;
  for (std::uint32_t a = 0; a < 12; ++a)
    for (std::uint32_t b = 0; b < 12; ++b) table.push_back(boards.distance(a, b));
  auto const same = machine::of_distances(12, table);
  CHECK(same.distance(5, 6) == 20);
  CHECK(same.sizes().empty());
  auto const ring =
      machine::network(testing::adjacency_of(4, {{0, 1, 2}, {1, 2, 2}, {2, 3, 2}, {3, 0, 9}}).view());
  CHECK(ring.distance(0, 3) == 6);
  CHECK(ring.distance(3, 1) == 4);
}

TEST_CASE("machine: refuses descriptions that make no sense, and names the fault") {
  CHECK(machine_fault([] { machine::hierarchy({}, {}); }).find("at least one") != std::string::npos);
  CHECK(machine_fault([] { machine::hierarchy({2, 2}, {1}); }).find("2 sizes") != std::string::npos);
  CHECK(machine_fault([] { machine::hierarchy({2, 0}, {1, 2}); }).find("size 1 is 0") != std::string::npos);
  CHECK(machine_fault([] { machine::hierarchy({2}, {-1}); }).find("distance 0 is -1") != std::string::npos);
  CHECK(machine_fault([] { machine::hierarchy({60'000, 60'000, 60'000}, {1, 1, 1}); }).find("65,536") !=
        std::string::npos);
  CHECK(machine_fault([] { machine::of_distances(2, {0, 1, 1}); }).find("has 3 entries") !=
        std::string::npos);
  CHECK(machine_fault([] {
          machine::of_distances(2, {0, 1, 2, 0});
        }).find("places 1 and 0 is not the same") != std::string::npos);
  CHECK(machine_fault([] {
          machine::of_distances(2, {0, 1, 1, 3});
        }).find("place 1 has a distance to itself") != std::string::npos);
  CHECK(machine_fault([] { machine::of_distances(0, {}); }).find("0 places") != std::string::npos);
  CHECK(machine_fault([] {
          machine::network(testing::adjacency_of(3, {{0, 1, 1}}).view());
        }).find("no path leads from place 0 to place 2") != std::string::npos);
}

TEST_CASE("map_kway: finds the cheapest mapping of most small graphs") {
  rng r(4);
  int optimal = 0, all = 0;
  for (std::size_t i = 0; i < testing::cases(5, 30); ++i) {
    auto const g = testing::random_adjacency(r, 8, 10 + r.below(6), 1);
    adjacency<std::uint32_t> plain;
    plain.offsets = g.offsets, plain.targets = g.targets;
    for (auto const& m :
         {machine::hierarchy({2, 2}, {1, 7}), machine::of_distances(3, {0, 1, 4, 1, 0, 1, 4, 1, 0})}) {
      auto const limit = (plain.view().nodes() + m.places() - 1) / m.places();
      auto const p = map_kway(plain.view(), m, {.preset = kway_preset::quality, .imbalance = 0});
      CHECK(p.within_limits);
      CHECK(p.cost == communication_cost(plain.view(), p, m));
      auto const least = cheapest(plain, m, limit);
      CHECK(p.cost >= least);
      optimal += p.cost == least, ++all;
    }
  }
  CHECK(optimal > all / 2);
  MESSAGE(optimal, " of ", all, " mappings are optimal");
}

TEST_CASE("map_kway: keeps limits and fixed nodes, for a seed whatever the threads") {
  rng r(9);
  for (std::size_t i = 0; i < testing::cases(4, 20); ++i) {
    auto const g = testing::random_adjacency(r, 20 + r.below(200), 60 + r.below(500), 5);
    auto const m = i % 2 == 0 ? machine::hierarchy({2, 1, 3}, {1, 3, 30})
                              : machine::network(testing::grid_adjacency(3, 2).view());
    kway_options o{.preset = presets[r.below(3)], .imbalance = 0.2};
    if (r.one_in(2)) {
      o.fixed.assign(g.view().nodes(), no_part);
      for (std::uint32_t n = 0; n < 4; ++n) o.fixed[r.below(o.fixed.size())] = part_id{n};
    }
    auto const p = map_kway(g.view(), m, o);
    auto const v = verify_partition(g.view(), p, {.imbalance = 0.2});
    bool const is_heavy =
        std::ranges::any_of(v.findings, [](auto const& f) { return f.what == partition_fault::overweight; });
    if (p.within_limits && o.fixed.empty()) CHECK(!is_heavy);
    for (std::size_t n = 0; n < o.fixed.size(); ++n)
      if (o.fixed[n] != no_part) CHECK(p.of[n] == o.fixed[n]);
    CHECK(p.cost == communication_cost(g.view(), p, m));
    CHECK(p.cut == v.cut);
    o.threads = 3;
    CHECK(map_kway(g.view(), m, o).of == p.of);
  }
}

TEST_CASE("map_kway: a mapped grid costs less than parts in any order, and real weights work") {
  auto const side = static_cast<std::uint32_t>(testing::cases(24, 40));
  auto const g = testing::grid_adjacency(side, side);
  auto const m = machine::hierarchy({4, 4}, {1, 100});
  for (auto const preset : presets) {
    auto const mapped = map_kway(g.view(), m, {.preset = preset});
    auto const free = partition_kway(g.view(), 16, {.preset = preset});
    CHECK(mapped.within_limits);
    CHECK(mapped.cost <= communication_cost(g.view(), free, m));
    CHECK(mapped.cost <=
          100 * side * 9 / 4);  // two straight cuts between the four boards have 2 * side edges
  }
  adjacency<std::uint32_t, double> real;
  real.offsets = g.offsets, real.targets = g.targets;
  real.edge_weight.assign(g.targets.size(), 0.25);
  auto const p = map_kway(real.view(), m);
  CHECK(p.cost == communication_cost(real.view(), p, m));
  CHECK(p.cost <= 0.25 * 100 * side * 9 / 4);
}

TEST_CASE("map_kway: refuses costs beyond 2^62; accepts one place and empty graphs") {
  auto heavy = testing::adjacency_of(2, {{0, 1, std::int64_t{1} << 60}});
  CHECK(testing::error_text<detail::kway_size_error>([&] {
          map_kway(heavy.view(), machine::hierarchy({2}, {1000}));
        }).find("their product exceeds 2^62") != std::string::npos);
  CHECK(map_kway(heavy.view(), machine::hierarchy({1}, {1000})).cost == 0);
  adjacency<std::uint32_t> const empty;
  CHECK(map_kway(empty.view(), machine::hierarchy({2, 2}, {1, 2})).of.empty());
  std::vector<double> const huge{1e300, 1e300};
  adjacency_view<std::uint32_t, std::int64_t, double> const real{heavy.offsets, heavy.targets, {}, huge};
  CHECK(map_kway(real, machine::hierarchy({2}, {1 << 30}), {.imbalance = 1}).cost == 0);
}
