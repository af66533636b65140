// SPDX-License-Identifier: MIT
#include "cleave/schedule/simulate.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cleave/schedule/generate.hpp"
#include "cleave/schedule/read_cells.hpp"
#include "cleave/schedule/schedule_from_rows.hpp"
#include "support/plain_lowering.hpp"
#include "support/rng.hpp"
#include "support/run_order.hpp"

using namespace cleave;

namespace {

schedule of_rows(std::vector<std::string> const& rows) {
  std::vector<std::vector<action>> lists;
  for (auto const& row : rows) lists.push_back(read_row(row));
  return schedule_from_rows(lists, row_contents::compute_only);
}

constexpr schedule_family families[] = {schedule_family::gpipe,
                                        schedule_family::one_f_one_b,
                                        schedule_family::looped_bfs,
                                        schedule_family::interleaved_1f1b,
                                        schedule_family::interleaved_zero_bubble,
                                        schedule_family::zbv,
                                        schedule_family::dual_pipe_v};

schedule some_schedule(testing::rng& random) {
  auto const family = families[random.below(std::size(families))];
  bool const one = family == schedule_family::gpipe || family == schedule_family::one_f_one_b;
  auto const ranks = static_cast<std::uint32_t>(1 + random.below(4));
  return make_schedule(family, {.ranks = ranks,
                                .stages_per_rank = one ? 1u : 2u,
                                .microbatches = 2 * ranks * static_cast<std::uint32_t>(1 + random.below(2))});
}

}  // namespace

TEST_CASE("simulate: times are those of the plainest run, whatever passes and hops take") {
  testing::rng random(40);
  for (int i = 0; i < 200; ++i) {
    auto const s = some_schedule(random);
    auto const part = [&] { return static_cast<double>(random.below(9)) / 4; };
    stage_cost const cost{part(), part(), part(), part()};
    double const hop = part();
    auto const times = simulate(s, {.costs = {cost}, .hop = hop});
    auto const plain = testing::run_order(s, cost, hop);
    REQUIRE(times.waiting.empty());
    REQUIRE(times.makespan == plain.makespan);
    REQUIRE(times.busy == plain.busy);
    for (std::size_t r = 0; r < plain.peak.size(); ++r) REQUIRE(times.most_kept[r].passes == plain.peak[r]);
  }
}

TEST_CASE("simulate: passes of a rank follow each other, each as long as it takes") {
  testing::rng random(41);
  for (int i = 0; i < 50; ++i) {
    auto const s = some_schedule(random);
    std::vector<stage_cost> costs;
    for (std::uint32_t n = 0; n < s.place.stages(); ++n)
      costs.push_back({1 + random.unit(), 2 + random.unit(), random.unit(), random.unit()});
    auto const times = simulate(s, {.costs = costs, .hop = 0.25});
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

TEST_CASE("simulate: without hops, messages that are posted where they are used change nothing") {
  testing::rng random(42);
  for (int i = 0; i < 60; ++i) {
    auto const family = random.one_in(2) ? schedule_family::zbv : schedule_family::looped_bfs;
    auto const s = make_schedule(
        family,
        {.ranks = static_cast<std::uint32_t>(1 + random.below(4)), .stages_per_rank = 2, .microbatches = 6});
    auto const alone = simulate(s), sent = simulate(testing::with_plain_messages(s));
    REQUIRE(sent.waiting.empty());
    REQUIRE(sent.makespan == alone.makespan);
    REQUIRE(sent.busy == alone.busy);
  }
}

TEST_CASE("simulate: the published times of equal stages") {
  for (std::uint32_t const p : {2u, 3u, 4u, 6u, 8u})
    for (std::uint32_t const rounds : {1u, 2u, 4u})
      for (std::uint32_t const v : {1u, 2u, 4u}) {
        std::uint32_t const m = p * rounds;
        double const per_stage = v;
        auto const of = [&](schedule_family f, std::uint32_t stages) {
          return simulate(make_schedule(f, {.ranks = p, .stages_per_rank = stages, .microbatches = m}))
              .makespan;
        };
        CHECK(of(schedule_family::gpipe, 1) == 3 * m + 3 * (p - 1));
        CHECK(of(schedule_family::one_f_one_b, 1) == 3 * m + 3 * (p - 1));
        CHECK(of(schedule_family::looped_bfs, v) == per_stage * 3 * m + 3 * (p - 1));
        CHECK(of(schedule_family::interleaved_1f1b, v) == per_stage * 3 * m + 3 * (p - 1));
        CHECK(of(schedule_family::interleaved_zero_bubble, v) == per_stage * 3 * m + (p - 1));
        if (m >= 2 * p) CHECK(of(schedule_family::zbv, 2) == 2 * 3 * m + (p - 1));
        if (m >= 2 * p) CHECK(of(schedule_family::dual_pipe_v, 2) == 2 * 3 * m + 2 * (p - 1));
      }
}

TEST_CASE("simulate: a compound takes its parts together where that is asked for") {
  auto const s = of_rows({"0F0,(0F1;0B0)OVERLAP_F_B,0B1"});
  CHECK(simulate(s).makespan == 6);
  auto const together = simulate(s, {.compounds = compound_time::longest_part});
  CHECK(together.makespan == 5);
  CHECK(together.spans[0][1] == time_span{1, 3});
  CHECK(together.spans[0][2] == time_span{1, 2});
  CHECK(together.busy[0] == 5);
}

TEST_CASE("simulate: other ranks see the results of a compound when all of it is done") {
  auto const s = of_rows({"0F0,(0F1;0B0)OVERLAP_F_B,0B1", "1F0,1B0,1F1,1B1"});
  auto const times = simulate(s);
  CHECK(times.spans[0][2].end == 2);    // 0F1
  CHECK(times.spans[0][3].begin == 4);  // 0B0 waits for 1B0
  CHECK(times.spans[1][2].begin == 6);  // 1F1, although 0F1 was done at 2
}

TEST_CASE("simulate: what waits for ever is listed, with what it waits for") {
  auto const times = simulate(of_rows({"0F0,0B0,0F1,0B1", "1F0,1F1,1B0,1B1"}));
  REQUIRE(times.waiting.size() == 2);
  CHECK(action_text(times.waiting[0].at) == "0B0");
  CHECK(action_text(times.waiting[0].for_what) == "1B0");
  CHECK(times.waiting[1].position == 1);
  auto const compound =
      simulate(of_rows({"0F0,(0F1;0B1)OVERLAP_F_B,0B0"}), {.compounds = compound_time::longest_part});
  REQUIRE(compound.waiting.size() == 1);
  CHECK(action_text(compound.waiting[0].for_what) == "0F1");
}

TEST_CASE("simulate: times that are none are refused") {
  auto const s = of_rows({"0F0,0B0"});
  double const nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS((void)simulate(s, {.costs = {{.forward = -1}}}), stage_cost_error);
  CHECK_THROWS_AS((void)simulate(s, {.hop = nan}), hop_error);
  CHECK_THROWS_WITH_AS((void)simulate(s, {.hop = -1}), "simulate: a hop must take a time from 0 to 1e100",
                       hop_error);
}
