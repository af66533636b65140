// SPDX-License-Identifier: MIT
#include "cleave/schedule/simulate/simulate.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "cleave/schedule/verify/deadlock.hpp"
#include "support/event_run.hpp"
#include "support/plain_lowering.hpp"
#include "support/rng.hpp"
#include "support/run_order.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

schedule of_rows(std::vector<std::string> const& rows, row_contents contents = row_contents::compute_only) {
  std::vector<std::vector<action>> lists;
  for (auto const& row : rows) lists.push_back(read_row(row));
  return schedule_from_rows(lists, contents);
}

constexpr schedule_family families[] = {schedule_family::gpipe,
                                        schedule_family::one_f_one_b,
                                        schedule_family::looped_bfs,
                                        schedule_family::interleaved_1f1b,
                                        schedule_family::interleaved_zero_bubble,
                                        schedule_family::zbv,
                                        schedule_family::dual_pipe_v};

schedule small_order(testing::rng& random) {
  auto const family = families[random.below(std::size(families))];
  bool const one = family == schedule_family::gpipe || family == schedule_family::one_f_one_b;
  auto const ranks = static_cast<std::uint32_t>(1 + random.below(4));
  return make_schedule(family, {.ranks = ranks,
                                .stages_per_rank = one ? 1u : 2u,
                                .microbatches = 2 * ranks * static_cast<std::uint32_t>(1 + random.below(2))});
}

/// A random family: as it is, with plain messages, or lowered; sometimes with offloads, reloads and
/// recomputation.
schedule some_program(testing::rng& random) {
  auto s = small_order(random);
  auto const form = random.below(4);
  if (form == 1) return testing::with_plain_messages(s);
  if (form == 2) return lower(s, {.receives = receive_time::deferred});
  if (form == 3) s = lower(s);
  if (!random.one_in(2)) return s;
  for (auto& row : s.ranks) {
    auto const at = std::ranges::find(row, action_kind::backward, &action::kind);
    if (at == row.end() || std::ranges::any_of(row, [](action const& a) { return a.parts > 0; })) continue;
    auto moved = *at;
    auto const place = at - row.begin();
    for (auto const kind : {action_kind::recompute, action_kind::reload, action_kind::offload}) {
      moved.kind = kind;
      row.insert(row.begin() + place, moved);
    }
  }
  return s;
}

simulate_options some_options(testing::rng& random, schedule const& s) {
  auto const part = [&] { return static_cast<double>(random.below(9)) / 4; };
  simulate_options o;
  for (std::size_t n = 0; n < s.place.stages(); ++n)
    o.costs.push_back({part(), part(), part(), part(), part(), part(), part(), part(), part()});
  if (random.one_in(2))
    for (auto& c : o.costs)
      if (!random.one_in(3)) c.overlapped = part();
  o.base_latency = part();
  if (random.one_in(2))
    for (std::size_t n = 0; n < std::size_t{s.place.ranks} * s.place.ranks; ++n)
      o.links.push_back({part(), static_cast<double>(1 + random.below(3))});
  if (random.one_in(2))
    for (std::size_t n = 0; n < s.place.edges.size(); ++n)
      o.bytes.push_back({random.below(4), random.below(4)});
  o.compounds = static_cast<compound_time>(random.below(3));
  o.messages = random.one_in(2) ? message_time::within : message_time::overlapped;
  if (random.one_in(3)) o.noise = 0.5;
  o.seed = random.next();
  return o;
}

}  // namespace

TEST_CASE("simulate: makespan and busy times match a naive run, with random costs and latency") {
  testing::rng random(40);
  for (int i = 0; i < 200; ++i) {
    auto const s = small_order(random);
    auto const part = [&] { return static_cast<double>(random.below(9)) / 4; };
    stage_cost const cost{part(), part(), part(), part()};
    double const base_latency = part();
    auto const times = simulate(s, {.costs = {cost}, .base_latency = base_latency});
    auto const plain = testing::run_order(s, cost, base_latency);
    REQUIRE(times.makespan == plain.makespan);
    REQUIRE(times.busy == plain.busy);
    for (std::size_t r = 0; r < plain.peak.size(); ++r) REQUIRE(times.most_kept[r].passes == plain.peak[r]);
  }
}

