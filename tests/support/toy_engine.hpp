// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/engine/stage_engine.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "cleave/run/host/host_device.hpp"
#include "cleave/run/model/concepts.hpp"
#include "support/toy_autograd.hpp"
#include "support/toy_framework.hpp"
#include "support/toy_memory.hpp"

namespace cleave::testing {

using namespace detail;

/// Thrown if stages are called in a way no executor may, or if their memory was overwritten.
class toy_engine_error : public std::runtime_error {
 public:
  toy_engine_error(stage_pass const& p, std::string const& what)
      : runtime_error("stage " + std::to_string(index(p.stage)) + ", microbatch " +
                      std::to_string(index(p.microbatch)) + ": " + what) {}
};

/// How stages are disturbed.
struct disturbance {
  std::uint64_t delays = 0;  ///< seed of random delays in passes; 0: no delays
  /// The gradient of this input is zero.
  std::pair<stage_id, std::uint32_t> lost = {the_caller, 0};
};

/// The stages of a rank in the toys' framework. They check everything that the executor promises to stages:
/// the order of passes, inputs and saved activations that are not modified, and which pass is the last.
template <class Device>
class toy_engine {
 public:
  using stream = typename Device::stream;
  using stages_type = engine_stages<toy_framework, Device, gradient_descent>;
  using views = std::span<tensor_view const>;

  toy_engine(stages_type stages, std::uint32_t microbatches, disturbance how = {})
      : stages_(std::move(stages)), microbatches_(microbatches), disturbance_(how) {}

  void forward(stream& s, stage_pass p, views in, std::span<tensor_view> out) {
    take_time(p);
    auto& here = at(p);
    if (here.open) throw toy_engine_error(p, "its forward pass runs twice");
    p.trains = p.trains && !here.recomputed;
    stages_.forward(s, p, in, out);
    here.open = !here.recomputed;
    keep(here, p, in);
  }
  void backward(stream& s, stage_pass const& p, views gradients, views in) {
    check_memory(p);
    stages_.backward(s, p, gradients, in);
    lose_gradient(p, in);
    end(p);
  }
  void backward_input(stream& s, stage_pass const& p, views gradients, views in) {
    check_memory(p);
    stages_.backward_input(s, p, gradients, in);
    lose_gradient(p, in);
    at(p).halved = true;
    fill_saved(p, p.saved_for_weights);
  }
  void backward_weight(stream& s, stage_pass const& p) {
    if (!at(p).halved) throw toy_engine_error(p, "its weight half runs before its input half");
    check_saved_activations(p, p.saved_for_weights);
    stages_.backward_weight(s, p);
    end(p);
  }
  void recompute(stream& s, stage_pass const& p, views in) {
    stages_.recompute(s, p, in);
    at(p).open = true;
    keep(at(p), p, in);
  }
  void offload(stream&, stage_pass const& p) {
    check_saved_activations(p, p.saved);
    at(p).open = false;
  }
  void reload(stream&, stage_pass const& p) {
    at(p).open = true;
    fill_saved(p, p.saved);
  }
  std::span<region const> gradients(stage_id i) const { return stages_.gradients(i); }
  std::span<region const> parameters(stage_id i) const { return stages_.parameters(i); }
  void update(stream& s, stage_id i, double factor) { stages_.update(s, i, factor); }

  /// Makes the forward pass of `microbatch` in `stage` save nothing, because it will be recomputed.
  void keep_nothing(stage_id stage, microbatch_id microbatch) {
    at({.stage = stage, .microbatch = microbatch}).recomputed = true;
  }
  /// Makes the gradient of that input zero from now on.
  void lose_gradient(stage_id stage, std::uint32_t input) { disturbance_.lost = {stage, input}; }
  void descend(stage_id i, double rate) {
    gradient_descent{rate}(stages_.framework(), i, stages_.trained(i), 1);
  }
  /// Returns the parameters of a stage, by holder. `holders` are those of its parameters.
  state_values parameters_by_holder(stage_id i, std::vector<std::string> const& holders) const {
    state_values all;
    for (std::size_t k = 0; k < holders.size(); ++k)
      all[holders[k]] = read_elements(stages_.trained(i)[k].value);
    return all;
  }
  /// Returns the accumulated gradients of a stage, by holder.
  parameter_gradients gradients_by_holder(stage_id i, std::vector<std::string> const& holders) const {
    parameter_gradients all;
    for (std::size_t k = 0; k < holders.size(); ++k)
      all[holders[k]] = read_elements(stages_.trained(i)[k].gradient);
    return all;
  }
  void clear_gradients() {
    for (std::uint32_t i = 0; i < passes_.size(); ++i)
      if (stages_.has(stage_id{i})) stages_.clear_gradients(stage_id{i});
  }
  /// Forgets a step that has failed.
  void forget() {
    passes_.clear();
    stages_.forget();
  }
  std::size_t open_passes() const { return stages_.open_passes(); }

