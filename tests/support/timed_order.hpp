// SPDX-License-Identifier: MIT
#pragma once
#include <utility>
#include <vector>

#include "cleave/formats/timed_schedule.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/simulate/critical_path.hpp"
#include "cleave/schedule/simulate/memory_over_time.hpp"
#include "cleave/schedule/simulate/simulate.hpp"

namespace cleave::testing {

/// A schedule with everything that is drawn of it.
struct timed_order {
  schedule order;
  schedule_times times;
  std::vector<std::vector<memory_step>> memory;
  std::vector<action_place> critical;

  explicit timed_order(schedule s, simulate_options const& options = {})
      : order(std::move(s)), times(simulate(order, options)), memory(memory_over_time(order, times, {})) {
    for (auto const& step : critical_path(order, times))
      critical.push_back({step.rank, static_cast<std::uint32_t>(step.position)});
  }
  timed_schedule shown() const {
    return {.name = "an <order> & its times",
            .order = order,
            .times = times,
            .memory = memory,
            .critical = critical};
  }
};

/// Returns schedules of every kind.
inline std::vector<timed_order> timed_orders() {
  std::vector<timed_order> list;
  for (auto const family :
       {schedule_family::gpipe, schedule_family::interleaved_1f1b, schedule_family::zbv,
        schedule_family::dual_pipe, schedule_family::dual_pipe_v, schedule_family::forward_only})
    list.emplace_back(make_schedule(family, {4, stages_per_rank_of(family).value_or(2), 8}),
                      simulate_options{.base_latency = 0.25});
  list.emplace_back(make_schedule(schedule_family::dual_pipe_v, {2, 2, 4}),
                    simulate_options{.compounds = compound_time::longest_part});
  list.emplace_back(make_schedule(schedule_family::one_f_one_b, {1, 1, 1}));
  return list;
}

}  // namespace cleave::testing
