// SPDX-License-Identifier: MIT
// Runs the training of 05_stages_of_your_own on two MPI processes:
// mpirun -n 2 example_run_04_run_on_processes_mpi
#include <cleave/mpi.hpp>
#include <cleave/run.hpp>
#include <cleave/schedule.hpp>
#include <iomanip>
#include <iostream>
#include <map>
#include <span>
#include <utility>
#include <vector>

/// The engine of a rank: loss = (b * a * x - y)^2; stage 0 has a, and stage 1 has b.
class small_stages {
 public:
  using stream = cleave::mpi::device::stream;
  using views = std::span<cleave::tensor_view const>;

  void forward(stream&, cleave::stage_pass const& p, views in, std::span<cleave::tensor_view> out) {
    double const made = weight_ * (kept_[p.microbatch] = number(in[0]));
    error_[p.microbatch] = in.size() > 1 ? made - number(in[1]) : 0;
    number(out[0]) = in.size() > 1 ? error_[p.microbatch] * error_[p.microbatch] : made;
  }
  void backward(stream&, cleave::stage_pass const& p, views gradients, views in) {
    double const g = p.from_loss ? 2 * error_[p.microbatch] * p.weight : number(gradients[0]);
    gradient_ += g * kept_[p.microbatch];
    if (in[0].data) number(in[0]) = g * weight_;
  }
  std::span<cleave::region const> gradients(cleave::stage_id) { return region_of(gradient_); }
  std::span<cleave::region const> parameters(cleave::stage_id) { return region_of(weight_); }
  void update(stream&, cleave::stage_id, double factor) {
    weight_ -= 0.04 * factor * std::exchange(gradient_, 0);
  }

 private:
  static double& number(cleave::tensor_view const& v) { return *static_cast<double*>(v.data); }
  std::span<cleave::region const> region_of(double& x) {
    region_ = {&x, 1, cleave::element_type::f64};
    return {&region_, 1};
  }

  double weight_ = 1, gradient_ = 0;
  std::map<cleave::microbatch_id, double> kept_, error_;
  cleave::region region_;
};

void train() {
  constexpr auto first = cleave::stage_id{0}, second = cleave::stage_id{1};
  cleave::dataflow const edges{.stages = 2,
                               .edges = {{cleave::the_caller, 0, first, 0},
                                         {first, 0, second, 0},
                                         {cleave::the_caller, 1, second, 1},
                                         {second, 0, cleave::the_caller, 0}}};
  cleave::edge_layout const one{.type = cleave::element_type::f64, .shape = {1}};
  cleave::step_plan const plan(cleave::one_f_one_b(2, 4), edges, {.edges = {4, one}});
  double batch[] = {1, 6, 2, 12, -1, -6, 0, 0};
  std::vector<cleave::tensor_view> inputs;
  for (auto& n : batch) inputs.push_back({&n, cleave::element_type::f64, {1}});
  std::vector<double> const quarter(4, 0.25);

  // [run]
  cleave::mpi::pipeline<small_stages> run(plan, small_stages());
  for (int step = 0; step < 5; ++step) {
    run.run_step({.inputs = inputs, .inputs_of_each = 2, .weights = quarter});
    double loss = 0;
    for (std::uint32_t m = 0; m < 4; ++m)
      if (auto const made = run.result(cleave::microbatch_id{m}, 0))  // on the rank of the last stage
        loss += quarter[m] * *static_cast<double*>(made->data);
    auto const done = run.update({.most_norm = 10});
    if (run.rank() == cleave::rank_id{1})
      std::cout << "loss " << std::setprecision(4) << loss << ", norm of the gradient " << done.norm << '\n';
  }
  // [run]
}

// [main]
int main() {
  cleave::mpi::environment mpi;
  return mpi.run([] { return train(), 0; });
}
// [main]

// It prints:
//
//   loss 37.5, norm of the gradient 21.21
//   loss 28.44, norm of the gradient 23.7
//   loss 18.89, norm of the gradient 23.57
//   loss 10.01, norm of the gradient 20.26
//   loss 3.185, norm of the gradient 13.18
