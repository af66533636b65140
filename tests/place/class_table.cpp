// SPDX-License-Identifier: MIT
#include "cleave/place/detail/class_table.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/place/place.hpp"
#include "support/cases.hpp"
#include "support/rng.hpp"

using namespace cleave;
using namespace cleave::detail;

TEST_CASE("place_set: runs are those of a plain set, within and across words") {
  testing::rng random(11);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    auto const places = 1 + random.below(260);
    place_set here(places), others(places);
    std::set<std::size_t> kept;
    for (int i = 0; i < 6; ++i) {
      auto const begin = random.below(places), end = begin + random.below(places - begin + 1);
      if (random.below(3) == 0) {
        others.insert(begin, end);
        for (auto p = begin; p < end; ++p) kept.erase(p);
      } else if (i < 4) {
        here.insert(begin, end);
      }
    }
    for (std::size_t p = 0; p < places; ++p)
      if (here.contains(p) && !others.contains(p)) kept.insert(p);
    for (std::size_t p = 0; p < places; ++p)
      if (others.contains(p)) kept.erase(p);
    std::set<std::size_t> seen;
    std::size_t next = 0;  // the place behind the last run
    here.each_run_without(others, [&](std::size_t first, std::size_t last) {
      CHECK(first <= last);
      CHECK((next == 0 || first > next));
      for (auto p = first; p <= last; ++p) seen.insert(p);
      next = last + 1;
    });
    CHECK(seen == kept);
  }
}

namespace {

/// The least period of slices of a row on `devices` devices that are alike: a table over ends, for each
/// number of stages.
double least_period_of_slices(placement_row const& r, rank_link const& link, std::uint32_t devices,
                              std::uint64_t memory) {
  auto const n = r.units.units();
  std::vector<double> before(n + 1, std::numeric_limits<double>::infinity());
  before[0] = 0;
  auto best = std::numeric_limits<double>::infinity();
  for (std::uint32_t s = 0; s < devices; ++s) {
    std::vector<double> next(n + 1, std::numeric_limits<double>::infinity());
    for (std::size_t to = 1; to <= n; ++to)
      for (std::size_t from = 0; from < to; ++from) {
        if (r.units.resident[to] - r.units.resident[from] > memory) continue;
        auto const sent =
            s == 0 ? 0 : static_cast<double>(r.units.crossing[from].activation) / link.bandwidth;
        auto const load = r.units.cost[to].forward - r.units.cost[from].forward;
        next[to] = std::min(next[to], std::max({before[from], sent, load}));
      }
    best = std::min(best, next[n]);
    before = std::move(next);
  }
  return best;
}

}  // namespace

TEST_CASE("place: long rows on devices that are alike have the period of a plain table") {
  testing::rng random(12);
  for (std::size_t round = 0; round < testing::cases(10, 100); ++round) {
    CAPTURE(round);
    auto const n = 60 + random.below(240);
    placement_row r;
    r.units.cost.push_back({.forward = 0, .backward = 0, .input_gradient = 0, .weight_gradient = 0});
    r.units.resident.push_back(0);
    r.units.crossing.assign(n + 1, {});
    for (std::size_t i = 0; i < n; ++i) {
      auto next = r.units.cost.back();
      next.forward += static_cast<double>(random.below(random.below(10) == 0 ? 200 : 10));
      r.units.cost.push_back(next);
      r.units.resident.push_back(r.units.resident.back() + random.below(5));
      if (i > 0) r.units.crossing[i].activation = random.below(60);
    }
    auto const devices = static_cast<std::uint32_t>(1 + random.below(9));
    auto const memory = random.below(2) == 0 ? unlimited_memory : r.units.resident.back() / devices + 20;
    rank_link const link{.latency = 1, .bandwidth = static_cast<double>(1 + random.below(3))};
    device_network net;
    for (std::uint32_t d = 0; d < devices; ++d) net.devices.push_back({.memory = memory});
    net.links = {link};
    auto const p = place(r, net);
    CHECK(p.period == least_period_of_slices(r, link, devices, memory));
    CHECK(p.is_optimal());
  }
}
