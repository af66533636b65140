// SPDX-License-Identifier: MIT
#include "cleave/place/place_replicated.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "cleave/schedule/verify/verify.hpp"
#include "support/cases.hpp"
#include "support/error_text.hpp"
#include "support/rng.hpp"

using namespace cleave;
using namespace cleave::testing;

namespace {

placement_row random_row(rng& random, std::size_t units, bool trains) {
  placement_row r;
  r.units.cost.push_back({0, 0, 0, 0, 0});
  r.units.bytes.push_back({0, 0, 0});
  r.units.resident.push_back(0);
  r.units.crossing.push_back({});
  for (std::size_t i = 0; i < units; ++i) {
    auto c = r.units.cost.back();
    auto const work = static_cast<double>(1 + random.below(9));
    c.forward += work;
    if (trains) c.backward += 2 * work;
    r.units.cost.push_back(c);
    r.units.bytes.push_back({r.units.bytes.back().saved + (trains ? random.below(5) : 0), 0, 0});
    r.units.resident.push_back(r.units.resident.back() + 4 * random.below(20));
    auto const bytes = random.below(40);
    r.units.crossing.push_back({bytes, trains ? bytes : 0});
  }
  r.units.crossing.back() = {};
  return r;
}

replication_options random_options(rng& random) {
  replication_options o;
  o.devices = static_cast<std::uint32_t>(1 + random.below(5));
  o.device.speed = 2;
  o.link = {0.1, 4};
  o.microbatches = static_cast<std::uint32_t>(12 * (1 + random.below(2)));
  o.summed = random.below(2) == 0 ? 0 : 0.25;
  return o;
}

/// Returns the least period of all cuts and widths, by trying all.
double least_period(placement_row const& row, replication_options const& o) {
  auto const& units = row.units;
  struct chosen {
    std::size_t begin;
    std::uint32_t width;
  };
  double best = std::numeric_limits<double>::infinity();
  std::vector<chosen> stages;
  auto const visit = [&](auto const& self, std::size_t at, std::uint32_t left, double worst) -> void {
    if (at == units.units()) {
      best = std::min(best, worst);
      return;
    }
    for (auto end = at + 1; end <= units.units(); ++end)
      for (std::uint32_t width = 1; width <= left; ++width) {
        if (o.microbatches % width != 0) continue;
        auto const pass = units.cost[end].forward + units.cost[end].backward - units.cost[at].forward -
                          units.cost[at].backward;
        auto const state = o.summed * static_cast<double>(units.resident[end] - units.resident[at]);
        double const sums =
            width == 1 || o.summed == 0
                ? 0
                : 2 * ((width - 1) * o.link.latency + state * (width - 1) / width / o.link.bandwidth);
        double load = pass / o.device.speed / width + sums / o.microbatches;
        if (at > 0) {
          auto const& sent = units.crossing[at];
          load = std::max(load, static_cast<double>(std::max(sent.activation, sent.gradient)) /
                                    o.link.bandwidth / std::lcm(stages.back().width, width));
        }
        stages.push_back({at, width});
        self(self, end, left - width, std::max(worst, load));
        stages.pop_back();
      }
  };
  visit(visit, 0, o.devices, 0);
  return best;
}

void check_consistent(replicated_placement const& p, placement_row const& row, replication_options const& o) {
  std::uint32_t at = 0, devices = 0;
  for (auto const& s : p.stages) {
    CHECK(s.begin == at);
    CHECK(s.end > s.begin);
    CHECK(s.memory <= o.device.memory);
    CHECK(o.microbatches % s.width == 0);
    at = s.end;
    devices += s.width * s.shards;
  }
  CHECK(at == row.units.units());
  CHECK(devices + p.unused == o.devices);
  CHECK(p.bound <= p.value());
  auto const order = schedule_of(p);
  CHECK(order.microbatches * p.chains() == o.microbatches);
  CHECK(!find_schedule_fault(order, {.passes = passes_of(order)}));
  CHECK(p.step >= simulate(order, simulate_options_of(p, o.link)).makespan);
  CHECK(p.step >= p.period * o.microbatches * (1 - 1e-9));
}

}  // namespace

