// SPDX-License-Identifier: MIT
// Measures the overhead of running a schedule on threads, in microseconds per action, with nearly empty
// stages. Then compares the measured step of busy stages with the simulated one. Then measures what a stage
// engine adds to each operator. Then measures the time and memory of many stages and microbatches.
//
//   bench_run large     only many stages and microbatches
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
#include "cleave/engine/stage_engine.hpp"
#include "cleave/engine/taped_operators.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/pipe/module_pipe.hpp"
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

/// A framework whose operators do nothing: a tensor is a number, and each operator returns its operand. The
/// gradient of any tensor is its own value.
struct idle_framework {
  using tensor = double;

  tensor_view view(tensor const& t) { return {const_cast<double*>(&t), element_type::f64, {}}; }
  tensor wrap(tensor_view const& v) { return *static_cast<double*>(v.data); }
  tensor copy(tensor t) { return t; }
  void write(tensor t, tensor_view const& v) { *static_cast<double*>(v.data) = t; }
  void add(tensor t, tensor_view const& v, double x) { *static_cast<double*>(v.data) += x * t; }
  void fill(tensor_view const& v, double x) { *static_cast<double*>(v.data) = x; }
  model_value<tensor> call(operator_call<tensor> const& c) { return c.tensor(0); }
  tensor filled(tensor, double x) { return x; }
  tensor sum(tensor x, tensor y) { return x + y; }
  operand_gradients<tensor> backward(operator_backward<tensor> const& b) { return {b.gradient()}; }
  bool differentiates(module_node const&) const { return true; }
};

/// Returns nanoseconds per operator of a step of a stage with `operators` operators.
template <class F>
spread engine_nanoseconds(F f, std::uint32_t operators) {
  module_graph g;
  auto const add = [&](node_kind kind, std::string const& name, std::vector<module_argument> args) {
    module_node n;
    n.kind = kind;
    n.name = n.target = name;
    n.args = std::move(args);
    return node_argument(g.add(std::move(n)));
  };
  g.add_attribute({"w", module_attribute::kind::parameter, {}, {}, {}, {}});
  add(node_kind::placeholder, "x", {});
  auto last = add(node_kind::get_attr, "w", {});
  for (std::uint32_t i = 0; i < operators; ++i)
    last = add(node_kind::call_function, "op" + std::to_string(i), {last});
  add(node_kind::output, "output", {last});
  auto const pipe = make_module_pipe(g);
  using tensor = typename F::tensor;
  std::vector<model_inputs<tensor>> const batch{positional_inputs<tensor>(1.0)};
  stage_engine engine(pipe, f, std::map<std::string, tensor>{{"w", 1.0}}, batch);
  host_memory memory;
  schedule const one{{1, {rank_id{0}}, {}}, 1, {{}}};
  auto stages = engine.template make_stages<host_device>(one, rank_id{0}, memory);
  double in = 1, out = 0;
  tensor_view const given[] = {{&in, element_type::f64, {}}}, none[1] = {};
  tensor_view made[] = {{&out, element_type::f64, {}}};
  host_device::stream s;
  auto const gives_x = engine.wiring().edges.edges.size() > 1;
  auto const inputs =
      std::span(given).first(gives_x && engine.wiring().edges.edges[0].to == stage_id{0} ? 1 : 0);
  stage_pass pass{.stage = stage_id{0}, .microbatch = microbatch_id{0}, .from_loss = true, .last = true};
  pass.trains = differentiating_framework<F>;
  return repeat(200, [&] {
    auto const begin = wall_seconds();
    stages.forward(s, pass, inputs, made);
    if constexpr (differentiating_framework<F>)
      stages.backward(s, pass, std::span(none), std::span(none).first(inputs.size()));
    return 1e9 * (wall_seconds() - begin) / operators;
  });
}

void print_engine() {
  std::printf(
      "\n| a stage of operators that do nothing | nanoseconds an operator: median (least to most) "
      "|\n|---|---|\n");
  for (std::uint32_t const operators : {10u, 1000u}) {
    auto const forward = engine_nanoseconds(idle_framework(), operators);
    auto const both = engine_nanoseconds(taped_operators<idle_framework>(), operators);
    std::printf("| %u operators, forward without a tape | %.0f (%.0f to %.0f) |\n", operators, forward.median,
                forward.least, forward.most);
    std::printf("| %u operators, forward and backward with the library's tape | %.0f (%.0f to %.0f) |\n",
                operators, both.median, both.least, both.most);
  }
}

/// CPU seconds of the parts of a run of 1F1B, from its schedule to the end of the first step, seconds of wall
/// time of all, and the peak memory of the process in bytes.
struct large_run {
  double plan = -1, pipeline = 0, step = 0, wall = 0, bytes = 0;
};

large_run measure_large(std::uint32_t ranks, std::uint32_t microbatches) {
  auto const begin = wall_seconds(), from = cpu_seconds();
  auto s = make_schedule(schedule_family::one_f_one_b, {ranks, 1, microbatches});
  auto const t = chain_dataflow(s.place);
  program_options const options;
  step_plan const plan(s, t, one_number(t), options);
  s = {};  // the plan has a copy with messages
  auto const planned = cpu_seconds();
  thread_pipeline<busy> run(plan, std::vector<busy>(ranks, busy(0, 0)));
  auto const made = cpu_seconds();
  std::vector<double> numbers(microbatches, 1);
  std::vector<tensor_view> inputs;
  for (auto& x : numbers) inputs.push_back({&x, element_type::f64, {1}});
  step_values const values{inputs, 1, {}};
  run.run_step(values);
  return {planned - from, made - planned, cpu_seconds() - made, wall_seconds() - begin,
          static_cast<double>(memory_line("VmHWM"))};
}

void print_large() {
  std::printf(
      "\n| stages | microbatches | schedule and plan, CPU s | pipeline, CPU s | first step, CPU s | all, CPU "
      "s "
      "| all, wall s | peak memory, MB | bytes for each stage and microbatch |\n"
      "|---|---|---|---|---|---|---|---|---|\n");
  for (auto const& [ranks, microbatches] :
       {std::pair(4u, 10000u), std::pair(16u, 10000u), std::pair(200u, 200u), std::pair(1000u, 1000u)}) {
    auto const t = in_child([n = ranks, m = microbatches] { return measure_large(n, m); });
    std::printf("| %u | %u | %.2f | %.2f | %.2f | %.2f | %.2f | %.0f | %.0f |\n", ranks, microbatches, t.plan,
                t.pipeline, t.step, t.plan + t.pipeline + t.step, t.wall, 1e-6 * t.bytes,
                t.bytes / ranks / microbatches);
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1 && std::string(arguments[1]) == "large") return print_large(), 0;
  others beside;
  if (count > 1) beside = read_others(arguments[1]);
  if (count > 1 && beside.empty())
    return std::fprintf(stderr, "%s: no lines \"SCHEDULE RANKS ...\"\n", arguments[1]), 2;
  print_overhead(beside);
  print_makespans();
  print_engine();
  print_large();
}
