// SPDX-License-Identifier: MIT
// Measures the overhead of running a schedule on threads, in microseconds per action, with nearly empty
// stages. Then compares the measured step of busy stages with the simulated one.
//
//   bench_run [FILE]    FILE: lines "SCHEDULE RANKS STAGES_A_RANK MICROBATCHES ACTIONS LEAST MEDIAN MOST",
//   microseconds of a step of PyTorch's runtime (tests/support/torch_run.py)
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "busy_stages.hpp"
#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/threads/thread_pipeline.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/simulate/simulate.hpp"
#include "measure.hpp"

namespace {

using namespace cleave;
using namespace bench;
using busy = busy_stages<host_device>;

/// Seconds of a step, the spread of `runs`.
spread step_seconds(schedule const& s, double forward, double backward, std::size_t runs,
                    std::uint64_t& actions) {
  auto const t = chain_dataflow(s.place);
  program_options const options;  // a named object, since g++ 12 warns about a temporary
  step_plan const plan(s, t, one_number(t), options);
  actions = count_actions(plan.order());
  thread_pipeline<busy> run(plan, std::vector<busy>(s.ranks.size(), busy(forward, backward)));
  std::vector<double> numbers(s.microbatches, 1);
  std::vector<tensor_view> inputs;
  for (auto& x : numbers) inputs.push_back({&x, element_type::f64, {1}});
  step_values const values{inputs, 1, {}};
  run.run_step(values);
  return repeat(runs, [&] {
    auto const begin = wall_seconds();
    run.run_step(values);
    return wall_seconds() - begin;
  });
}

/// Microseconds per action, by schedule and ranks. For 1F1B, the faster of PyTorch's two implementations.
using others = std::map<std::pair<std::string, std::uint32_t>, spread>;

others read_others(char const* path) {
  others read;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint32_t ranks = 0, stages = 0, microbatches = 0;
    double actions = 0;
    spread t{};
    if (!(words >> name >> ranks >> stages >> microbatches >> actions >> t.least >> t.median >> t.most))
      continue;
    auto& known = read[{name == "Schedule1F1B" ? "1F1B" : name, ranks}];
    if (known.median == 0 || t.median / actions < known.median)
      known = {t.least / actions, t.median / actions, t.most / actions};
  }
  return read;
}

void print_overhead(others const& beside) {
  std::printf(
      "| schedule | ranks | stages a rank | microbatches | actions | microseconds an action: median (least "
      "to most) | torch in this run | times faster |\n"
      "|---|---|---|---|---|---|---|---|\n");
  for (std::uint32_t const ranks : {2u, 4u})
    for (auto const family : {schedule_family::one_f_one_b, schedule_family::interleaved_1f1b}) {
      auto const v = stages_per_rank_of(family).value_or(2);
      std::uint64_t actions = 0;
      auto const t = step_seconds(make_schedule(family, {ranks, v, 64}), 0, 0, 30, actions);
      auto const each = [&](double seconds) { return 1e6 * seconds / static_cast<double>(actions); };
      std::string const name(name_of(family));
      std::printf("| %s | %u | %u | 64 | %llu | %.2f (%.2f to %.2f) |", name.c_str(), ranks, v,
                  static_cast<unsigned long long>(actions), each(t.median), each(t.least), each(t.most));
      auto const other = beside.find({name, ranks});
      if (other == beside.end()) {
        std::printf(" – | – |\n");
        continue;
      }
      auto const& o = other->second;
      std::printf(" %.0f (%.0f to %.0f) | %.0f |\n", o.median, o.least, o.most, o.median / each(t.median));
    }
}

void print_makespans() {
  std::printf(
      "\n| schedule | ranks | step, ms: median (least to most) | simulated, ms | measured / simulated |\n"
      "|---|---|---|---|---|\n");
  constexpr double f = 1e-3, b = 2e-3;
  for (auto const family : {schedule_family::gpipe, schedule_family::one_f_one_b,
                            schedule_family::interleaved_1f1b, schedule_family::zbv}) {
    auto const v = stages_per_rank_of(family).value_or(2);
    auto const s = make_schedule(family, {2, v, 16});
    std::uint64_t actions = 0;
    auto const t = step_seconds(s, f, b, 5, actions);
    simulate_options o;
    o.costs = {{.forward = f, .backward = b, .input_gradient = b / 2, .weight_gradient = b / 2}};
    double const simulated = simulate(s, o).makespan;
    std::printf("| %s | 2 | %.2f (%.2f to %.2f) | %.2f | %.3f |\n", std::string(name_of(family)).c_str(),
                1e3 * t.median, 1e3 * t.least, 1e3 * t.most, 1e3 * simulated, t.median / simulated);
  }
}

}  // namespace

int main(int count, char** arguments) {
  others beside;
  if (count > 1) beside = read_others(arguments[1]);
  if (count > 1 && beside.empty())
    return std::fprintf(stderr, "%s: no lines \"SCHEDULE RANKS ...\"\n", arguments[1]), 2;
  print_overhead(beside);
  print_makespans();
}
