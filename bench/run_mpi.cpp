// SPDX-License-Identifier: MIT
// The same as `run`, on MPI processes: one rank for each process started.
//
//   mpirun -n RANKS bench_run_mpi
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "busy_stages.hpp"
#include "cleave/mpi/environment.hpp"
#include "cleave/mpi/pipeline.hpp"
#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/simulate/simulate.hpp"
#include "measure.hpp"
#include "slowest_rank.hpp"

namespace {

using namespace cleave;

using namespace cleave::detail;
using busy = bench::busy_stages<cleave::mpi::device>;

/// Seconds of a step on the slowest rank, the spread of `runs`.
bench::spread step_seconds(schedule const& s, double forward, double backward, std::size_t runs,
                           cleave::mpi::sends sends, std::uint64_t& actions) {
  auto const t = bench::chain_dataflow(s.place);
  program_options const options;
  step_plan const plan(s, t, bench::one_number(t), options);
  actions = count_actions(plan.order());
  cleave::mpi::pipeline_options how;
  how.messages.sends = sends;
  cleave::mpi::pipeline<busy> run(plan, busy(forward, backward), how);
  std::vector<double> numbers(s.microbatches, 1);
  std::vector<tensor_view> inputs;
  for (auto& x : numbers) inputs.push_back({&x, element_type::f64, {1}});
  step_values const values{inputs, 1, {}};
  run.run_step(values);
  return bench::slowest_rank_seconds(runs, [&] { run.run_step(values); });
}

void print_overhead(cleave::mpi::environment const& mpi) {
  bool const prints = mpi.rank() == rank_id{0};
  if (prints)
    std::printf(
        "| schedule | ranks | stages a rank | microbatches | sends | actions | microseconds an action: "
        "median "
        "(least to most) |\n|---|---|---|---|---|---|---|\n");
  for (auto const family : {schedule_family::one_f_one_b, schedule_family::interleaved_1f1b})
    for (auto const sends : {cleave::mpi::sends::synchronous, cleave::mpi::sends::standard}) {
      auto const v = stages_per_rank_of(family).value_or(2);
      std::uint64_t actions = 0;
      auto const t = step_seconds(make_schedule(family, {mpi.size(), v, 64}), 0, 0, 30, sends, actions);
      auto const each = [&](double seconds) { return 1e6 * seconds / static_cast<double>(actions); };
      if (prints)
        std::printf("| %s | %u | %u | 64 | %s | %llu | %.2f (%.2f to %.2f) |\n",
                    std::string(name_of(family)).c_str(), mpi.size(), v,
                    sends == cleave::mpi::sends::standard ? "standard" : "synchronous",
                    static_cast<unsigned long long>(actions), each(t.median), each(t.least), each(t.most));
    }
}

void print_makespans(cleave::mpi::environment const& mpi) {
  bool const prints = mpi.rank() == rank_id{0};
  if (prints)
    std::printf(
        "\n| schedule | ranks | step, ms: median (least to most) | simulated, ms | measured / simulated |\n"
        "|---|---|---|---|---|\n");
  constexpr double f = 1e-3, b = 2e-3;
  for (auto const family : {schedule_family::gpipe, schedule_family::one_f_one_b,
                            schedule_family::interleaved_1f1b, schedule_family::zbv}) {
    auto const v = stages_per_rank_of(family).value_or(2);
    auto const s = make_schedule(family, {mpi.size(), v, 16});
    std::uint64_t actions = 0;
    auto const t = step_seconds(s, f, b, 5, cleave::mpi::sends::synchronous, actions);
    simulate_options o;
    o.costs = {{.forward = f, .backward = b, .input_gradient = b / 2, .weight_gradient = b / 2}};
    double const simulated = simulate(s, o).makespan;
    if (prints)
      std::printf("| %s | %u | %.2f (%.2f to %.2f) | %.2f | %.3f |\n", std::string(name_of(family)).c_str(),
                  mpi.size(), 1e3 * t.median, 1e3 * t.least, 1e3 * t.most, 1e3 * simulated,
                  t.median / simulated);
  }
}

}  // namespace

int main() {
  cleave::mpi::environment mpi;
  return mpi.run([&] {
    print_overhead(mpi);
    if (mpi.size() == 2) print_makespans(mpi);  // with more, stages would wait for processors
    return 0;
  });
}
