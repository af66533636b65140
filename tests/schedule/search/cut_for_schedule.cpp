// SPDX-License-Identifier: MIT
#include "cleave/schedule/search/cut_for_schedule.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cleave/core/random.hpp"
#include "support/run_order.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

unit_row random_row(splitmix& rng, std::size_t units) {
  unit_row row{.cost = {{0, 0, 0, 0}}, .bytes = {{0, 0, 0}}, .resident = {0}, .crossing = {{0, 0}}};
  for (std::size_t i = 0; i < units; ++i) {
    auto const time = static_cast<double>(1 + rng.below(5));
    auto const sum = row.cost.back();
    row.cost.push_back(
        {sum.forward + time, sum.backward + 2 * time, sum.input_gradient + time, sum.weight_gradient + time});
    auto const kept = row.bytes.back();
    auto const by = rng.below(5);
    row.bytes.push_back({kept.saved + by, kept.saved_for_weights + by, 0});
    row.resident.push_back(row.resident.back() + rng.below(6));
    row.crossing.push_back({rng.below(8), rng.below(8)});
  }
  return row;
}

/// Returns the shortest makespan of all cuts, each with the schedule that `search_schedule` finds without
/// effort.
double best_of_all(unit_row const& row, cut_step const& step, row_cut cut, std::uint32_t stages) {
  if (stages == 1) {
    cut.push_back(static_cast<std::uint32_t>(row.units()));
    try {
      return search_schedule(search_problem_of(row, step, cut), {.effort = 0}).certificate.makespan;
    } catch (byte_cap_error const&) {
      return no_end;
    }
  }
  double best = no_end;
  for (auto to = cut.back() + 1; to + stages <= row.units() + 1; ++to) {
    auto longer = cut;
    longer.push_back(to);
    best = std::min(best, best_of_all(row, step, longer, stages - 1));
  }
  return best;
}

}  // namespace

TEST_CASE("cut_for_schedule: trying all cuts finds the best one, and local search comes within 10 %") {
  splitmix rng(61);
  int walked_to_best = 0, compared = 0;
  for (int round = 0; round < 12; ++round) {
    auto const row = random_row(rng, 5 + rng.below(4));
    cut_step step{.ranks = static_cast<std::uint32_t>(2 + rng.below(2)), .microbatches = 4};
    step.links = {{.latency = 0.25, .bandwidth = 8}};
    if (rng.below(2) == 0) step.memory_limit = {row.resident.back() / 2 + row.bytes.back().saved + 4};
    auto const best = best_of_all(row, step, {0}, step.ranks);
    if (best == no_end) {
      CHECK_THROWS_AS(cut_for_schedule(row, step, {.search = {.effort = 0}}), byte_cap_error);
      continue;
    }
    auto const tried = cut_for_schedule(row, step, {.search = {.effort = 0}});
    CHECK(tried.best.found.certificate.makespan == doctest::Approx(best));
    auto const walked =
        cut_for_schedule(row, step, {.search = {.effort = 0}, .effort = 500'000, .try_all = 0});
    auto const reached = walked.best.found.certificate.makespan;
    CHECK(reached >= best - 1e-9);
    CHECK(reached <= 1.1 * best);
    ++compared;
    walked_to_best += reached <= best + 1e-9;
  }
  CHECK(compared > 6);
  CHECK(10 * walked_to_best >= 8 * compared);
}

TEST_CASE("cut_for_schedule: the step is no longer than with bottleneck_cut, and gain gives the difference") {
  splitmix rng(62);
  int gained = 0;
  for (int round = 0; round < 10; ++round) {
    auto const row = random_row(rng, 9);
    auto const plan = cut_for_schedule(row, {.ranks = 3, .microbatches = 3},
                                       {.search = {.form = backward_choice::whole, .effort = 20'000}});
    REQUIRE(plan.bottleneck);
    CHECK(plan.bottleneck->cut == bottleneck_cut(row, 3));
    CHECK(plan.best.found.certificate.makespan <= plan.bottleneck->found.certificate.makespan);
    CHECK(plan.gain() == doctest::Approx(1 - plan.best.found.certificate.makespan /
                                                 plan.bottleneck->found.certificate.makespan));
    CHECK(testing::order_defect(plan.best.found.order) == "");
    CHECK(plan.cuts > 1);
    gained += plan.gain() > 0;
  }
  CHECK(gained > 0);
}

TEST_CASE("cut_for_schedule: finds another cut if that of bottleneck_cut exceeds the memory limit") {
  unit_row row{.cost = {{0, 0, 0, 0}}, .resident = {0}};
  for (int i = 0; i < 6; ++i) {
    double const sum = i + 1;
    row.cost.push_back({sum, 2 * sum, sum, sum});
    row.resident.push_back(row.resident.back() + (i == 0 ? 10 : 2));
  }
  cut_step const step{.ranks = 2, .microbatches = 4, .memory_limit = {13}};
  auto const plan = cut_for_schedule(row, step, {.search = {.effort = 10'000}});
  CHECK(bottleneck_cut(row, 2) == row_cut{0, 3, 6});
  CHECK_FALSE(plan.bottleneck);
  CHECK(plan.best.cut == row_cut{0, 2, 6});
  CHECK(plan.gain() == 0);
  CHECK_THROWS_AS(cut_for_schedule(row, {.ranks = 2, .microbatches = 4, .memory_limit = {9}}),
                  byte_cap_error);
}

TEST_CASE("cut_for_schedule: tries several numbers of stages per rank and rejects too many") {
  splitmix rng(63);
  auto const row = random_row(rng, 8);
  auto const plan = cut_for_schedule(row, {.ranks = 2, .microbatches = 4, .stages_per_rank = {1, 2}},
                                     {.search = {.effort = 10'000}, .effort = 400'000});
  auto const alone = cut_for_schedule(row, {.ranks = 2, .microbatches = 4},
                                      {.search = {.effort = 10'000}, .effort = 200'000});
  CHECK(plan.best.found.certificate.makespan <= alone.best.found.certificate.makespan);
  CHECK_THROWS_AS(cut_for_schedule(row, {.ranks = 2, .microbatches = 4, .stages_per_rank = {5}}),
                  unit_row_error);
}

TEST_CASE("cut_for_schedule: ranks of unlike speed get slices that suit them, as trying all cuts finds") {
  splitmix rng(67);
  for (int round = 0; round < 8; ++round) {
    CAPTURE(round);
    auto const row = random_row(rng, 6 + rng.below(3));
    cut_step step{.ranks = 2, .microbatches = 4};
    step.speed = {static_cast<double>(1 + rng.below(4)), static_cast<double>(1 + rng.below(4))};
    auto const plan = cut_for_schedule(row, step, {.search = {.effort = 0}});
    CHECK(plan.best.found.certificate.makespan == doctest::Approx(best_of_all(row, step, {0}, 2)));
    CHECK(plan.gain() >= 0);
  }
  unit_row even{.cost = {{0, 0, 0, 0}}};
  for (int i = 0; i < 40; ++i) {
    auto const sum = even.cost.back();
    even.cost.push_back({sum.forward + 1, sum.backward + 2, sum.input_gradient + 1, sum.weight_gradient + 1});
  }
  CHECK(bottleneck_cut(even, 2, {3, 1}) == row_cut{0, 30, 40});
  auto const plan = cut_for_schedule(even, {.ranks = 2, .microbatches = 16, .speed = {3, 1}});
  CHECK(plan.best.cut[1] >= 28);
  CHECK(plan.best.found.certificate.makespan < 40 * 3 * 16 / 3);  // all units on the fast rank
}
