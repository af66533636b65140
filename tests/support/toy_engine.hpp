// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/backward/backward_graph.hpp"
#include "cleave/backward/backward_phases.hpp"
#include "cleave/core/random.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "cleave/run/model/concepts.hpp"
#include "support/tape_pass.hpp"
#include "support/toy_memory.hpp"
#include "support/toy_wiring.hpp"

namespace cleave::testing {

using namespace detail;

/// Thrown if an engine is called in a way no executor may, or if its memory was overwritten.
class toy_engine_error : public std::runtime_error {
 public:
  toy_engine_error(stage_pass const& p, std::string const& what)
      : runtime_error("stage " + std::to_string(index(p.stage)) + ", microbatch " +
                      std::to_string(index(p.microbatch)) + ": " + what) {}
};

/// One microbatch in one stage, from the begin of its forward pass to the end of its backward pass.
struct toy_pass {
  testing::tape tape;
  std::optional<toy_autograd> state;
  tape_values inputs, results;      // one entry per tensor
  std::vector<tensor_view> memory;  // of the inputs
  // Between the input pass and the weight pass:
  std::optional<backward_snapshot<tape_pass>> snapshot;
  std::optional<backward_phases> phases;
  std::optional<phase_runner> runner;
};

/// The distinct parameters of one stage, with their gradient accumulators.
struct toy_parameters {
  std::vector<std::string> holders;
  std::vector<toy_shape> shapes;
  std::vector<std::vector<double>> gradients;
  std::vector<region> regions;
};

/// Runs the stages of a pipe on tapes of doubles, and models everything that the executor requires of stages.
/// Each stage has its own copy of the state. Work runs when it is issued or, if streams have `call(f)`, when
/// the stream calls it. The engine checks that inputs and saved activations are not modified.
template <class Device>
class toy_engine {
 public:
  using stream = typename Device::stream;

  /// `pipe` and `wiring` must outlive it.
  toy_engine(module_pipe const& pipe, toy_wiring const& wiring, std::uint32_t microbatches,
             state_values const& state)
      : pipe_(&pipe), wiring_(&wiring), microbatches_(microbatches) {
    for (std::uint32_t i = 0; i < wiring.moves.stages; ++i) {
      states_.push_back(state);
      parameters_.push_back(parameters_of(stage_id{i}));
      wanted_.emplace_back(tensors_in(wiring.inputs[i]).size());
    }
    dynamic_.resize(wiring.moves.stages);
    for (std::size_t e = 0; e < wiring.moves.edges.size(); ++e) {
      auto const& moved = wiring.moves.edges[e];
      auto const& of = wiring.layouts.edges[e];
      if (moved.to != the_caller) wanted_[index(moved.to)][moved.input] = of.gradient == gradient_use::wanted;
      if (moved.from != the_caller && of.extents == shape_kind::dynamic)
        dynamic_[index(moved.from)].insert(moved.output);
    }
    passes_.resize(std::size_t{wiring.moves.stages} * microbatches);
    away_.resize(passes_.size());
    recomputed_.resize(passes_.size());
    ended_.resize(wiring.moves.stages);
  }

  void forward(stream& s, stage_pass const& p, std::span<tensor_view const> in, std::span<tensor_view> out) {
    if constexpr (!runs_at_once) {
      s.call([this, p, in = list(in), out = list(out)]() mutable { run_forward(p, in, out); });
    } else {
      run_forward(p, in, out);
    }
  }
  void backward(stream& s, stage_pass const& p, std::span<tensor_view const> gradients,
                std::span<tensor_view const> in) {
    issue(s, [this, p, gradients = list(gradients), in = list(in)] { run_backward(p, gradients, in); });
  }
  void backward_input(stream& s, stage_pass const& p, std::span<tensor_view const> gradients,
                      std::span<tensor_view const> in) {
    issue(s, [this, p, gradients = list(gradients), in = list(in)] { run_input_half(p, gradients, in); });
  }
  void backward_weight(stream& s, stage_pass const& p) {
    issue(s, [this, p] { run_weight_half(p); });
  }
  void recompute(stream& s, stage_pass const& p, std::span<tensor_view const> in) {
    issue(s, [this, p, in = list(in)] { run_again(p, in); });
  }
  void offload(stream& s, stage_pass const& p) {
    issue(s, [this, p] {
      check_saved_activations(p, p.saved);
      away_[number(p)] = std::move(known(p));
    });
  }
  void reload(stream& s, stage_pass const& p) {
    issue(s, [this, p] {
      known(p, away_).swap(passes_[number(p)]);
      fill_saved(p, p.saved);
    });
  }
  std::span<region const> gradients(stage_id i) const { return parameters_[index(i)].regions; }

