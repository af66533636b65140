// SPDX-License-Identifier: MIT
// Runs the stages of a small calculation as a pipeline with one thread per stage; then runs one that fails.
#include <cleave/cleave.hpp>
#include <cleave/run.hpp>
#include <cmath>
#include <iostream>
#include <map>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

/// The adapter of a calculation: step n makes value n, and value -1 comes from the caller.
struct calculation {
  struct step {
    std::vector<int> reads;
    double (*apply)(double, double);
  };
  std::map<int, step> steps;

  auto nodes() const { return std::views::keys(steps); }
  std::vector<int> const& operands(int n) const { return steps.at(n).reads; }
  double weight(int) const { return 1; }
  std::size_t bytes(int) const { return sizeof(double); }
};

double root(double x, double) {
  if (x < 0) throw std::domain_error("no square root of " + std::to_string(x));
  return std::sqrt(x);
}

int main() {
  auto const plus = [](double x, double y) { return x + y; };
  auto const times = [](double x, double y) { return x * y; };
  calculation const g{{{0, {{-1, -1}, plus}},
                       {1, {{0, -1}, times}},
                       {2, {{1, 0}, plus}},
                       {3, {{2}, root}},
                       {4, {{3, 1}, plus}},
                       {5, {{4, 4}, plus}}}};
  auto const stages = cleave::split(g, cleave::balance(g, 3, {.cost_per_byte = 0}));

  auto const stage_function = [&](cleave::stage_id id) {
    return [&g, stage = stages[id]](cleave::microbatch_id, std::span<double> in) {
      std::map<int, double> value;
      for (std::size_t i = 0; i < in.size(); ++i) value[stage.inputs[i]] = in[i];
      for (int const n : stage.nodes)
        value[n] = g.steps.at(n).apply(value[g.operands(n).front()], value[g.operands(n).back()]);
      std::vector<double> out;
      for (int const v : stage.outputs) out.push_back(value[v]);
      return out;
    };
  };
  std::vector functions{stage_function(cleave::stage_id{0}), stage_function(cleave::stage_id{1}),
                        stage_function(cleave::stage_id{2})};
  auto const transport = dataflow_of(stages.snapshot(), stages.plan());

  auto const report =
      cleave::run_forward(functions, transport, std::vector<std::vector<double>>{{1}, {8}, {49}});
  for (auto const& result : report.results) std::cout << result.front() << '\n';
  std::cout << report.timeline.size() << " measured intervals\n";

  try {
    cleave::run_forward(functions, transport, std::vector<std::vector<double>>{{1}, {8}, {-0.5}});
  } catch (cleave::stage_error const& e) {
    std::cout << e.what() << '\n';
  }
}

// It prints:
//
//   8
//   280
//   9744
//   27 measured intervals
//   stage 1, microbatch 2: no square root of -0.500000
