// SPDX-License-Identifier: MIT
// Schedules on four ranks of one GPU, threads of this process: every family makes the bits that threads of
// the host make, and passes of different ranks run at the same time.
//
//   gpu_loopback
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cleave/run/executor/measured_times.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "gpu/report.hpp"
#include "gpu/spinning_stages.hpp"
#include "support/cuda/linear_runs.hpp"
#include "support/linear_chain.hpp"
#include "support/random_schedule.hpp"
#include "support/rng.hpp"

namespace {

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;
using namespace std::chrono_literals;

/// Whether two steps of it make what threads of the host make.
bool is_equal(schedule const& s, lower_options const& how, rng& random) {
  linear_chain const c(s, random);
  step_plan const p(s, c.t, linear_layouts(c.t, c.rows), {.lowering = how});
  auto const wanted = outcome_on_host(p, c, 2);
  cleave::cuda::device d;
  cuda_step const step(d, c.values());
  cuda_linear_run run(p, linear_engines(c), {.watchdog = {.limit = 60s}});
  run.run_step(step.values());
  run.run_step(step.values());
  return outcome_of(run, p, c) == wanted;
}

void check_families(gpu_report& report) {
  rng random(21);
  for (std::size_t f = 0; f < schedule_names.size(); ++f) {
    auto const family = static_cast<schedule_family>(f);
    auto const s = family_schedule(family, 4, 8);
    std::size_t equal = 0, runs = 0;
    for (auto const messages : {message_order::timed, message_order::rounds})
      for (auto const grouping : {message_grouping::none, message_grouping::adjacent}) {
        equal += is_equal(s, {.messages = messages, .grouping = grouping}, random) ? 1 : 0;
        ++runs;
      }
    report.check(equal == runs, std::string(name_of(family)) + ", 4 ranks, 8 microbatches",
                 "results and gradients have the bits of the host", text("%zu of %zu plans", equal, runs));
  }
}

/// By the times of events on the GPU: of 33 units that a step takes, each rank is busy for 24.
void check_overlap(gpu_report& report) {
  char const* const what = "ranks compute at the same time (1F1B, by events)";
  if (gpu_report::is_fake()) return report.skip(what, "the fake runtime runs one kernel at a time");
  constexpr auto forward = 5ms, backward = 10ms;
  auto const s = make_schedule(schedule_family::one_f_one_b, {4, 1, 8});
  spinning_run spinning(s, {forward, backward});
  spinning.step();
  spinning.step();
  std::vector<measured_rank> ranks;
  for (std::uint32_t r = 0; r < 4; ++r)
    ranks.push_back({spinning.run().program(rank_id{r}), spinning.run().times(rank_id{r})});
  auto const times = measured_times(spinning.plan().order(), ranks);
  double busy = 0;
  for (auto const b : times.busy) busy += b;
  report.check(busy / times.makespan > 2, what,
               "more than 2 of 4 at once on average; 2.9 if messages took no time",
               text("%.2f at once", busy / times.makespan));
}

}  // namespace

int main() try {
  gpu_report report("loopback");
  check_families(report);
  check_overlap(report);
  return report.status();
} catch (std::exception const& e) {
  return std::fprintf(stderr, "gpu_loopback: %s\n", e.what()), 1;
}
