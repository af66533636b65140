// SPDX-License-Identifier: MIT
#include "cleave/schedule/search/step_bounds.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cleave/core/random.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// Returns the earliest end of all orders, without interrupting a job.
double best_order(std::vector<one_machine_job> jobs) {
  std::vector<std::size_t> order(jobs.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  double best = 1e9;
  do {
    double now = 0, over = 0;
    for (auto const i : order) {
      now = std::max(now, jobs[i].head) + jobs[i].time;
      over = std::max(over, now + jobs[i].tail);
    }
    best = std::min(best, over);
  } while (std::ranges::next_permutation(order).found);
  return best;
}

std::vector<one_machine_job> random_jobs(splitmix& rng, std::size_t longest) {
  std::vector<one_machine_job> jobs(1 + rng.below(6));
  for (auto& j : jobs)
    j = {static_cast<double>(rng.below(9)), static_cast<double>(1 + rng.below(longest)),
         static_cast<double>(rng.below(9))};
  return jobs;
}

}  // namespace

TEST_CASE("one_machine_bound: jobs of one unit can end at the bound") {
  splitmix rng(12);
  for (int round = 0; round < 500; ++round) {
    auto const jobs = random_jobs(rng, 1);
    CHECK(one_machine_bound(jobs) == best_order(jobs));
  }
}

TEST_CASE("one_machine_bound: no order of longer jobs ends before the bound, and most reach it") {
  splitmix rng(13);
  int reached = 0;
  for (int round = 0; round < 500; ++round) {
    auto const jobs = random_jobs(rng, 5);
    auto const best = best_order(jobs), bound = one_machine_bound(jobs);
    CHECK(bound <= best);
    CHECK(best <= bound + 5);
    reached += bound == best;
  }
  CHECK(reached > 400);
}

TEST_CASE("one_machine_bound: is 0 without jobs") { CHECK(one_machine_bound({}) == 0); }