 private:
  struct pass {
    bool open = false, halved = false, recomputed = false;
    std::vector<tensor_view> in;  // the inputs, and their elements at the forward pass
    std::vector<tensor> elements;
  };
  struct stage_passes {
    std::vector<pass> of;  // by microbatch
    std::uint32_t ended = 0;
  };

  stage_passes& all_of(stage_pass const& p) {
    if (passes_.size() <= index(p.stage)) passes_.resize(index(p.stage) + std::size_t{1});
    auto& all = passes_[index(p.stage)];
    all.of.resize(microbatches_);
    return all;
  }
  pass& at(stage_pass const& p) { return all_of(p).of[index(p.microbatch)]; }

  void keep(pass& here, stage_pass const& p, views in) {
    here.in.assign(in.begin(), in.end());
    here.elements.clear();
    for (auto const& v : in) here.elements.push_back(read_elements(v));
    fill_saved(p, p.saved);
  }

  void take_time(stage_pass const& p) const {
    if (disturbance_.delays == 0) return;
    splitmix random(disturbance_.delays + index(p.stage) * microbatches_ + index(p.microbatch));
    if (random.next() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random.next() % 100));
  }

  /// Checks before a backward pass that inputs and saved activations are unchanged.
  void check_memory(stage_pass const& p) {
    take_time(p);
    auto const& here = at(p);
    if (!here.open) throw toy_engine_error(p, "nothing is kept of its forward pass");
    for (std::size_t j = 0; j < here.in.size(); ++j)
      if (!(read_elements(here.in[j]) == here.elements[j]))
        throw toy_engine_error(p, "input #" + std::to_string(j) + " is overwritten before its backward pass");
    check_saved_activations(p, p.saved);
  }

  void lose_gradient(stage_pass const& p, views in) {
    auto const [stage, input] = disturbance_.lost;
    if (stage == p.stage && in[input].data) stages_.framework().fill(in[input], 0);
  }

  void end(stage_pass const& p) {
    auto& all = all_of(p);
    auto const recomputed = at(p).recomputed;
    at(p) = {};
    at(p).recomputed = recomputed;
    if (p.last != (++all.ended == microbatches_))
      throw toy_engine_error(p, "it is wrong which pass is the last");
    if (p.last) all.ended = 0;
  }

  static std::byte mark(stage_pass const& p, std::size_t i) {
    return static_cast<std::byte>(index(p.stage) * 31 + index(p.microbatch) * 7 + i + 1);
  }
  static void fill_saved(stage_pass const& p, region const& r) {
    auto* at = static_cast<std::byte*>(r.data);
    for (std::size_t i = 0; at && i < r.bytes(); ++i) at[i] = mark(p, i);
  }
  static void check_saved_activations(stage_pass const& p, region const& r) {
    auto const* at = static_cast<std::byte const*>(r.data);
    for (std::size_t i = 0; at && i < r.bytes(); ++i)
      if (at[i] != mark(p, i)) throw toy_engine_error(p, "its stash is overwritten");
  }

  stages_type stages_;
  std::uint32_t microbatches_;
  disturbance disturbance_;
  std::vector<stage_passes> passes_;  // by stage
};

using toy_stage_engine = stage_engine<toy_framework, initial_toy_state>;

/// Returns an engine in the toys' framework for these microbatches.
inline toy_stage_engine toy_engine_of(module_pipe const& pipe, state_values const& state,
                                      toy_batches const& batches) {
  return {pipe, toy_framework(), initial_state(state), inputs_of(pipe.program.whole(), batches)};
}

/// Returns the stages of rank `r`. Their memory is that of the host.
template <class Device>
toy_engine<Device> make_toy_stages(toy_stage_engine const& engine, schedule const& s, rank_id r,
                                   disturbance how = {}) {
  host_memory memory;
  toy_engine<Device> made(engine.make_stages<Device>(s, r, memory), s.microbatches, how);
  each_action(s.ranks[index(r)], [&](action const& a) {
    if (a.kind == action_kind::recompute) made.keep_nothing(a.stage, a.microbatch);
  });
  return made;
}

}  // namespace cleave::testing
