// SPDX-License-Identifier: MIT
// Trains two of your own stages on threads: a 1F1B schedule over four microbatches, then an optimiser step.
// The model is loss = (b * a * x - y)^2; stage 0 has a, and stage 1 has b.
#include <cleave/run.hpp>
#include <cleave/schedule.hpp>
#include <iomanip>
#include <iostream>
#include <map>
#include <span>
#include <utility>
#include <vector>

// [engine]
/// The engine of a rank. It reads the views of its inputs and writes to the views of its results.
class small_stages {
 public:
  using stream = cleave::host_device::stream;
  using views = std::span<cleave::tensor_view const>;

  // [passes]
  void forward(stream&, cleave::stage_pass const& p, views in, std::span<cleave::tensor_view> out) {
    double const x = number(in[0]);
    kept_[{p.stage, p.microbatch}] = x;
    double const made = weight_ * x;
    number(out[0]) = p.stage == cleave::stage_id{0} ? made : (made - number(in[1])) * (made - number(in[1]));
    if (p.stage == cleave::stage_id{1}) error_[p.microbatch] = made - number(in[1]);
  }

  void backward(stream&, cleave::stage_pass const& p, views gradients, views in) {
    // The loss begins it, and counts by its weight.
    double const g = p.from_loss ? 2 * error_[p.microbatch] * p.weight : number(gradients[0]);
    gradient_ += g * kept_[{p.stage, p.microbatch}];
    if (in[0].data) number(in[0]) = g * weight_;
  }
  // [passes]

  std::span<cleave::region const> gradients(cleave::stage_id) { return region_of(gradient_); }
  std::span<cleave::region const> parameters(cleave::stage_id) { return region_of(weight_); }
  void update(stream&, cleave::stage_id, double factor) {
    weight_ -= 0.04 * factor * gradient_;
    gradient_ = 0;
  }

 private:
  static double& number(cleave::tensor_view const& v) { return *static_cast<double*>(v.data); }
  std::span<cleave::region const> region_of(double& x) {
    region_ = {&x, 1, cleave::element_type::f64};
    return {&region_, 1};
  }

  double weight_ = 1, gradient_ = 0;
  std::map<std::pair<cleave::stage_id, cleave::microbatch_id>, double> kept_;
  std::map<cleave::microbatch_id, double> error_;
  cleave::region region_;
};
// [engine]

int main() {
  // [plan]
  constexpr auto first = cleave::stage_id{0}, second = cleave::stage_id{1};
  cleave::dataflow const edges{.stages = 2,
                               .edges = {{cleave::the_caller, 0, first, 0},     // x
                                         {first, 0, second, 0},                 // a x
                                         {cleave::the_caller, 1, second, 1},    // y
                                         {second, 0, cleave::the_caller, 0}}};  // the loss
  cleave::edge_layout const number{.type = cleave::element_type::f64, .shape = {1}};
  cleave::step_plan const plan(cleave::one_f_one_b(2, 4), edges, {.edges = {4, number}});
  // [plan]

  // [run]
  cleave::thread_pipeline<small_stages> run(plan, std::vector<small_stages>(2));
  double batch[] = {1, 6, 2, 12, -1, -6, 0, 0};  // x and y of each microbatch: y = 6 x
  std::vector<cleave::tensor_view> inputs;
  for (auto& n : batch) inputs.push_back({&n, cleave::element_type::f64, {1}});
  std::vector<double> const quarter(4, 0.25);

  for (int step = 0; step < 5; ++step) {
    run.run_step({.inputs = inputs, .inputs_of_each = 2, .weights = quarter});
    double loss = 0;
    for (std::uint32_t m = 0; m < 4; ++m)
      loss += quarter[m] * *static_cast<double*>(run.result(cleave::microbatch_id{m}, 0)->data);
    auto const done = run.update({.most_norm = 10});
    std::cout << "loss " << std::setprecision(4) << loss << ", norm of the gradient " << done.norm << '\n';
  }
  // [run]

  // A missing input is reported before the step begins.
  auto bad = inputs;
  bad[2].data = nullptr;
  try {
    run.run_step({.inputs = bad, .inputs_of_each = 2});
  } catch (cleave::error const& e) {
    std::cout << e.what() << '\n';
  }
}

// It prints:
//
//   loss 37.5, norm of the gradient 21.21
//   loss 28.44, norm of the gradient 23.7
//   loss 18.89, norm of the gradient 23.57
//   loss 10.01, norm of the gradient 20.26
//   loss 3.185, norm of the gradient 13.18
//   step: input #0 of microbatch 1 is read by this rank, but has no data
