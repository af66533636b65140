// SPDX-License-Identifier: MIT
#include "cleave/run/rehearsal/rehearse.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/simulate/simulate.hpp"
#include "support/cases.hpp"
#include "support/rng.hpp"

using namespace cleave;
using namespace cleave::testing;
using namespace std::chrono_literals;

namespace {

constexpr std::chrono::duration<double> unit = 1ms;

/// Costs from 1 to 4 and links that move a message in up to 2, on any number of ranks.
simulate_options random_timing(schedule const& s, rng& random) {
  simulate_options o;
  for (std::uint32_t i = 0; i < s.place.stages(); ++i)
    o.costs.push_back({.forward = 1. + static_cast<double>(random.below(4)) / 3,
                       .backward = 2. + static_cast<double>(random.below(4)) / 2});
  for (std::uint32_t i = 0; i < s.place.ranks * s.place.ranks; ++i)
    o.links.push_back(
        {static_cast<double>(random.below(3)) / 2, 5e5 * static_cast<double>(1 + random.below(4))});
  for (std::size_t e = 0; e < s.place.edges.size(); ++e) {
    auto const bytes = 1'000 * random.below(1'000);
    o.bytes.push_back({bytes, random.below(2) == 0 ? bytes : bytes / 2});
  }
  return o;
}

schedule random_order(rng& random) {
  auto const ranks = static_cast<std::uint32_t>(2 + random.below(3));
  auto const microbatches = static_cast<std::uint32_t>(1 + random.below(5));
  constexpr schedule_family families[] = {schedule_family::gpipe, schedule_family::one_f_one_b,
                                          schedule_family::forward_only};
  return make_schedule(families[random.below(3)], {ranks, 1, microbatches});
}

}  // namespace

TEST_CASE("rehearse: no action ends before it does in the simulation") {
  rng random(6);
  for (std::size_t i = 0; i < cases(6, 60); ++i) {
    auto const s = random_order(random);
    auto const timing = random_timing(s, random);
    auto const made = rehearse(s, timing, unit);
    auto const expected = simulate(made.order, timing);
    CAPTURE(i);
    CHECK(made.times.makespan >= 0.999 * expected.makespan);
    CHECK(made.times.makespan < 20 * expected.makespan + 1'000);  // whatever else this machine does
  }
}

TEST_CASE("set_one_origin: ranks that start late have later times") {
  std::vector<measured_rank> ranks(3);
  std::vector<std::optional<detail::idle_stage::clock::time_point>> began;
  for (std::int64_t r = 0; r < 3; ++r) {
    auto& rank = ranks[static_cast<std::size_t>(r)];
    rank.program.instructions = {{.call = {.kind = call_kind::forward}}, {.call = {.kind = call_kind::send}}};
    rank.times = {{100, 300}, {300, 400}};
    began.emplace_back(std::chrono::nanoseconds(5'000 + 20 * r));
  }
  began[2].reset();  // a rank without passes
  detail::set_one_origin(ranks, began);
  using times = std::vector<detail::instruction_time>;
  CHECK(ranks[0].times == times{{100, 300}, {300, 400}});
  CHECK(ranks[1].times == times{{120, 320}, {320, 420}});
  CHECK(ranks[2].times == times{{100, 300}, {300, 400}});
}

TEST_CASE("rehearse: a link is at least as late as its bytes and its latency say") {
  auto const s = make_schedule(schedule_family::forward_only, {2, 1, 4});
  simulate_options o;
  o.costs = {{.forward = 1}};
  o.links = {{5, 1e4}};
  o.bytes = {{200'000, 0}};
  CHECK(simulate(s, o).makespan == doctest::Approx(1 + 4 * 20 + 5 + 1));
  CHECK(rehearse(s, o, unit).times.makespan >= 0.999 * (1 + 4 * 20 + 5 + 1));
}

TEST_CASE("rehearse: all messages of a group pass its uplink") {
  // Stages 0 and 1 are inside, 2 and 3 outside: only one edge leaves the group.
  auto const s = make_schedule(schedule_family::forward_only, {4, 1, 3});
  simulate_options o;
  o.costs = {{.forward = 1}};
  o.bytes = {{10'000, 0}};
  o.uplinks = {{.ranks = {rank_id{0}, rank_id{1}}, .bandwidth = 500}};
  CHECK(simulate(s, o).makespan == doctest::Approx(2 + 3 * 20 + 2));
  CHECK(rehearse(s, o, unit).times.makespan >= 0.999 * (2 + 3 * 20 + 2));
}

TEST_CASE("rehearse: refuses what it cannot run") {
  auto const s = make_schedule(schedule_family::one_f_one_b, {2, 1, 2});
  simulate_options o;
  o.bytes = {{8, 16}};
  CHECK_THROWS_WITH_AS(rehearse(s, o, unit),
                       "rehearse: the gradient of edge #0 has more bytes than its activation; give both the "
                       "larger number",
                       error);
  o = {};
  CHECK_THROWS_WITH_AS(rehearse(s, o, std::chrono::hours(24)),
                       "rehearse: the step takes more than a day; choose a shorter unit of time", error);
  o.links.resize(3);
  CHECK_THROWS_AS(rehearse(s, o, unit), error);
}