TEST_CASE("simulate: passes of a rank never overlap, and each takes its cost") {
  testing::rng random(41);
  for (int i = 0; i < 50; ++i) {
    auto const s = small_order(random);
    std::vector<stage_cost> costs;
    for (std::uint32_t n = 0; n < s.place.stages(); ++n)
      costs.push_back({1 + random.unit(), 2 + random.unit(), random.unit(), random.unit()});
    auto const times = simulate(s, {.costs = costs, .base_latency = 0.25});
    for (std::size_t r = 0; r < s.ranks.size(); ++r) {
      double free = 0;
      for (std::size_t k = 0; k < s.ranks[r].size(); ++k) {
        action const& a = s.ranks[r][k];
        if (!is_compute(a.kind)) continue;
        auto const [begin, end] = times.spans[r][k];
        REQUIRE(begin >= free);
        REQUIRE(end == begin + costs[index(a.stage)].of(a.kind));
        free = end;
      }
      REQUIRE(free == times.last[r]);
    }
  }
}

TEST_CASE("simulate: without latency, messages that are posted at their use change no time") {
  testing::rng random(42);
  for (int i = 0; i < 60; ++i) {
    auto const family = random.one_in(2) ? schedule_family::zbv : schedule_family::looped_bfs;
    auto const s = make_schedule(
        family,
        {.ranks = static_cast<std::uint32_t>(1 + random.below(4)), .stages_per_rank = 2, .microbatches = 6});
    auto const alone = simulate(s), sent = simulate(testing::with_plain_messages(s));
    REQUIRE(sent.makespan == alone.makespan);
    REQUIRE(sent.busy == alone.busy);
  }
}

TEST_CASE("simulate: equal stages give the published times and bubbles") {
  for (std::uint32_t const p : {2u, 3u, 4u, 6u, 8u})
    for (std::uint32_t const rounds : {1u, 2u, 4u})
      for (std::uint32_t const v : {1u, 2u, 4u}) {
        std::uint32_t const m = p * rounds;
        // All stages of a rank together take 3 units of time for a microbatch.
        auto const of = [&](schedule_family f, std::uint32_t stages) {
          return simulate(make_schedule(f, {.ranks = p, .stages_per_rank = stages, .microbatches = m}),
                          {.costs = {{1.0 / stages, 2.0 / stages, 1.0 / stages, 1.0 / stages}}});
        };
        auto const check = [&](schedule_times const& t, double makespan, auto bubble) {
          CHECK(t.makespan == doctest::Approx(makespan));
          for (std::uint32_t r = 0; r < p; ++r) CHECK(span_bubble(t, r) == doctest::Approx(bubble(r)));
          CHECK(bubble_rate(t) == doctest::Approx(1 - 3.0 * m / makespan));
        };
        double const all = 3.0 * m, last = p - 1, stages = v;
        auto const filling = [&](double each) { return [=](std::uint32_t r) { return each * (last - r); }; };
        check(of(schedule_family::gpipe, 1), all + 3 * last, filling(3));
        check(of(schedule_family::one_f_one_b, 1), all + 3 * last, filling(3));
        CHECK(of(schedule_family::looped_bfs, v).makespan == doctest::Approx(all + 3 * last / stages));
        check(of(schedule_family::interleaved_1f1b, v), all + 3 * last / stages, filling(3 / stages));
        check(of(schedule_family::interleaved_zero_bubble, v), all + last / stages, filling(1 / stages));
        if (m < 2 * p) continue;
        check(of(schedule_family::zbv, 2), all + last / 2, filling(0));
        check(of(schedule_family::dual_pipe_v, 2), all + last,
              [&](std::uint32_t r) { return last - r / 2.0; });
      }
}

TEST_CASE("simulate: GPipe and 1F1B have the published bubble if F and B take different times") {
  testing::rng random(43);
  for (int i = 0; i < 40; ++i) {
    double const f = 1 + static_cast<double>(random.below(4)),
                 half = f + static_cast<double>(random.below(3));
    auto const p = static_cast<std::uint32_t>(2 + random.below(4)), m = 3 * p;
    stage_cost const cost{f, 2 * half, half, half};
    auto const bubble = [&](schedule_family family) {
      auto const t = simulate(make_schedule(family, {.ranks = p, .stages_per_rank = 1, .microbatches = m}),
                              {.costs = {cost}});
      return t.makespan - t.busy[0];
    };
    CHECK(bubble(schedule_family::gpipe) == (p - 1) * (f + 2 * half));
    CHECK(bubble(schedule_family::one_f_one_b) == (p - 1) * (f + 2 * half));
  }
}

