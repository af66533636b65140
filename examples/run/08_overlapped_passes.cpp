// SPDX-License-Identifier: MIT
// Trains four stages with DualPipeV on two threads. Stages run the overlapped passes of the schedule as one,
// and have hooks at both ends of the model. The model is loss = w3 * w2 * w1 * w0 * x.
#include <cleave/run.hpp>
#include <cleave/schedule.hpp>
#include <iostream>
#include <map>
#include <span>
#include <utility>
#include <vector>

class product_stages {
 public:
  using stream = cleave::host_device::stream;
  using views = std::span<cleave::tensor_view const>;

  void forward(stream&, cleave::stage_pass const& p, views in, std::span<cleave::tensor_view> out) {
    kept_[{p.stage, p.microbatch}] = number(in[0]);
    number(out[0]) = weight_of(p) * number(in[0]);
  }
  void backward(stream& s, cleave::stage_pass const& p, views gradients, views in) {
    backward_input(s, p, gradients, in);
    backward_weight(s, p);
  }
  void backward_input(stream&, cleave::stage_pass const& p, views gradients, views in) {
    double const g = arrived_[{p.stage, p.microbatch}] = p.from_loss ? p.weight : number(gradients[0]);
    if (in[0].data) number(in[0]) = g * weight_of(p);
  }
  void backward_weight(stream&, cleave::stage_pass const& p) {
    gradient[p.stage] += arrived_[{p.stage, p.microbatch}] * kept_[{p.stage, p.microbatch}];
  }

  // [overlapped]
  /// Both passes as one. An engine would begin a transfer of one, compute the other meanwhile, and so on.
  void overlapped(stream& s, cleave::custom_part const& f, cleave::custom_part const& b) {
    backward_input(s, b.pass, b.in, b.out);
    forward(s, f.pass, f.in, f.out);
    backward_weight(s, b.pass);
    ++pairs;
  }

  /// The model begins a microbatch, has computed it, and has ended its backward pass.
  void before_forward(stream&, cleave::stage_pass const&) { ++begun; }
  void after_forward(stream&, cleave::stage_pass const&) { ++computed; }
  void after_backward(stream&, cleave::stage_pass const&) { ++ended; }
  // [overlapped]

  std::map<cleave::stage_id, double> gradient;
  int pairs = 0, begun = 0, computed = 0, ended = 0;

 private:
  using key = std::pair<cleave::stage_id, cleave::microbatch_id>;
  static double& number(cleave::tensor_view const& v) { return *static_cast<double*>(v.data); }
  static double weight_of(cleave::stage_pass const& p) { return 1 + index(p.stage); }

  std::map<key, double> kept_, arrived_;
};

int main() {
  auto const order = cleave::dual_pipe_v(2, 6);
  cleave::dataflow edges{.stages = 4, .edges = {{cleave::the_caller, 0, cleave::stage_id{0}, 0}}};
  for (std::uint32_t s = 0; s < 3; ++s)
    edges.edges.push_back({cleave::stage_id{s}, 0, cleave::stage_id{s + 1}, 0});
  edges.edges.push_back({cleave::stage_id{3}, 0, cleave::the_caller, 0});
  cleave::edge_layout const number{.type = cleave::element_type::f64, .shape = {1}};
  cleave::step_plan const plan(order, edges, {.edges = {5, number}});

  cleave::thread_pipeline<product_stages> run(plan, std::vector<product_stages>(2));
  double x[] = {1, 2, 3, 4, 5, 6};
  std::vector<cleave::tensor_view> inputs;
  for (auto& n : x) inputs.push_back({&n, cleave::element_type::f64, {1}});
  run.run_step({.inputs = inputs, .inputs_of_each = 1});
  for (std::uint32_t r = 0; r < 2; ++r) {
    auto const& stages = run.stages_of(cleave::rank_id{r});
    std::cout << "rank " << r << ": " << stages.pairs << " pairs, " << stages.begun << " begun, "
              << stages.computed << " computed, " << stages.ended << " ended, gradients";
    for (auto const& [stage, g] : stages.gradient) std::cout << ' ' << g;
    std::cout << '\n';
  }

  auto const alone = simulate(order).makespan;
  auto const together =
      simulate(order, {.costs = {{.forward = 1, .backward = 2, .overlapped = 2.25}}}).makespan;
  std::cout << "one after the other: " << alone << ", as one: " << together << '\n';
}

// It prints:
//
//   rank 0: 7 pairs, 6 begun, 6 computed, 6 ended, gradients 504 126
//   rank 1: 7 pairs, 0 begun, 0 computed, 0 ended, gradients 252 168
//   one after the other: 38, as one: 32
