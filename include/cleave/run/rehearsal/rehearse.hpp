// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/one_or_each.hpp"
#include "cleave/run/executor/measured_times.hpp"
#include "cleave/run/executor/pipeline_options.hpp"
#include "cleave/run/host/host_device.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/edge_layout.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/program/step_plan.hpp"
#include "cleave/run/program/step_values.hpp"
#include "cleave/run/rehearsal/paced_stage.hpp"
#include "cleave/run/rehearsal/throttled_threads.hpp"
#include "cleave/run/threads/thread_pipeline.hpp"
#include "cleave/schedule/lower/nominal_times.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_times.hpp"
#include "cleave/schedule/model/simulate_options.hpp"
#include "cleave/schedule/simulate/simulate.hpp"

namespace cleave::inline v0_2::detail {

/// A stage that computes nothing, and knows when its rank began its first pass.
struct idle_stage {
  using stream = host_device::stream;
  using clock = std::chrono::steady_clock;
  std::optional<clock::time_point> began = {};

  void forward(stream&, stage_pass const&, std::span<tensor_view const>, std::span<tensor_view>) { note(); }
  void backward(stream&, stage_pass const&, std::span<tensor_view const>, std::span<tensor_view const>) {
    note();
  }
  void backward_input(stream&, stage_pass const&, std::span<tensor_view const>,
                      std::span<tensor_view const>) {
    note();
  }
  void backward_weight(stream&, stage_pass const&) { note(); }
  void recompute(stream&, stage_pass const&, std::span<tensor_view const>) { note(); }

 private:
  void note() {
    if (!began) began = clock::now();
  }
};

/// Counts the times of each rank from when the first rank started its step, not from its own start. `began`
/// has the begin of each rank's first pass, where it has one.
inline void set_one_origin(std::vector<measured_rank>& ranks,
                           std::vector<std::optional<idle_stage::clock::time_point>> const& began) {
  std::vector<std::int64_t> origin(ranks.size());
  auto earliest = (std::numeric_limits<std::int64_t>::max)();
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (!began[r]) continue;
    auto first = (std::numeric_limits<std::int64_t>::max)();
    for (std::size_t i = 0; i < ranks[r].times.size(); ++i)
      if (is_pass(ranks[r].program.instructions[i].call.kind))
        first = (std::min)(first, ranks[r].times[i].begin);
    origin[r] = std::chrono::nanoseconds(began[r]->time_since_epoch()).count() - first;
    earliest = (std::min)(earliest, origin[r]);
  }
  for (std::size_t r = 0; r < ranks.size(); ++r)
    for (auto& t : ranks[r].times)
      if (began[r] && t.end > 0) t.begin += origin[r] - earliest, t.end += origin[r] - earliest;
}

/// The dataflow of a rehearsal. Its messages are smaller than those of the schedule by one factor, and its
/// links slower by as much.
struct rehearsed_messages {
  dataflow edges;
  run_layouts layouts;
  double factor = 1;  ///< bytes of a message of the schedule for each byte

  rehearsed_messages(schedule const& s, simulate_options const& timing)
      : edges{.stages = s.place.stages(), .edges = {}} {
    constexpr double most_numbers = 16'384;  // of a message
    bool const trains = passes_of(s) == expected_passes::forward_and_backward;
    factor = (std::max)(1.0, static_cast<double>(largest_message(timing)) / most_numbers / sizeof(float));
    std::vector<std::uint32_t> results(edges.stages), operands(edges.stages);
    auto const add = [&](stage_edge const& e, std::uint64_t bytes, gradient_use use) {
      auto const numbers = std::llround(static_cast<double>(bytes) / factor / sizeof(float));
      edges.edges.push_back({e.from, results[index(e.from)]++, e.to, operands[index(e.to)]++});
      layouts.edges.push_back(
          {.shape = {(std::max)(std::int64_t{1}, std::int64_t{numbers})}, .gradient = use});
    };
    for (std::size_t e = 0; e < s.place.edges.size(); ++e) {
      auto const bytes = one_or_each(timing.bytes).of(e);
      auto const& edge = s.place.edges[e];
      if (!trains) {
        add(edge, bytes.activation, gradient_use::none);
        continue;
      }
      if (bytes.gradient > bytes.activation)
        throw error("rehearse: the gradient of edge #" + std::to_string(e) +
                    " has more bytes than its activation; give both the larger number");
      add(edge, bytes.gradient, gradient_use::wanted);
      if (bytes.activation > bytes.gradient) add(edge, bytes.activation - bytes.gradient, gradient_use::none);
    }
  }
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A schedule with its messages, and the measured time of each action.
struct rehearsal {
  schedule order;
  schedule_times times;
};

/// Runs one step of a schedule on threads of this process, one per rank. Each pass sleeps for its cost, and
/// each message takes the time of its links, as in `simulate` with these options: an experiment that shows
/// what the prediction leaves out. `unit` is the length of the unit of time of the options; steps below a
/// second are dominated by the threads themselves. The times are in that unit again. Noise, and options for
/// compounds, are ignored.
/// \throws error, and the errors of `simulate`, `step_plan` and `thread_pipeline`
inline rehearsal rehearse(schedule const& s, simulate_options const& timing,
                          std::chrono::duration<double> unit) {
  auto const expected = simulate(s, timing).makespan * unit;
  constexpr std::chrono::duration<double> longest = std::chrono::hours(24);
  if (!(expected <= longest))
    throw error("rehearse: the step takes more than a day; choose a shorter unit of time");
  detail::rehearsed_messages const messages(s, timing);
  auto scaled = timing;
  for (auto& l : scaled.links) l.bandwidth /= messages.factor;
  for (auto& u : scaled.uplinks) u.bandwidth /= messages.factor;
  scaled.bytes = {};
  program_options how;
  how.lowering.times = nominal_times_of(timing, s.place);
  step_plan const planned(s, messages.edges, messages.layouts, how);
  using stages = paced_stage<detail::idle_stage>;
  pipeline_options options;
  options.watchdog.limit =
      std::chrono::duration_cast<std::chrono::milliseconds>(10 * expected) + std::chrono::minutes(1);
  thread_pipeline<stages, throttled_threads> run(
      planned, [&](rank_id, host_device&) { return stages({}, scaled, unit); }, options,
      throttled_threads(scaled, unit));
  run.run_step(step_values{});
  std::vector<measured_rank> measured;
  std::vector<std::optional<detail::idle_stage::clock::time_point>> began;
  for (std::uint32_t r = 0; r < run.ranks(); ++r) {
    measured.push_back({run.program(rank_id{r}), run.times(rank_id{r})});
    began.push_back(run.stages_of(rank_id{r}).began);
  }
  detail::set_one_origin(measured, began);
  return {planned.order(), measured_times(planned.order(), measured, unit.count() * 1e9)};
}

}  // namespace cleave
