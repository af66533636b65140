// SPDX-License-Identifier: MIT
// Places layers on three unlike devices, then trains them on threads of this machine that are as slow as the
// devices, over links as slow: the measured step beside the predicted one, and the gradients of an uncut run.
#include <chrono>
#include <cleave/formats.hpp>
#include <cleave/place.hpp>
#include <cleave/run.hpp>
#include <cleave/schedule.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <map>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

constexpr std::uint32_t layers = 12;
constexpr std::size_t width = 1'000;  // numbers in each value

/// A chain of layers for `place`: layer n reads value n − 1, and its one weight is value 100 + n. Costs are
/// in milliseconds of a device of speed 1, sizes in bytes.
struct layer_chain {
  auto nodes() const { return std::views::iota(0, int{layers}); }
  std::vector<int> inputs() const { return {}; }
  std::vector<int> outputs() const { return {int{layers} - 1}; }
  auto state() const { return std::views::iota(100, 100 + int{layers}); }
  std::vector<int> operands(int n) const { return n == 0 ? std::vector{100} : std::vector{n - 1, 100 + n}; }
  double weight(int) const { return 6; }
  std::size_t bytes(int) const { return width * sizeof(double); }
};

/// The stages of a rank: each layer multiplies all numbers by its weight. The loss is the sum of the results.
class layer_stages {
 public:
  using stream = cleave::host_device::stream;
  using views = std::span<cleave::tensor_view const>;

  explicit layer_stages(std::vector<cleave::device_stage> stages) : stages_(std::move(stages)) {}

  void forward(stream&, cleave::stage_pass const& p, views in, std::span<cleave::tensor_view> out) {
    auto values = numbers(in[0]);
    for (auto l = stage(p).begin; l < stage(p).end; ++l) {
      kept_[{l, p.microbatch}] = {values.begin(), values.end()};
      for (std::size_t i = 0; i < width; ++i) numbers(out[0])[i] = weight(l) * kept_[{l, p.microbatch}][i];
      values = numbers(out[0]);
    }
  }
  void backward(stream&, cleave::stage_pass const& p, views gradients, views in) {
    std::vector<double> g(width, 1);  // of the loss
    if (!p.from_loss) g.assign(numbers(gradients[0]).begin(), numbers(gradients[0]).end());
    for (auto l = stage(p).end; l-- > stage(p).begin;)
      for (std::size_t i = 0; i < width; ++i) {
        gradient[l] += g[i] * kept_[{l, p.microbatch}][i];
        g[i] *= weight(l);
      }
    if (in[0].data) std::ranges::copy(g, numbers(in[0]).begin());
  }

  std::map<std::uint32_t, double> gradient;  // by layer

 private:
  static double weight(std::uint32_t layer) { return 1 + layer % 2; }
  static std::span<double> numbers(cleave::tensor_view const& v) {
    return {static_cast<double*>(v.data), width};
  }
  cleave::device_stage const& stage(cleave::stage_pass const& p) const { return stages_[index(p.stage)]; }

  std::vector<cleave::device_stage> stages_;
  std::map<std::pair<std::uint32_t, cleave::microbatch_id>, std::vector<double>> kept_;
};

/// Returns the gradient of each layer for inputs that are all `x`, computed without stages.
double expected_gradient(double x) {
  for (std::uint32_t l = 0; l < layers; ++l) x *= 1 + l % 2;
  return static_cast<double>(width) * x;
}

int main() {
  // [place]
  auto const network = cleave::read_devices(R"({
    "format": "cleave devices 1",
    "devices": [
      {"name": "desktop", "speed": 3},
      {"name": "laptop", "speed": 2},
      {"name": "board", "speed": 1.2}],
    "link": {"latency": 1, "bandwidth": 4e3}})");  // milliseconds, and bytes per millisecond
  constexpr std::uint32_t microbatches = 8;
  auto const placed =
      cleave::place(layer_chain{}, network,
                    {.goal = cleave::placement_goal::step, .microbatches = microbatches}, {.backward = 2});
  for (auto const& s : placed.stages)
    std::cout << network.devices[s.device].name << ": layers " << s.begin << " to " << s.end - 1 << '\n';
  std::cout << "predicted step: " << placed.step << " ms\n";
  // [place]

  // The dataflow of a chain of stages, whose values all have the same shape.
  auto const stages = static_cast<std::uint32_t>(placed.stages.size());
  cleave::dataflow edges{.stages = stages, .edges = {{cleave::the_caller, 0, cleave::stage_id{0}, 0}}};
  for (std::uint32_t s = 1; s < stages; ++s)
    edges.edges.push_back({cleave::stage_id{s - 1}, 0, cleave::stage_id{s}, 0});
  edges.edges.push_back({cleave::stage_id{stages - 1}, 0, cleave::the_caller, 0});
  cleave::edge_layout const value{.type = cleave::element_type::f64, .shape = {width}};
  std::vector<double> given(microbatches * width, 1);
  std::vector<cleave::tensor_view> inputs;
  for (std::uint32_t m = 0; m < microbatches; ++m)
    inputs.push_back({&given[m * width], cleave::element_type::f64, {width}});

  // [run]
  constexpr std::chrono::milliseconds unit(1);
  auto const timing = cleave::simulate_options_of(placed, network);
  auto const order = schedule_of(placed);
  cleave::program_options options;  // the order of messages suits these links
  options.lowering.times = cleave::nominal_times_of(timing, order.place);
  cleave::step_plan const plan(order, edges, {.edges = {edges.edges.size(), value}}, options);
  using stages_of_rank = cleave::paced_stage<layer_stages>;
  cleave::thread_pipeline<stages_of_rank, cleave::throttled_threads> run(
      plan, std::vector(stages, stages_of_rank(layer_stages(placed.stages), timing, unit)), {},
      cleave::throttled_threads(timing, unit));
  run.run_step({.inputs = inputs, .inputs_of_each = 1});  // the first step starts the threads

  auto const begin = std::chrono::steady_clock::now();
  run.run_step({.inputs = inputs, .inputs_of_each = 1});
  auto const measured = (std::chrono::steady_clock::now() - begin) / std::chrono::duration<double>(unit);
  // [run]
  std::cout << "measured: "
            << (measured < placed.step         ? "less"
                : measured < 1.5 * placed.step ? "about that"
                                               : "more")
            << '\n';

  bool is_right = true;
  for (std::uint32_t s = 0; s < stages; ++s)
    for (auto const& [layer, sum] : run.stages_of(cleave::rank_id{s}).gradient)
      is_right = is_right && sum * (1 + layer % 2) == 2 * microbatches * expected_gradient(1);
  std::cout << "gradients " << (is_right ? "are" : "are not") << " those of the uncut run\n";
}

// It prints:
//
//   desktop: layers 0 to 5
//   board: layers 6 to 7
//   laptop: layers 8 to 11
//   predicted step: 378 ms
//   measured: about that
//   gradients are those of the uncut run
