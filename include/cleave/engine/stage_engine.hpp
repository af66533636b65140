// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/nearest_names.hpp"
#include "cleave/engine/engine_stages.hpp"
#include "cleave/engine/framework.hpp"
#include "cleave/engine/stage_interpretation.hpp"
#include "cleave/engine/trace_stages.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "cleave/run/gradients/gradient_buckets.hpp"
#include "cleave/run/gradients/tied_gradients.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/program/step_plan.hpp"
#include "cleave/schedule/lower/connect_stages.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::inline v0_2 {

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

  /// Returns buckets of the gradients of these parameters, by their names in the model, for
  /// `pipeline_options::buckets`. The lists are in the order in which their sums begin. A list with
  /// parameters of several stages becomes a bucket in each of them; only the first mention of a parameter
  /// counts.
  /// \throws engine_error if a name is not that of a parameter that gets gradients
  std::vector<gradient_bucket> buckets(std::vector<std::vector<std::string>> const& names) const {
    auto const places = gradients_by_name();
    std::vector<std::string> known;
    for (auto const& [name, list] : places) known.push_back(name);
    std::set<stage_gradient> listed;
    std::vector<gradient_bucket> made;
    for (std::size_t b = 0; b < names.size(); ++b) {
      auto const first = static_cast<std::ptrdiff_t>(made.size());
      for (auto const& name : names[b]) {
        auto const at = places.find(name);
        if (at == places.end())
          throw engine_error({.what = detail::engine_fault::kind::no_parameter,
                              .got = b,
                              .name = name,
                              .wanted = suggestion(nearest_names(name, known))});
        for (auto const& g : at->second) {
          if (!listed.insert(g).second) continue;
          auto bucket = std::ranges::find(made.begin() + first, made.end(), g.stage, &gradient_bucket::stage);
          if (bucket == made.end()) bucket = made.insert(made.end(), {g.stage, {}});
          bucket->gradients.push_back(g.number);
        }
      }
    }
    return made;
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
  /// Returns the gradients of each parameter, by all names that it has in the model.
  std::map<std::string, std::vector<stage_gradient>> gradients_by_name() const {
    std::map<std::string, std::vector<stage_gradient>> made;
    for (std::uint32_t s = 0; s < wiring_->parameters.size(); ++s) {
      auto const& holders = wiring_->parameters[s];
      detail::stage_state const state(pipe_->stage(stage_id{s}));
      for (auto const& t : state.tensors()) {
        auto const n = std::ranges::find(holders, t.holder) - holders.begin();
        if (n == std::ssize(holders)) continue;
        for (auto const& name : t.names) made[name].push_back({stage_id{s}, static_cast<std::uint32_t>(n)});
      }
    }
    return made;
  }

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
