// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "support/toy_engine.hpp"

/// A training step without an executor, as the reference for tests of the executor.
namespace cleave::testing {

/// Selects how backward passes run, and what happens to saved activations.
enum class turn_form : std::uint8_t { whole, halves, recomputed, offloaded };

/// Runs one microbatch forward and backward through all stages. Use `step_in_turn`.
template <class Device>
class turn {
 public:
  turn(toy_engine<Device>& engine, Device& device, stage_wiring const& wiring)
      : engine_(engine),
        stream_(device.make_stream(0)),
        wiring_(wiring),
        values_(wiring.edges.edges.size()) {}

  /// Returns the caller's results of microbatch `m`.
  std::vector<tensor> run(std::vector<stage_id> const& order, tape_values const& given, stage_pass p,
                          turn_form form) {
    for (std::size_t e = 0; e < values_.size(); ++e)
      if (edge(e).from == the_caller)
        values_[e] = owned(given[edge(e).output].get(), wiring_.layouts.edges[e].type);
    for (stage_id const s : order) {
      p.stage = s;
      forward(p, form);
    }
    for (auto s = order.rbegin(); s != order.rend(); ++s) {
      p.stage = *s;
      backward(p, form);
    }
    std::vector<tensor> results;
    for (std::size_t e = 0; e < values_.size(); ++e) {
      if (edge(e).to != the_caller) continue;
      if (results.size() <= edge(e).input) results.resize(edge(e).input + 1);
      results[edge(e).input] = read_elements(values_[e].view);
    }
    return results;
  }

 private:
  dataflow::edge const& edge(std::size_t e) const { return wiring_.edges.edges[e]; }
  bool returned(std::size_t e) const { return wiring_.layouts.edges[e].gradient == gradient_use::wanted; }

  template <class F>
  static void put(std::vector<tensor_view>& list, std::size_t at, F make) {
    if (list.size() <= at) list.resize(at + 1);
    if (!list[at].data) list[at] = make();
  }

  std::vector<tensor_view> inputs_of(stage_id s) {
    std::vector<tensor_view> in;
    for (std::size_t e = 0; e < values_.size(); ++e)
      if (edge(e).to == s) put(in, edge(e).input, [&] { return values_[e].view; });
    return in;
  }

  void forward(stage_pass const& p, turn_form form) {
    auto const in = inputs_of(p.stage);
    std::vector<tensor_view> out;
    std::map<std::uint32_t, owned_tensor> made;
    for (std::size_t e = 0; e < values_.size(); ++e) {
      if (edge(e).from != p.stage) continue;
      auto const shape = wiring_.layouts.shape_of(static_cast<std::uint32_t>(e), p.microbatch);
      put(out, edge(e).output,
          [&] { return (made[edge(e).output] = unused(shape, wiring_.layouts.edges[e].type)).view; });
    }
    if (form == turn_form::recomputed) engine_.keep_nothing(p.stage, p.microbatch);
    engine_.forward(stream_, p, in, out);
    if (form == turn_form::offloaded) engine_.offload(stream_, p);
    for (std::size_t e = 0; e < values_.size(); ++e)
      if (edge(e).from == p.stage)
        values_[e] = owned(read_elements(out[edge(e).output]), wiring_.layouts.edges[e].type);
  }

  /// Runs the backward passes, and sums the gradients that the readers of each result return.
  void backward(stage_pass p, turn_form form) {
    std::vector<tensor_view> gradients, in;
    std::map<std::uint32_t, tensor> sums;
    std::vector<owned_tensor> kept;
    kept.reserve(2 * values_.size());
    p.from_loss = true;
    for (std::size_t e = 0; e < values_.size(); ++e) {
      if (edge(e).from != p.stage) continue;
      if (gradients.size() <= edge(e).output) gradients.resize(edge(e).output + 1);
      p.from_loss &= edge(e).to == the_caller;
      if (!returned(e)) continue;
      auto const [at, fresh] = sums.try_emplace(edge(e).output, gradients_.at(e));
      if (!fresh) at->second = at->second + gradients_.at(e);
    }
    for (auto const& [output, sum] : sums)
      gradients[output] = kept.emplace_back(owned(sum, element_type::f64)).view;
    std::map<std::size_t, tensor_view> made;
    for (std::size_t e = 0; e < values_.size(); ++e) {
      if (edge(e).to != p.stage) continue;
      if (in.size() <= edge(e).input) in.resize(edge(e).input + 1);
      if (!returned(e)) continue;
      in[edge(e).input] = kept.emplace_back(unused(values_[e].view.shape, element_type::f64)).view;
      made[e] = in[edge(e).input];
    }
    issue(p, form, gradients, in);
    for (auto const& [e, view] : made) gradients_[e] = read_elements(view);
  }

  void issue(stage_pass const& p, turn_form form, std::vector<tensor_view> const& gradients,
             std::vector<tensor_view> const& in) {
    if (form == turn_form::recomputed) engine_.recompute(stream_, p, inputs_of(p.stage));
    if (form == turn_form::offloaded) engine_.reload(stream_, p);
    if (form != turn_form::halves) return engine_.backward(stream_, p, gradients, in);
    engine_.backward_input(stream_, p, gradients, in);
    engine_.backward_weight(stream_, p);
  }

  toy_engine<Device>& engine_;
  typename Device::stream stream_;
  stage_wiring const& wiring_;
  std::vector<owned_tensor> values_;         // by edge
  std::map<std::size_t, tensor> gradients_;  // by edge
};

/// Runs one microbatch after another on this thread and returns the caller's results of each. The loss of
/// microbatch i is weighted by `weights[i]`.
template <class Device>
std::vector<std::vector<tensor>> step_in_turn(toy_engine<Device>& engine, Device& device,
                                              stage_wiring const& wiring, std::vector<stage_id> const& order,
                                              std::vector<tape_values> const& microbatches,
                                              std::vector<double> const& weights,
                                              turn_form form = turn_form::whole) {
  std::vector<std::vector<tensor>> results;
  for (std::uint32_t m = 0; m < microbatches.size(); ++m)
    results.push_back(turn(engine, device, wiring)
                          .run(order, microbatches[m],
                               {.stage = {},
                                .microbatch = microbatch_id{m},
                                .weight = weights[m],
                                .last = m + 1 == microbatches.size()},
                               form));
  return results;
}

}  // namespace cleave::testing