  /// Makes the forward pass of `microbatch` in `stage` save nothing, because it will be recomputed.
  void keep_nothing(stage_id stage, microbatch_id microbatch) {
    recomputed_[std::size_t{index(stage)} * microbatches_ + index(microbatch)] = 1;
  }
  /// Adds a random delay to each pass.
  void delay(std::uint64_t seed) { delays_ = seed; }
  /// Injects a fault: the gradient of that input is zero from now on.
  void lose_gradient(stage_id stage, std::uint32_t input) { lost_ = {stage, input}; }
  /// Returns the holders of a stage's parameters, in the order of `gradients`.
  std::vector<std::string> const& holders(stage_id i) const { return parameters_[index(i)].holders; }
  state_values& state(stage_id i) { return states_[index(i)]; }
  /// Returns the accumulated gradients of a stage, by holder.
  parameter_gradients gradients_by_holder(stage_id i) const {
    auto const& own = parameters_[index(i)];
    parameter_gradients all;
    for (std::size_t k = 0; k < own.holders.size(); ++k)
      all[own.holders[k]] = tensor{own.shapes[k], own.gradients[k]};
    return all;
  }
  void clear_gradients() {
    for (auto& own : parameters_)
      for (auto& g : own.gradients) std::ranges::fill(g, 0.0);
  }
  /// Resets the engine after a step that has failed.
  void forget() {
    for (auto& p : passes_) p.reset();
    for (auto& p : away_) p.reset();
    std::ranges::fill(ended_, 0u);
  }
  /// Returns the number of (stage, microbatch) pairs whose backward pass is still to come.
  std::size_t open_passes() const {
    auto const open = [](auto const& p) { return p != nullptr; };
    return static_cast<std::size_t>(std::ranges::count_if(passes_, open) +
                                    std::ranges::count_if(away_, open));
  }

 private:
  using pass = std::unique_ptr<toy_pass>;
  static constexpr bool runs_at_once = !requires(stream& s, void (*f)()) { s.call(f); };

  template <class View>
  static std::vector<tensor_view> list(std::span<View> views) {
    return {views.begin(), views.end()};
  }
  template <class F>
  void issue(stream& s, F f) {
    if constexpr (runs_at_once)
      f();
    else
      s.call(std::move(f));
  }

  std::size_t number(stage_pass const& p) const {
    return std::size_t{index(p.stage)} * microbatches_ + index(p.microbatch);
  }
  pass& known(stage_pass const& p) { return known(p, passes_); }
  pass& known(stage_pass const& p, std::vector<pass>& in) {
    if (!in[number(p)]) throw toy_engine_error(p, "nothing is kept of its forward pass");
    return in[number(p)];
  }

  toy_parameters parameters_of(stage_id i) const {
    toy_parameters made;
    for (auto const& a : pipe_->stage(i).attributes()) {
      if (a.what == module_attribute::kind::module || !wants_gradient(a)) continue;
      auto const value = states_[index(i)].find(a.original.empty() ? a.path : a.original);
      if (value == states_[index(i)].end() || std::ranges::count(made.holders, holder_of(a)) > 0) continue;
      made.holders.push_back(holder_of(a));
      made.shapes.push_back(value->second.shape);
      made.gradients.emplace_back(value->second.data.size());
    }
    for (auto& g : made.gradients) made.regions.push_back({g.data(), g.size(), element_type::f64});
    return made;
  }

  void take_time(stage_pass const& p) const {
    if (delays_ == 0) return;
    splitmix random(delays_ + number(p));
    if (random.next() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random.next() % 100));
  }

