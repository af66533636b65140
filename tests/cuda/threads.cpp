// SPDX-License-Identifier: MIT
#include "cleave/cuda/threads.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/schedule/schedule_names.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/linear_runs.hpp"
#include "support/linear_chain.hpp"
#include "support/random_schedule.hpp"
#include "support/rng.hpp"

using namespace cleave;
using namespace cleave::testing;

namespace {

using namespace std::chrono_literals;
using sentences = std::vector<std::string>;

lower_options random_lowering(rng& random) {
  return {.messages = random.one_in(2) ? message_order::timed : message_order::rounds,
          .receives = random.one_in(2) ? receive_time::at_once : receive_time::deferred,
          .reductions = random.one_in(2) ? reduction_wait::at_once : reduction_wait::deferred,
          .grouping = random.one_in(2) ? message_grouping::none : message_grouping::adjacent};
}

}  // namespace

TEST_CASE("cuda threads: every family of schedules makes what threads on the host make, bit by bit") {
  rng random(2);
  for (std::size_t f = 0; f < schedule_names.size(); ++f)
    for (std::uint32_t ranks : {2u, 4u}) {
      auto const family = static_cast<schedule_family>(f);
      auto const s = family_schedule(family, ranks, 2 * ranks);
      linear_chain const c(s, random);
      CAPTURE(name_of(family));
      CAPTURE(ranks);
      step_plan const p(s, c.t, linear_layouts(c.t, c.rows), {.lowering = random_lowering(random)});
      auto const wanted = outcome_on_host(p, c);

      fake_cuda fake({.seed = random.next(), .longest_delay = 200us});
      {
        cuda_device d;
        cuda_step const step(d, c.values());
        cuda_linear_run run(p, linear_engines(c), {.limit = 20s});
        run.run_step(step.values());
        fake.threads_met();
        CHECK(outcome_of(run, p, c) == wanted);
      }
      CHECK(fake.reports() == sentences());
      CHECK(fake.leaks() == sentences());
    }
}