TEST_CASE("simulate: latency and incomplete rounds of microbatches give the published times") {
  auto const of = [&](schedule_family family, std::uint32_t v, std::uint32_t m, double base_latency) {
    double const n = v;
    return simulate(make_schedule(family, {.ranks = 4, .stages_per_rank = v, .microbatches = m}),
                    {.costs = {{1 / n, 2 / n, 1 / n, 1 / n}}, .base_latency = base_latency})
        .makespan;
  };
  CHECK(of(schedule_family::gpipe, 1, 8, 0.1) == doctest::Approx(33.6));
  CHECK(of(schedule_family::one_f_one_b, 1, 8, 0.1) == doctest::Approx(34.6));
  CHECK(of(schedule_family::looped_bfs, 2, 8, 0.1) == doctest::Approx(29.1));
  CHECK(of(schedule_family::interleaved_1f1b, 2, 8, 0.1) == doctest::Approx(29.9));
  CHECK(of(schedule_family::interleaved_zero_bubble, 2, 8, 0.1) == doctest::Approx(27.1));
  CHECK(of(schedule_family::zbv, 2, 8, 0.1) == doctest::Approx(26.8));
  CHECK(of(schedule_family::interleaved_1f1b, 2, 10, 0) == 34.5);
  CHECK(of(schedule_family::interleaved_zero_bubble, 2, 10, 0) == 31.5);
  CHECK(of(schedule_family::interleaved_1f1b, 2, 3, 0) == 15);
  CHECK(of(schedule_family::interleaved_zero_bubble, 2, 3, 0) == 11.5);
  CHECK(of(schedule_family::interleaved_1f1b, 2, 15, 0) == 49.5);
  CHECK(of(schedule_family::interleaved_zero_bubble, 2, 15, 0) == 46.5);
}

TEST_CASE("simulate: in ZBV with as many microbatches as ranks, rank r has a bubble of p - 1 - r") {
  auto const times =
      simulate(make_schedule(schedule_family::zbv, {4, 2, 4}), {.costs = {{0.5, 1, 0.5, 0.5}}});
  for (std::uint32_t r = 0; r < 4; ++r) CHECK(span_bubble(times, r) == 3 - r);
}

TEST_CASE("simulate: with compound_time::longest_part, parts of a compound run together") {
  auto const s = of_rows({"0F0,(0F1;0B0)OVERLAP_F_B,0B1"});
  CHECK(simulate(s).makespan == 6);
  CHECK(simulate(s, {.compounds = compound_time::in_turn}).makespan == 6);
  auto const together = simulate(s, {.compounds = compound_time::longest_part});
  CHECK(together.makespan == 5);
  CHECK(together.spans[0][1] == time_span{1, 3});
  CHECK(together.spans[0][2] == time_span{1, 2});
  CHECK(together.busy[0] == 5);
}

TEST_CASE("simulate: a compound that contains other actions than passes ignores compound_time") {
  auto s = of_rows({"0F0,(0F1;0B0)OVERLAP_F_B,0B1"});
  s.ranks[0][3].kind = action_kind::unshard;
  auto const alone = simulate(s);
  for (auto const how : {compound_time::in_turn, compound_time::longest_part}) {
    auto const times = simulate(s, {.compounds = how});
    CHECK(times.makespan == alone.makespan);
    CHECK(times.spans == alone.spans);
  }
}

TEST_CASE(
    "simulate: a forward and a backward pass that overlap take the time that their stages have for it") {
  auto const s = of_rows({"0F0,(0F1;0B0)OVERLAP_F_B,(0B1;0F2)OVERLAP_F_B,0B2"});
  CHECK(simulate(s, {.costs = {{.overlapped = 3}}}).makespan == simulate(s).makespan);
  for (auto const how :
       {compound_time::one_after_the_other, compound_time::in_turn, compound_time::longest_part}) {
    auto const times = simulate(s, {.costs = {{.overlapped = 2.25}}, .compounds = how});
    CHECK(times.makespan == 7.5);
    CHECK(times.busy[0] == 7.5);
    for (std::size_t const i : {1u, 2u, 3u}) CHECK(times.spans[0][i] == time_span{1, 3.25});
  }
  // The time is that of the stage of the forward pass. Of other compounds, passes have their own times.
  auto const two = schedule_from_rows({read_row("0F0,1F0,(0F1;1B0)OVERLAP_F_B,(1F1;0B0)OVERLAP_F_B,1B1,0B1")},
                                      row_contents::compute_only);
  CHECK(simulate(two, {.costs = {{.overlapped = 2}, {.overlapped = 7}}}).makespan == 2 + 2 + 7 + 4);
  CHECK(simulate(two, {.costs = {{}, {.overlapped = 7}}}).makespan == 2 + 3 + 7 + 4);
  auto const halves = of_rows({"0F0,(0F1;0I0)OVERLAP_F_B,0W0,0B1"});
  CHECK(simulate(halves, {.costs = {{.overlapped = 9}}}).makespan == simulate(halves).makespan);
}