  void run_forward(stage_pass const& p, std::span<tensor_view const> in, std::span<tensor_view> out) {
    take_time(p);
    auto& here = passes_[number(p)];
    if (here) throw toy_engine_error(p, "its forward pass runs twice");
    here = std::make_unique<toy_pass>();
    evaluate_stage(*here, p, in);
    if (out.size() != here->results.size())
      throw toy_engine_error(p, "there is not a view for each of its results");
    for (std::size_t j = 0; j < out.size(); ++j) {
      auto const& made = here->results[j].get();
      if (dynamic_[index(p.stage)].contains(j)) out[j].shape = shape_of(made);
      write_elements(made, out[j]);
    }
    fill_saved(p, p.saved);
    if (recomputed_[number(p)]) here.reset();
  }

  void run_again(stage_pass const& p, std::span<tensor_view const> in) {
    auto& here = passes_[number(p)];
    here = std::make_unique<toy_pass>();
    evaluate_stage(*here, p, in);
    fill_saved(p, p.saved);
  }

  void evaluate_stage(toy_pass& here, stage_pass const& p, std::span<tensor_view const> in) {
    auto const& wanted = wanted_[index(p.stage)];
    if (in.size() != wanted.size()) throw toy_engine_error(p, "there is not a view for each of its inputs");
    here.memory = list(in);
    for (std::size_t j = 0; j < in.size(); ++j) {
      auto t = read_elements(in[j]);
      here.inputs.push_back(wanted[j] ? here.tape.leaf("input", std::move(t)) : constant_of(std::move(t)));
    }
    here.state.emplace(here.tape, states_[index(p.stage)]);
    auto next = [&, at = std::size_t{0}]() mutable { return here.inputs[at++]; };
    tape_values given;
    for (auto const& form : wiring_->inputs[index(p.stage)]) given.push_back(with_tensors(form, next));
    here.results = tensors_in(results_of_stage(pipe_->stage(p.stage), std::move(given), *here.state));
  }

  /// Returns the output gradients that arrive at a stage. The stage with the loss uses the weight of the
  /// loss.
  gradient_seeds seeds_of(stage_pass const& p, toy_pass const& here, std::span<tensor_view const> gradients) {
    if (gradients.size() != here.results.size())
      throw toy_engine_error(p, "there is not a gradient for each of its results");
    gradient_seeds seeds;
    for (std::size_t j = 0; j < gradients.size(); ++j) {
      auto const& r = here.results[j];
      if (!gradients[j].data) continue;
      if (p.from_loss) throw toy_engine_error(p, "a gradient arrives where nobody reads the stage");
      auto g = read_elements(gradients[j]);
      if (g.shape != r.get().shape) throw toy_engine_error(p, "a gradient has another shape than its result");
      if (r.node) seeds.emplace_back(*r.node, std::move(g));
    }
    if (p.stage != wiring_->loss_stage) return seeds;
    auto const& loss = here.results.at(wiring_->loss);
    if (loss.node) seeds.emplace_back(*loss.node, tensor::filled(loss.get().shape, p.weight));
    return seeds;
  }

  /// Checks before a backward pass that inputs and saved activations are unchanged.
  void check_memory(stage_pass const& p, toy_pass const& here) const {
    take_time(p);
    for (std::size_t j = 0; j < here.memory.size(); ++j)
      if (!(read_elements(here.memory[j]) == here.inputs[j].get()))
        throw toy_engine_error(p, "input #" + std::to_string(j) + " is overwritten before its backward pass");
    check_saved_activations(p, p.saved);
  }

  void run_backward(stage_pass const& p, std::span<tensor_view const> gradients,
                    std::span<tensor_view const> in) {
    auto& here = known(p);
    check_memory(p, *here);
    auto const arrived = here->tape.flow(seeds_of(p, *here, gradients), [](auto, auto) { return true; });
    auto const find = [&](std::uint32_t node) {
      auto const at = arrived.find(node);
      return at == arrived.end() ? nullptr : &at->second;
    };
    write_input_gradients(p, *here, in, find);
    here->tape.keep(arrived);
    add_gradients(p, here->state->gradients());
    end(p, here);
  }

