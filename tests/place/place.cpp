// SPDX-License-Identifier: MIT
#include "cleave/place/place.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "cleave/core/random.hpp"

using namespace cleave;

namespace {

double unit(splitmix& random) { return static_cast<double>(random.below(1000) + 1) / 1000; }

/// A row of units with random costs, of up to two kinds, and random bytes.
placement_row random_row(splitmix& random, std::size_t units) {
  placement_row made;
  auto& row = made.row;
  stage_cost const zero{.forward = 0, .backward = 0, .input_gradient = 0, .weight_gradient = 0};
  row.cost.assign(1, zero);
  row.bytes.assign(1, {0, 0, 0});
  row.resident.assign(1, 0);
  row.crossing.assign(units + 1, {});
  bool const has_kinds = random.below(2) == 0, trains = random.below(2) == 0;
  if (has_kinds) made.kinds.push_back({"attention", {zero}});
  for (std::size_t i = 0; i < units; ++i) {
    auto next = row.cost.back();
    auto const cost = static_cast<double>(random.below(9));
    if (has_kinds) made.kinds[0].cost.push_back(made.kinds[0].cost.back());
    auto& sum = has_kinds && random.below(2) == 0 ? made.kinds[0].cost.back() : next;
    sum.forward += cost;
    sum.backward += trains ? 2 * cost : 0;
    row.cost.push_back(next);
    row.bytes.push_back({row.bytes.back().saved + random.below(5), 0, 0});
    row.resident.push_back(row.resident.back() + random.below(10));
    if (i > 0) row.crossing[i] = {random.below(20), trains ? random.below(20) : 0};
  }
  return made;
}

/// Devices of few or many classes, with links as a matrix, as one, or without any.
device_network random_network(splitmix& random, std::size_t devices) {
  device_network net;
  auto const classes = 1 + random.below(3), links = random.below(3);
  std::vector<device_spec> kinds;
  for (std::size_t c = 0; c < classes; ++c) {
    device_spec d{.speed = unit(random)};
    if (random.below(2) == 0) d.speeds["attention"] = unit(random);
    if (random.below(2) == 0) d.memory = 20 + random.below(60);
    kinds.push_back(d);
  }
  for (std::size_t d = 0; d < devices; ++d) net.devices.push_back(kinds[random.below(classes)]);
  auto const link = [&] { return rank_link{unit(random), 1 + static_cast<double>(random.below(5))}; };
  if (links == 1) net.links = {link()};
  if (links == 2)
    for (std::size_t i = 0; i < devices * devices; ++i) net.links.push_back(link());
  if (random.below(4) == 0) net.uplinks.push_back({"host", {0}, unit(random) * 4});
  return net;
}

/// Calls `f` with every way to give slices of a row to devices, each to one.
template <class F>
void each_placement(std::uint32_t units, std::uint32_t devices, F f) {
  std::vector<stage_on_device> stages;
  std::vector<char> is_used(devices);
  auto const extend = [&](auto const& self, std::uint32_t from) -> void {
    if (from == units) return f(stages);
    for (std::uint32_t d = 0; d < devices; ++d) {
      if (is_used[d]) continue;
      is_used[d] = 1;
      for (auto to = from + 1; to <= units; ++to) {
        stages.push_back({d, from, to});
        self(self, to);
        stages.pop_back();
      }
      is_used[d] = 0;
    }
  };
  extend(extend, 0);
}

bool fits(device_placement const& p, device_network const& net) {
  return std::ranges::all_of(p.stages, [&](auto const& s) { return s.memory <= net.devices[s.device].memory; });
}

/// The least value of all placements that fit and that the schedule allows; infinite if there is none.
double least_value(placement_row const& row, device_network const& net, placement_options const& o) {
  auto least = std::numeric_limits<double>::infinity();
  bool const trains = row.row.cost.back().backward > 0 || (!row.kinds.empty() && row.kinds[0].cost.back().backward > 0);
  auto const schedule =
      o.schedule.value_or(trains ? schedule_family::one_f_one_b : schedule_family::forward_only);
  each_placement(static_cast<std::uint32_t>(row.row.units()), static_cast<std::uint32_t>(net.devices.size()),
                 [&](std::vector<stage_on_device> const& stages) {
                   if (schedule == schedule_family::one_f_one_b && stages.size() > o.microbatches) return;
                   auto const p = time_placement(row, net, stages, o);
                   if (fits(p, net)) least = std::min(least, p.value());
                 });
  return least;
}

}  // namespace

TEST_CASE("place: finds what trying everything finds") {
  splitmix random(3);
  int optimal = 0, tried = 0;
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    auto const row = random_row(random, 1 + random.below(6));
    auto const net = random_network(random, 1 + random.below(4));
    placement_options o{.goal = static_cast<placement_goal>(random.below(3)),
                        .microbatches = static_cast<std::uint32_t>(1 + random.below(6))};
    o.effort = 2'000'000;
    if (random.below(3) == 0) o.schedule = schedule_family::gpipe;
    auto const least = least_value(row, net, o);
    if (std::isinf(least)) {
      CHECK_THROWS_AS(place(row, net, o), infeasible_error);
      continue;
    }
    auto const p = place(row, net, o);
    CHECK(fits(p, net));
    CHECK(p.bound <= least * (1 + 1e-12));
    CHECK(p.value() >= least * (1 - 1e-12));
    if (o.goal != placement_goal::step && net.uplinks.empty()) CHECK(p.is_optimal());
    ++tried;
    optimal += p.value() <= least * (1 + 1e-9);
  }
  CHECK(tried > 100);
  CHECK(optimal == tried);
}
