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
#include "cleave/schedule/simulate/simulate.hpp"
#include "support/cases.hpp"
#include "support/rng.hpp"

using namespace cleave;

namespace {

double unit(splitmix& random) { return static_cast<double>(random.below(1000) + 1) / 1000; }

/// A row of units with random costs, of up to two kinds, and random bytes.
placement_row random_row(splitmix& random, std::size_t units) {
  placement_row made;
  auto& row = made.units;
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
  return std::ranges::all_of(p.stages,
                             [&](auto const& s) { return s.memory <= net.devices[s.device].memory; });
}

/// The least value of all placements that fit; infinite if there is none.
double least_value(placement_row const& row, device_network const& net, placement_options const& o) {
  auto least = std::numeric_limits<double>::infinity();
  each_placement(static_cast<std::uint32_t>(row.units.units()),
                 static_cast<std::uint32_t>(net.devices.size()),
                 [&](std::vector<stage_on_device> const& stages) {
                   auto const p = time_placement(row, net, stages, o);
                   if (fits(p, net)) least = std::min(least, p.value());
                 });
  return least;
}

}  // namespace

TEST_CASE("place: finds what trying everything finds") {
  testing::rng random(3);
  int optimal = 0, tried = 0;
  auto const rounds = testing::cases(20, 400);
  for (std::size_t round = 0; round < rounds; ++round) {
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
    CHECK(p.step == simulate(schedule_of(p), simulate_options_of(p, net)).makespan);
    CHECK(p.bound <= least * (1 + 1e-12));
    CHECK(p.value() >= least * (1 - 1e-12));
    if (o.goal != placement_goal::step && net.uplinks.empty()) CHECK(p.is_optimal());
    ++tried;
    optimal += p.value() <= least * (1 + 1e-9);
  }
  CHECK(tried * 2 > static_cast<int>(rounds));
  CHECK(optimal * 100 >= tried * 97);  // the step and uplinks are left to a search
}

TEST_CASE(
    "place: is never worse than equal slices, slices in proportion to memory, or the fastest device alone") {
  testing::rng random(4);
  for (std::size_t round = 0; round < testing::cases(3, 80); ++round) {
    CAPTURE(round);
    auto const units = static_cast<std::uint32_t>(20 + random.below(100));
    auto const devices = static_cast<std::uint32_t>(2 + random.below(12));
    auto const row = random_row(random, units);
    auto net = random_network(random, devices);
    for (auto& d : net.devices) {
      d.speed = unit(random);  // so that all are unlike
      d.memory = 1'000'000 + random.below(1'000'000);
    }
    placement_options const o{.goal = static_cast<placement_goal>(random.below(3)),
                              .microbatches = devices + static_cast<std::uint32_t>(random.below(9)),
                              .effort = 3'000'000};
    auto const p = place(row, net, o);
    CHECK(p.bound <= p.value() * (1 + 1e-12));
    CHECK(place(row, net, o).stages == p.stages);
    std::vector<stage_on_device> equal, by_memory;
    double all = 0, before = 0;
    for (auto const& d : net.devices) all += static_cast<double>(d.memory);
    for (std::uint32_t d = 0; d < devices; ++d) {
      equal.push_back({d, units * d / devices, units * (d + 1) / devices});
      auto const from = by_memory.empty() ? 0 : by_memory.back().end;
      before += static_cast<double>(net.devices[d].memory);
      auto const to = d + 1 == devices ? units : static_cast<std::uint32_t>(units * before / all);
      if (to > from) by_memory.push_back({d, from, to});
    }
    CHECK(p.value() <= time_placement(row, net, equal, o).value() * (1 + 1e-12));
    CHECK(p.value() <= time_placement(row, net, by_memory, o).value() * (1 + 1e-12));
    for (std::uint32_t d = 0; d < devices; ++d)
      CHECK(p.value() <= time_placement(row, net, {{d, 0, units}}, o).value() * (1 + 1e-12));
  }
}

TEST_CASE("place: leaves out a device that would slow the others down") {
  placement_row row;
  row.units.cost.assign(1, {.forward = 0, .backward = 0, .input_gradient = 0, .weight_gradient = 0});
  for (int i = 1; i <= 6; ++i) {
    auto next = row.units.cost.back();
    next.forward += 1;
    row.units.cost.push_back(next);
  }
  row.units.crossing.assign(7, {.activation = 10});
  device_network net{.devices = {{.name = "fast"}, {.name = "other"}, {.name = "slow", .speed = 0.1}}};
  net.links = {{.latency = 0, .bandwidth = 10}};
  auto const p = place(row, net);
  CHECK(p.unused == std::vector<std::uint32_t>{2});
  CHECK(p.period == 3);
  CHECK(p.is_optimal());
  CHECK(p.bottleneck == placement_bottleneck{placement_bottleneck::kind::device, p.stages[0].device});
  net.links[0].bandwidth = 1;  // now a message takes longer than all of the work
  auto const alone = place(row, net);
  CHECK(alone.stages.size() == 1);
  CHECK(alone.period == 6);
}

TEST_CASE("place: refusals name what is wrong and the remedy") {
  testing::rng random(8);
  auto const row = random_row(random, 5);
  device_network const net{.devices = {{.name = "a", .memory = 1}, {.name = "b", .memory = 2}}};
  auto const refusal = [&](auto const& call) -> std::string {
    try {
      call();
    } catch (error const& e) {
      return e.what();
    }
    return "nothing";
  };
  auto const has = [](std::string const& text, std::string const& part) {
    return text.find(part) != text.npos;
  };
  CHECK(has(refusal([&] { place(row, net); }), "and the largest device has 2 B"));
  CHECK(has(refusal([&] { place(row, {}); }), "devices: there are none; give at least one"));
  CHECK(has(refusal([&] { place({}, net); }), "row: the row has no units"));
  CHECK(has(refusal([&] { place(row, net, {.schedule = schedule_family::zbv}); }),
            "the schedule ZBVZeroBubble is not one of GPipe, 1F1B and ForwardOnly"));
  CHECK(has(refusal([&] { place(row, net, {.microbatches = 0}); }),
            "the number of microbatches must be 1 or more"));
  CHECK(has(refusal([&] { time_placement(row, net, {{0, 0, 2}, {0, 2, 5}}); }), "which has a stage already"));
  CHECK(has(refusal([&] { time_placement(row, net, {{0, 0, 2}, {3, 2, 5}}); }), "which does not exist"));
  CHECK(has(refusal([&] { time_placement(row, net, {{0, 0, 2}, {1, 3, 5}}); }), "it must begin at 2"));
  CHECK(has(refusal([&] { time_placement(row, net, {{0, 0, 2}}); }), "the stages end at unit 2 of 5"));
  auto twice = net;
  twice.devices[1].name = "a";
  CHECK(has(refusal([&] { place(row, twice); }), "two devices have the name 'a'"));
  twice = net;
  twice.uplinks = {{"host", {0, 0}, 1}};
  CHECK(has(refusal([&] { place(row, twice); }), "the group 'host' names device #0"));
  twice.uplinks = {};
  twice.links.assign(3, {});
  CHECK(has(refusal([&] { place(row, twice); }), "3 links are given; give one per pair of devices"));
  twice.links.assign(4, {.latency = -1});
  CHECK(has(refusal([&] { place(row, twice); }), "the latency of the link from 'a' to 'b' must be a time"));
}