TEST_CASE("simulate: DualPipeV takes less time if its passes overlap, down to that of the longer one") {
  auto const order = dual_pipe_v(4, 10);
  auto const with = [&](double both) {
    return simulate(order, {.costs = {{.overlapped = both}}, .base_latency = 0.125}).makespan;
  };
  CHECK(with(3) >= with(2.5));
  CHECK(with(2.5) > with(2.25));
  CHECK(with(2) ==
        simulate(order, {.base_latency = 0.125, .compounds = compound_time::longest_part}).makespan);
}

TEST_CASE("simulate: other ranks see the results of a compound when all of it is done") {
  auto const s = of_rows({"0F0,(0F1;0B0)OVERLAP_F_B,0B1", "1F0,1B0,1F1,1B1"});
  auto const times = simulate(s);
  CHECK(times.spans[0][2].end == 2);    // 0F1
  CHECK(times.spans[0][3].begin == 4);  // 0B0 waits for 1B0
  CHECK(times.spans[1][2].begin == 6);  // 1F1, although 0F1 was done at 2
}

TEST_CASE("simulate: all times match a naive event simulation, with random options") {
  testing::rng random(44);
  for (int i = 0; i < 300; ++i) {
    auto const s = some_program(random);
    auto const options = some_options(random, s);
    CAPTURE(i);
    testing::event_run const plain(s, options);
    REQUIRE_FALSE(plain.stuck);
    testing::check_same_times(simulate(s, options), plain);
  }
}

TEST_CASE("simulate: shuffled lists finish or deadlock as in a naive event simulation") {
  testing::rng random(45);
  int stuck = 0;
  for (int i = 0; i < 300; ++i) {
    auto s = some_program(random);
    for (auto swaps = 1 + random.below(3); swaps > 0; --swaps) {
      auto& row = s.ranks[random.below(s.ranks.size())];
      auto const a = random.below(row.size()), b = random.below(row.size());
      bool const simple = std::ranges::all_of(row, [](action const& x) { return x.parts == 0; });
      if (simple) std::swap(row[a], row[b]);
    }
    auto options = some_options(random, s);
    options.bytes.clear();  // the messages of a pair are no longer received in the order of the sends
    CAPTURE(i);
    testing::event_run const plain(s, options);
    auto const found = find_simulated_deadlock(s, options);
    REQUIRE(found.has_value() == plain.stuck);
    stuck += plain.stuck;
    if (plain.stuck)
      REQUIRE_THROWS_AS((void)simulate(s, options), deadlock_error);
    else
      testing::check_same_times(simulate(s, options), plain);
    if (options.compounds != compound_time::one_after_the_other) continue;
    if (std::ranges::any_of(options.costs, [](auto const& c) { return c.overlapped.has_value(); })) continue;
    auto const d = options.messages == message_time::within ? delivery::buffered : delivery::async;
    if (find_deadlock(s, d)) REQUIRE(found);  // `find_deadlock` passes a wait that precedes its send
  }
  CHECK(stuck > 30);
  CHECK(stuck < 290);
}

TEST_CASE("simulate: messages of a pair of ranks leave one after the other, and then take the latency") {
  auto const s = of_rows({"0F0,0F1", "1F0,1F1"});
  simulate_options const options{.links = {{}, {.latency = 2, .bandwidth = 10}, {}, {}},
                                 .bytes = {{.activation = 30, .gradient = 0}}};
  auto const times = simulate(s, options);
  CHECK(times.spans[1][0].begin == 1 + 3 + 2);
  CHECK(times.spans[1][1].begin == 1 + 3 + 3 + 2);  // leaves at 4, when the first has left
  CHECK(times.spans[0][1] == time_span{1, 2});
}

TEST_CASE("simulate: with message_time::within, a rank that sends waits until all bytes have left") {
  auto const s = of_rows({"0F0,0F1", "1F0,1F1"});
  auto const times = simulate(s, {.links = {{.latency = 2, .bandwidth = 10}},
                                  .bytes = {{.activation = 30, .gradient = 0}},
                                  .messages = message_time::within});
  CHECK(times.spans[0][1] == time_span{4, 5});
  CHECK(times.spans[1][1].begin == 5 + 3 + 2);
  CHECK(times.busy[0] == 2);
}