TEST_CASE("place_replicated: has the least period of all cuts and widths") {
  rng random(5);
  std::size_t wide = 0;
  for (std::size_t i = 0; i < cases(200, 2'000); ++i) {
    auto const row = random_row(random, 1 + random.below(5), random.below(2) == 0);
    auto const o = random_options(random);
    CAPTURE(i);
    auto const p = place_replicated(row, o);
    check_consistent(p, row, o);
    CHECK(p.is_optimal());
    CHECK(p.period == doctest::Approx(least_period(row, o)).epsilon(1e-9));
    wide += std::ranges::any_of(p.stages, [](auto const& s) { return s.width > 1; });
  }
  CHECK(wide > 50);
}

TEST_CASE("place_replicated: fits the memory of the devices, and claims no more than is known") {
  rng random(6);
  std::size_t placed = 0, refused = 0;
  for (std::size_t i = 0; i < cases(150, 1'500); ++i) {
    auto const row = random_row(random, 2 + random.below(5), true);
    auto o = random_options(random);
    o.device.memory = 50 + random.below(250);
    o.goal = random.below(2) == 0 ? placement_goal::step : placement_goal::throughput;
    CAPTURE(i);
    try {
      auto const p = place_replicated(row, o);
      check_consistent(p, row, o);
      CHECK(p.period >= least_period(row, o) * (1 - 1e-9));
      ++placed;
    } catch (infeasible_error const&) {
      ++refused;
    }
  }
  CHECK(placed > 20);
  CHECK(refused > 20);
}

TEST_CASE(
    "place_replicated: the step is never longer than that of the best period, of one stage or of equal "
    "copies") {
  rng random(7);
  for (std::size_t i = 0; i < cases(60, 600); ++i) {
    auto const row = random_row(random, 6, true);
    auto o = random_options(random);
    auto const fast = place_replicated(row, o);
    o.goal = placement_goal::step;
    auto const p = place_replicated(row, o);
    check_consistent(p, row, o);
    CAPTURE(i);
    CHECK(p.step <= fast.step);
    auto alone = o;
    alone.devices = 1;
    CHECK(p.step <= place_replicated(row, alone).step);
  }
}

TEST_CASE("place_replicated: devices may share passes, for a price that the caller gives") {
  placement_row row;
  for (double const sum : {0, 8, 16}) row.units.cost.push_back({sum, 0, 0, 0, 0});
  replication_options o{.devices = 4, .microbatches = 1, .shards = {1, 2, 4}};  // one microbatch: no copies
  auto const cost = [&](std::uint32_t begin, std::uint32_t end, std::uint32_t shards) {
    return stage_cost{(row.units.cost[end].forward - row.units.cost[begin].forward) / shards + shards, 0, 0,
                      0, 0};
  };
  auto const p = place_replicated(row, o, cost);
  // Two stages of 8 / 2 + 2 = 6 each; one stage on four devices takes 16 / 4 + 4 = 8.
  REQUIRE(p.stages.size() == 2);
  CHECK(p.period == 6);
  CHECK(p.is_optimal());
  CHECK(p.stages[1].shards == 2);
  CHECK(p.unused == 0);
}

TEST_CASE("schedule_of: the chains of a replicated placement share its ranks") {
  replicated_placement p{.microbatches = 12};
  for (std::uint32_t s = 0; s < 3; ++s)
    p.stages.push_back(
        {.begin = s, .end = s + 1, .width = s + 1, .time = {.forward = 1. + s, .backward = 2. + s}});
  CHECK(p.chains() == 6);
  auto const place = stage_placement_of(p);
  CHECK(place.ranks == 6);
  CHECK(place.stages() == 18);
  CHECK(place.rank_of[3 * 4 + 1] == rank_id{1});  // stage 1 of chain 4, whose copy 0 is rank 1
  CHECK(place.rank_of[3 * 4 + 2] ==
        rank_id{4});  // stage 2 of chain 4: copy 1 of three, which begin at rank 3
  CHECK(copies_of(p, 2) == std::vector{stage_id{2}, stage_id{5}, stage_id{8}});
  auto const order = schedule_of(p);
  CHECK(order.microbatches == 2);
  CHECK(!find_schedule_fault(order));
}

TEST_CASE("place_replicated: refusals say what to change") {
  placement_row row;
  for (double const sum : {0, 8}) row.units.cost.push_back({sum, 0, 0, 0, 0});
  row.units.resident = {0, 100};
  auto const refusal = [&](replication_options const& o) {
    return error_text([&] { static_cast<void>(place_replicated(row, o)); });
  };
  CHECK(refusal({.devices = 0}) == "place: 0 devices; give 1 to 4096");
  CHECK(refusal({.goal = placement_goal::latency}) ==
        "place: copies of stages do not make one pass faster; choose throughput or step");
  CHECK(refusal({.summed = 2}) == "place: the summed share must be from 0 to 1");
  CHECK(refusal({.device = {.speed = 0}}) != "accepted");
  CHECK(refusal({.device = {.memory = 99}}).starts_with("place: some unit needs 100 B on each device"));
  CHECK(error_text([&] {
          static_cast<void>(place_replicated(row, {.shards = {}}, [](auto...) { return stage_cost{}; }));
        }) == "place: give at least one number of shards, each 1 or more");
}
