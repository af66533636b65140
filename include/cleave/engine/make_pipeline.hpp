// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/engine/engine_stages.hpp"
#include "cleave/engine/stage_engine.hpp"
#include "cleave/engine/trace_stages.hpp"
#include "cleave/run/executor/pipeline_options.hpp"
#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/program/step_plan.hpp"
#include "cleave/run/program/step_values.hpp"
#include "cleave/run/threads/on_threads.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::inline v0_2::detail {

/// Returns the forward passes of a schedule, without messages.
inline schedule forward_passes(schedule s) {
  for (auto& row : s.ranks) {
    std::vector<action> kept;
    each_action(row, [&](action const& a) {
      if (a.kind == action_kind::forward) kept.push_back(a);
    });
    row = std::move(kept);
  }
  return s;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Options of a step of an `engine_pipeline`.
struct engine_step {
  /// Factor of each microbatch's loss; empty: 1.
  std::span<double const> weights = {};
  gradient_end gradients = gradient_end::reduced;  ///< as for `step_values`
};

/// Trains and evaluates the stages of a pipe: a pipeline whose inputs and results are tensors of the
/// framework. Made by `make_pipeline`.
template <class Engine, pipeline_place Place>
class engine_pipeline {
 public:
  using tensor = typename Engine::tensor;
  using stages_type =
      engine_stages<typename Engine::framework, typename Place::device, typename Engine::optimiser>;
  using inputs = model_inputs<tensor>;

  /// Use `make_pipeline`.
  engine_pipeline(Engine const& e, schedule const& s, Place const& place, program_options const& o)
      : engine_(e),
        replicas_(place.local_replicas()),
        options_(place.rules(o)),
        plan_(e.plan(s, options_)),
        run_(make_pipeline(place)) {}
  engine_pipeline(engine_pipeline&&) = delete;

  /// Runs a step of training. `microbatches` has the arguments of the model for each microbatch, replica
  /// after replica; they have the forms of the trace.
  /// \throws engine_error, binding_error, and the errors of the pipeline's `run_step`
  void step(std::span<inputs const> microbatches, engine_step const& o = {}) { run(microbatches, o, 0); }
  /// Runs the model without training.
  void evaluate(std::span<inputs const> microbatches) {
    if (!evaluation_)
      evaluation_ = run_.add_plan(engine_.plan(detail::forward_passes(plan_.order()), options_));
    run(microbatches, {}, *evaluation_);
  }
  /// Updates the parameters, as the pipeline's `update`.
  auto update(detail::update_options const& o = {}) { return run_.update(o); }

  /// Returns what the model returned for a microbatch, or nothing if a part of it is made on a rank of
  /// another process. Valid until the next step.
  std::optional<model_value<tensor>> result(microbatch_id m, std::uint32_t replica = 0) {
    auto const& of = plan_.edges().edges;
    std::vector<tensor> list;
    for (std::uint32_t number = 0;; ++number) {
      auto const e = std::ranges::find_if(
          of, [&](dataflow::edge const& x) { return x.to == the_caller && x.input == number; });
      if (e == of.end()) break;
      if (e->from == the_caller) {
        list.push_back(given_[replica * microbatches_ + index(m)][e->output]);
        continue;
      }
      auto const view = made(m, number, replica);
      if (!view) return std::nullopt;
      list.push_back(framework_of(e->from, replica).wrap(*view));
    }
    return restored(engine_.wiring().forms_of(m).inputs.back(), std::move(list));
  }
  /// Returns the loss of a microbatch, or nothing if it is made on a rank of another process. Valid until the
  /// next step.
  std::optional<tensor_view> loss(microbatch_id m, std::uint32_t replica = 0) {
    return engine_.wiring().loss ? made(m, *engine_.wiring().loss, replica) : std::nullopt;
  }

  step_plan const& plan() const { return plan_; }
  auto& pipeline() { return run_; }
  /// Returns the stages of the rank that runs stage `s`, in a replica of this process.
  stages_type& stages_with(stage_id s, std::uint32_t replica = 0) {
    if constexpr (requires { run_.stages_of(rank_id{0}); })
      return run_.stages_of(rank_id{replica * plan_.order().place.ranks + index(plan_.rank_of(s))});
    else
      return run_.stages();
  }

 private:
  /// Makes the pipeline below.
  auto make_pipeline(Place const& place) const {
    auto const tie = [&](pipeline_options& o) { o.ties = engine_.ties(); };
    return place.template make<stages_type>(plan_, tie, [&](rank_id r, auto& memory) {
      return engine_.template make_stages<typename Place::device>(plan_.order(), r, memory);
    });
  }
  auto& framework_of(stage_id s, std::uint32_t replica) { return stages_with(s, replica).framework(); }

  std::optional<tensor_view> made(microbatch_id m, std::uint32_t number, std::uint32_t replica) {
    if constexpr (requires { run_.stages_of(rank_id{0}); })
      return run_.result(m, number, replica, last_);
    else
      return run_.result(m, number, last_);
  }

  /// Returns what the model returns: its values in the nesting of the graph's output.
  model_value<tensor> restored(std::vector<module_argument> const& forms, std::vector<tensor> tensors) const {
    auto const& g = engine_.pipe().program.whole();
    auto const& args = g[*g.output()].args;
    module_argument form;
    if (args.empty()) return {};
    std::size_t next = 0;
    for (auto const& t : args.front()) {
      if (!std::holds_alternative<node_ref>(t) || next >= forms.size()) {
        form.push_back(std::holds_alternative<node_ref>(t) ? token() : t);
      } else {
        form.insert(form.end(), forms[next].begin(), forms[next].end());
        ++next;
      }
    }
    return {std::move(form), std::move(tensors)};
  }

  void run(std::span<inputs const> microbatches, engine_step const& o, std::size_t plan) {
    microbatches_ = plan_.order().microbatches;
    auto const all = std::size_t{microbatches_} * replicas_;
    if (microbatches.size() != all)
      throw engine_error(
          {.what = detail::engine_fault::kind::microbatches, .got = microbatches.size(), .allowed = all});
    given_.assign(all, {});
    views_.clear();
    for (std::size_t i = 0; i < all; ++i) take(microbatches[i], i);
    std::vector<step_values> values;
    auto const each = views_.size() / replicas_;
    for (std::uint32_t d = 0; d < replicas_; ++d)
      values.push_back({.inputs = std::span(views_).subspan(d * each, each),
                        .inputs_of_each = each / microbatches_,
                        .weights = o.weights,
                        .gradients = o.gradients});
    last_ = plan;
    if constexpr (requires { run_.run_step(std::span<step_values const>(values), plan); })
      run_.run_step(std::span<step_values const>(values), plan);
    else
      run_.run_step(values.front(), plan);
  }

  /// Takes the arguments of microbatch number `i`.
  void take(inputs const& arguments, std::size_t i) {
    auto const& g = engine_.pipe().program.whole();
    auto const bound = detail::bound_inputs(g, arguments);
    microbatch_id const m{static_cast<std::uint32_t>(i % microbatches_)};
    auto const& forms = engine_.wiring().forms_of(m).results.back();
    auto framework = engine_.its_framework();
    std::vector<std::size_t> parameter;  // by tensor
    for (std::size_t p = 0; p < bound.size(); ++p) {
      if (bound[p].form() != forms[p])
        throw engine_error({.what = detail::engine_fault::kind::form, .got = p});
      for (auto const& t : bound[p].tensors()) {
        given_[i].push_back(t);
        parameter.push_back(p);
      }
    }
    for (std::size_t t = 0; t < given_[i].size(); ++t) {
      auto const v = framework.view(given_[i][t]);
      if (!v.data && v.shape.count() != 0)
        throw engine_error({.what = detail::engine_fault::kind::memory, .got = parameter[t]});
      views_.push_back(v);
    }
  }

  Engine const& engine_;
  std::uint32_t replicas_, microbatches_ = 0;
  program_options options_;
  step_plan plan_;
  decltype(std::declval<Place const&>().template make<stages_type>(
      std::declval<step_plan const&>(), std::declval<void (*)(pipeline_options&)>(),
      std::declval<stages_type (*)(rank_id, typename Place::device&)>())) run_;
  std::optional<std::size_t> evaluation_;   // the number of that plan
  std::size_t last_ = 0;                    // the number of the plan of the last step
  std::vector<std::vector<tensor>> given_;  // by microbatch: the tensors among the arguments
  std::vector<tensor_view> views_;          // of these
};

/// Makes a pipeline that runs the stages of `engine`, which must outlive it, in the order of `s`: on threads
/// (`on_threads`), MPI processes (`mpi::on_processes`) or GPUs (`cuda::on_threads`, `cuda::on_processes`).
/// \throws the errors of `step_plan` and of the pipeline; engine_error
template <class F, class Initial, class Optimiser, pipeline_place Place = on_threads>
auto make_pipeline(stage_engine<F, Initial, Optimiser> const& engine, schedule const& s,
                   Place const& place = {}, program_options const& options = {}) {
  return engine_pipeline<stage_engine<F, Initial, Optimiser>, Place>(engine, s, place, options);
}

}  // namespace cleave