TEST_CASE("simulate: unsharding and reductions run concurrently with the passes of a rank") {
  auto const times =
      simulate(of_rows({"0UNSHARD,1UNSHARD,0F0,1F0,1B0,1REDUCE_GRAD,0B0,1WAIT_REDUCE_GRAD,0REDUCE_GRAD"},
                       row_contents::with_communication),
               {.costs = {{.unshard = 4, .reduce_gradient = 3}}});
  CHECK(times.spans[0][2] == time_span{4, 5});    // 0F0 waits for its weights
  CHECK(times.spans[0][3] == time_span{8, 9});    // 1F0 for its own, gathered after those
  CHECK(times.spans[0][5] == time_span{11, 14});  // the reduction, while 0B0 runs
  CHECK(times.spans[0][6] == time_span{11, 13});
  CHECK(times.spans[0][7] == time_span{13, 14});
  CHECK(times.makespan == 17);
  CHECK(times.busy[0] == 6);
}

TEST_CASE("simulate: a backward pass waits until its activations are reloaded or recomputed") {
  auto const makespan = [](std::string const& row, stage_cost const& cost) {
    return simulate(of_rows({row}, row_contents::with_communication), {.costs = {cost}}).makespan;
  };
  CHECK(makespan("0F0,0OFFLOAD0,0F1,0B1,0RELOAD0,0B0", {.offload = 1, .reload = 5}) == 1 + 1 + 2 + 5 + 2);
  CHECK(makespan("0F0,0RECOMPUTE0,0B0", {.recompute = 0.5}) == 3.5);
}

TEST_CASE("simulate: a rank that waits in a compound of one part waits for what the part needs") {
  auto s = of_rows({"0F0,0B0", "1B0,1F0"});
  action head = s.ranks[1].front();
  head.kind = action_kind::overlap;
  head.parts = 1;
  s.ranks[1].insert(s.ranks[1].begin(), head);
  try {
    simulate(s, {.compounds = compound_time::in_turn});
    CHECK(false);
  } catch (deadlock_error const& e) {
    REQUIRE(e.witness.waiting.size() == 2);
    auto const& w = e.witness.waiting[1];
    CHECK(w.position == 1);
    CHECK(w.for_what == s.ranks[1].back());
  }
}

TEST_CASE("simulate: noise stays within its range and depends only on the seed") {
  auto const s = make_schedule(schedule_family::zbv, {.ranks = 4, .stages_per_rank = 2, .microbatches = 8});
  simulate_options options{.base_latency = 0.5, .noise = 0.25, .seed = 7};
  auto const even = simulate(s, {.base_latency = 0.5}), once = simulate(s, options);
  CHECK(once == simulate(s, options));
  CHECK(once != even);
  for (std::size_t r = 0; r < 4; ++r) {
    CHECK(once.busy[r] >= 0.75 * even.busy[r]);
    CHECK(once.busy[r] <= 1.25 * even.busy[r]);
  }
  options.seed = 8;
  CHECK(once != simulate(s, options));
  options.noise = 0;
  CHECK(even == simulate(s, options));
}

TEST_CASE("simulate: a deadlock is an error that names the waiting ranks") {
  auto const s = of_rows({"0F0,0B0,0F1,0B1", "1F0,1F1,1B0,1B1"});
  CHECK_THROWS_WITH_AS(
      (void)simulate(s),
      "simulate: ranks wait forever: rank 0 at 0B0, rank 1 at 1F1; reorder the actions that they wait for",
      deadlock_error);
  auto const found = find_simulated_deadlock(s);
  REQUIRE(found);
  REQUIRE(found->cycle.size() == 2);
  CHECK(action_text(found->cycle[0].for_what) == "1B0");
  CHECK(action_text(found->cycle[1].for_what) == "0F1");
}

TEST_CASE("simulate: rejects invalid options") {
  auto const s = of_rows({"0F0,0B0", "1F0,1B0"});
  double const nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS((void)simulate(s, {.costs = {{.forward = -1}}}), stage_cost_error);
  CHECK_THROWS_AS((void)simulate(s, {.costs = {{.unshard = nan}}}), stage_cost_error);
  CHECK_THROWS_WITH_AS((void)simulate(s, {.base_latency = nan}),
                       "simulate: base_latency must be a time from 0 to 1e100", simulate_option_error);
  CHECK_THROWS_AS((void)find_simulated_deadlock(s, {.noise = 1.5}), simulate_option_error);
}

TEST_CASE("simulate: rejects an action with an unknown microbatch") {
  auto s = of_rows({"0F0,0B0"});
  s.ranks[0][1].microbatch = microbatch_id{7};
  CHECK_THROWS_AS((void)simulate(s), invalid_action_error);
}

TEST_CASE("simulate: an empty schedule takes no time") {
  CHECK(simulate({}).makespan == 0);
  CHECK(simulate({.place = loop_placement(2), .microbatches = 0, .ranks = {{}, {}}}).makespan == 0);
}
