// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/engine/engine_stages.hpp"
#include "cleave/engine/framework.hpp"
#include "cleave/engine/trace_stages.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "cleave/run/gradients/tied_gradients.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/program/step_plan.hpp"
#include "cleave/schedule/lower/connect_stages.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave {

/// Everything that runs the stages of a pipe in a framework: how they are connected, which parameters they
/// share, and what makes the stages of a rank. `make_pipeline` runs it. The pipe must outlive it and all that
/// it makes. `F` is a `tensor_framework`, and `Optimiser` a `stage_optimiser`.
template <class F, class Initial, class Optimiser = gradient_descent>
class stage_engine {
 public:
  using framework = F;
  using tensor = typename F::tensor;
  using optimiser = Optimiser;

  /// Traces the stages for `examples`, the arguments of the model for each microbatch of a step. `initial`
  /// has the values of parameters and buffers by their names in the model: a map, or a function of the name.
  /// \throws engine_error, operator_error, binding_error
  stage_engine(module_pipe const& pipe, F f, Initial initial,
               std::vector<model_inputs<typename F::tensor>> const& examples, Optimiser o = {},
               trace_options const& options = {})
      : stage_engine(pipe, f, initial, traced(pipe, f, initial, examples, options), std::move(o)) {}
  /// Takes a wiring that is known, as `trace_stages` returned it for this pipe.
  stage_engine(module_pipe const& pipe, F f, Initial initial, stage_wiring wiring, Optimiser o = {})
      : pipe_(&pipe),
        framework_(std::move(f)),
        initial_(std::move(initial)),
        wiring_(std::make_shared<stage_wiring const>(std::move(wiring))),
        optimiser_(std::move(o)) {}

  module_pipe const& pipe() const { return *pipe_; }
  stage_wiring const& wiring() const { return *wiring_; }
  F const& its_framework() const { return framework_; }

  /// Returns the gradients of each parameter that several stages hold, for `pipeline_options::ties`.
  std::vector<tied_gradients> ties() const {
    std::map<std::string, tied_gradients> copies;
    for (std::uint32_t s = 0; s < wiring_->parameters.size(); ++s)
      for (std::uint32_t n = 0; auto const& holder : wiring_->parameters[s])
        copies[holder].push_back({stage_id{s}, n++});
    std::vector<tied_gradients> ties;
    for (auto& [holder, list] : copies)
      if (list.size() > 1) ties.push_back(std::move(list));
    return ties;
  }

  /// Returns the plan of a step in the order of `s`, which has the stages of the pipe.
  /// \throws stage_count_error and the errors of `step_plan`
  step_plan plan(schedule const& s, program_options const& options = {}) const {
    return {connect_stages(s, wiring_->edges), wiring_->edges, wiring_->layouts, options};
  }

  /// Returns the stages of rank `r` of schedule `s`, with state in memory that `memory.allocate(bytes)`
  /// returns.
  /// \throws engine_error, run_error
  template <device D>
  engine_stages<F, D, Optimiser> make_stages(schedule const& s, rank_id r, auto& memory) const {
    return {*pipe_,
            wiring_,
            framework_,
            optimiser_,
            initial_,
            memory,
            s.microbatches,
            detail::pass_needs_of(s),
            [&](stage_id i) { return s.place.rank_of[index(i)] == r; }};
  }

 private:
  /// Returns the wiring, or refuses to compile what is not a framework and says what it lacks.
  static stage_wiring traced(module_pipe const& pipe, F const& f, Initial const& initial,
                             std::vector<model_inputs<typename F::tensor>> const& examples,
                             trace_options const& options) {
    if constexpr (tensor_framework<F>)
      return trace_stages(pipe, f, initial, std::span(examples), options);
    else
      detail::refuse_framework<F>();
  }

  module_pipe const* pipe_;
  F framework_;
  Initial initial_;
  std::shared_ptr<stage_wiring const> wiring_;
  Optimiser optimiser_;
};

}  // namespace cleave
