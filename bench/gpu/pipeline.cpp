// SPDX-License-Identifier: MIT
// Measures the host's time to run a schedule on a GPU with empty kernels, and compares steps of stages of
// known length with the simulator.
//
//   gpu_pipeline
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "cleave/run/executor/detail/executor.hpp"
#include "cleave/run/executor/measured_times.hpp"
#include "cleave/run/host/host_ranks.hpp"
#include "cleave/run/model/recording.hpp"
#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/program/step_plan.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/simulate/simulate.hpp"
#include "gpu/report.hpp"
#include "gpu/spinning_stages.hpp"
#include "timing.hpp"

namespace {

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;
using namespace std::chrono_literals;
using bench::repeat;
using bench::wall_seconds;

/// The host's time, with one empty kernel per pass. For one rank, the whole step is issuing; for several, the
/// actions of all ranks share the step.
void measure_overhead(gpu_report& report) {
  for (std::uint32_t const ranks : {1u, 2u, 4u}) {
    auto const s = make_schedule(schedule_family::one_f_one_b, {ranks, 1, 64});
    spinning_run spinning(s, {});
    spinning.step();
    auto const actions = static_cast<double>(count_actions(spinning.plan().order()));
    double cpu = bench::cpu_seconds();
    auto const t = repeat(30, [&] {
      auto const begin = wall_seconds();
      spinning.step();
      return 1e6 * (wall_seconds() - begin) / actions;
    });
    cpu = 1e6 * (bench::cpu_seconds() - cpu) / (30 * actions);
    report.measure(
        text("1F1B on %u ranks, 64 microbatches, empty kernels", ranks), "5 us an action or less",
        text("%.2f us (%.2f to %.2f) an action, %.2f us of processors", t.median, t.least, t.most, cpu),
        t.median, t.median <= 5);
  }
}

/// A rank that has all stages: it sends no messages, so all its work can be recorded.
struct nobody_else {
  static constexpr bool can_be_recorded = true;

  rank_id rank() const { return rank_id{0}; }
  std::uint32_t size() const { return 1; }
  void begin_group() {}
  void send(region, message const&, cuda_stream&) {}
  void receive(region, message const&, cuda_stream&) {}
  void all_reduce(region, reduce_op, std::uint32_t, cuda_stream&) {}
  void end_group(cuda_event& e, cuda_stream& s) { device->record(e, s); }
  std::optional<failure> poll() const { return std::nullopt; }
  void abort(failure const&) noexcept {}

  cleave::cuda::device* device;
};

/// The host's time for steps replayed as one CUDA graph, against issued steps.
void measure_replays(gpu_report& report) {
  auto const s = make_schedule(schedule_family::one_f_one_b, {1, 1, 64});
  spinning_model const model(s, 4096);
  step_plan const plan(s, model.t, model.layouts);
  auto const actions = static_cast<double>(count_actions(s));
  double issued = 0;
  for (auto const steps : {step_mode::issued, step_mode::replayed}) {
    cleave::cuda::device device;
    nobody_else alone{&device};
    host_ranks ranks(1);
    spinning_stages stages(spinning_bodies{{}});
    executor run(device, alone, ranks, stages, make_rank_program(plan, rank_id{0}), {.steps = steps});
    auto const input = device.allocate(4096);
    std::vector<tensor_view> const inputs(s.microbatches, {input.data(), element_type::f32, {1024}});
    for (int first = 0; first < 3; ++first) run.run_step({inputs, 1, {}});
    auto const t = repeat(30, [&] {
      auto const begin = wall_seconds();
      run.run_step({inputs, 1, {}});
      return 1e6 * (wall_seconds() - begin) / actions;
    });
    if (steps == step_mode::issued) {
      issued = t.median;
      continue;
    }
    report.measure("the same on 1 rank, replayed as a CUDA graph", "less than issued",
                   text("%.2f us (%.2f to %.2f) an action, %.2f of issued, %zu recording", t.median, t.least,
                        t.most, t.median / issued, run.replays().recordings()),
                   t.median / issued, t.median < issued);
  }
}

void measure_makespans(gpu_report& report) {
  constexpr auto forward = 2ms, backward = 4ms;
  for (auto const family : {schedule_family::gpipe, schedule_family::one_f_one_b,
                            schedule_family::interleaved_1f1b, schedule_family::zbv}) {
    auto const s = make_schedule(family, {4, stages_per_rank_of(family).value_or(2), 8});
    spinning_run spinning(s, {forward, backward});
    spinning.step();
    auto const t = repeat(5, [&] {
      auto const begin = wall_seconds();
      spinning.step();
      return wall_seconds() - begin;
    });
    simulate_options o;
    o.costs = {{.forward = 2e-3, .backward = 4e-3, .input_gradient = 2e-3, .weight_gradient = 2e-3}};
    double const simulated = simulate(s, o).makespan, share = t.median / simulated;
    auto const measured = text("%.2f ms (%.2f to %.2f), %.3f of %.2f ms", 1e3 * t.median, 1e3 * t.least,
                               1e3 * t.most, share, 1e3 * simulated);
    report.measure(std::string(name_of(family)) + " on 4 ranks of one GPU, passes of 2 and 4 ms",
                   "within 5 % of the simulated step", measured, share, share <= 1.05);
  }
}

}  // namespace

int main() try {
  gpu_report report("pipeline");
  measure_overhead(report);
  measure_replays(report);
  if (gpu_report::is_fake())
    report.skip("steps beside the simulated ones", "the fake runtime runs one kernel at a time");
  else
    measure_makespans(report);
} catch (std::exception const& e) {
  return std::fprintf(stderr, "gpu_pipeline: %s\n", e.what()), 1;
}