  /// Runs the input phase and saves the input of the weight phase.
  void run_input_half(stage_pass const& p, std::span<tensor_view const> gradients,
                      std::span<tensor_view const> in) {
    auto& here = *known(p);
    check_memory(p, here);
    auto const seeds = seeds_of(p, here, gradients);
    std::vector<std::uint32_t> outputs, inputs, parameters;
    for (auto const& [node, g] : seeds)
      if (std::ranges::find(outputs, node) == outputs.end()) outputs.push_back(node);
    for (auto const& v : here.inputs)
      if (v.node) inputs.push_back(*v.node);
    for (auto const n : reached_from(here.tape, outputs))
      if (here.tape.nodes()[n].is_leaf() && std::ranges::find(inputs, n) == inputs.end())
        parameters.push_back(n);
    here.snapshot.emplace(backward_snapshot_of(tape_pass(here.tape, outputs, inputs, parameters)));
    here.phases.emplace(backward_phases_of(*here.snapshot));
    here.runner.emplace(here.tape, *here.snapshot);
    for (auto const& [node, g] : seeds) here.runner->seed(here.snapshot->node.find(node), g);
    here.runner->run_input_phase(*here.phases);
    write_input_gradients(p, here, in, [&](std::uint32_t node) {
      auto const& arrived = here.runner->arrived()[here.snapshot->node.find(node)];
      return arrived ? &*arrived : nullptr;
    });
    fill_saved(p, p.saved_for_weights);
  }

  void run_weight_half(stage_pass const& p) {
    auto& here = known(p);
    if (!here->runner) throw toy_engine_error(p, "its weight half runs before its input half");
    check_saved_activations(p, p.saved_for_weights);
    for (auto const& unit : here->phases->weight) {
      auto const arrived = here->runner->run_unit(unit);
      arriving_gradients own;
      for (auto const n : unit.parameters)
        if (arrived[n]) own.emplace(here->snapshot->node[n], *arrived[n]);
      here->tape.keep(own);
    }
    add_gradients(p, here->state->gradients());
    end(p, here);
  }

  template <class Find>
  void write_input_gradients(stage_pass const& p, toy_pass const& here, std::span<tensor_view const> in,
                             Find find) const {
    if (in.size() != here.inputs.size()) throw toy_engine_error(p, "there is not a view for each input");
    for (std::size_t j = 0; j < in.size(); ++j) {
      if (!in[j].data) continue;
      auto const& input = here.inputs[j];
      tensor const* g = input.node && lost_ != std::pair(p.stage, static_cast<std::uint32_t>(j))
                            ? find(*input.node)
                            : nullptr;
      write_elements(g ? *g : tensor::filled(input.get().shape, 0), in[j]);
    }
  }

  void add_gradients(stage_pass const& p, parameter_gradients const& made) {
    auto& own = parameters_[index(p.stage)];
    for (auto const& [holder, g] : made) {
      auto const at = std::ranges::find(own.holders, holder);
      if (at == own.holders.end()) throw toy_engine_error(p, "no memory for the gradient of " + holder);
      auto& sum = own.gradients[static_cast<std::size_t>(at - own.holders.begin())];
      for (std::size_t i = 0; g && i < sum.size(); ++i) sum[i] += g->data[i];
    }
  }

  void end(stage_pass const& p, pass& here) {
    here.reset();
    auto& ended = ended_[index(p.stage)];
    if (p.last != (++ended == microbatches_)) throw toy_engine_error(p, "it is wrong which pass is the last");
    if (p.last) ended = 0;
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

  module_pipe const* pipe_;
  toy_wiring const* wiring_;
  std::uint32_t microbatches_;
  std::vector<state_values> states_;
  std::vector<toy_parameters> parameters_;
  std::vector<std::vector<char>> wanted_;       // by stage and input: is its gradient wanted?
  std::vector<std::set<std::size_t>> dynamic_;  // by stage: results of unknown shape
  std::vector<pass> passes_, away_;             // by stage and microbatch; `away_` are offloaded
  std::uint64_t delays_ = 0;
  std::pair<stage_id, std::uint32_t> lost_{the_caller, 0};
  std::vector<char> recomputed_;
  std::vector<std::uint32_t> ended_;  // by stage: backward passes in this step
};

}  // namespace cleave::testing
