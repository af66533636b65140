// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/threads/thread_pipeline.hpp"
#include "cleave/schedule/lower/connect_stages.hpp"
#include "support/linear_engine.hpp"

/// A step of a linear model on threads, with stages of any type made of a `linear_engine`.
namespace cleave::testing {

/// Each stage reads the one before and the one before that, and the caller's number.
inline dataflow with_skips(std::uint32_t stages) {
  dataflow t{.stages = stages, .edges = {}};
  for (std::uint32_t s = 0; s < stages; ++s) {
    t.edges.push_back({the_caller, 0, stage_id{s}, 0});
    if (s > 0) t.edges.push_back({stage_id{s - 1}, 0, stage_id{s}, 1});
    if (s > 1) t.edges.push_back({stage_id{s - 2}, 0, stage_id{s}, 2});
  }
  t.edges.push_back({stage_id{stages - 1}, 0, the_caller, 0});
  return t;
}

/// The results of a step, then the gradients of all stages.
template <class S>
struct made_by_step {
  std::vector<double> numbers;
  std::vector<S> stages;  ///< by rank
};

/// Runs a step of `order`, whose stages are of type `S`. `prepare(rank, stages)` is called first.
template <class S, class Prepare>
made_by_step<S> run_linear_step(schedule order, dataflow const& t, std::vector<action_kind> custom,
                                Prepare prepare) {
  order = connect_stages(std::move(order), t);
  std::vector<std::int64_t> rows;
  for (std::uint32_t m = 0; m < order.microbatches; ++m) rows.push_back(1 + m % 2);
  program_options options;
  options.calls.custom = std::move(custom);
  step_plan const plan(order, t, linear_layouts(t, rows), options);
  std::vector<linear_stage> model;
  for (std::uint32_t s = 0; s < t.stages; ++s) model.push_back({1. + s % 2, 1. * s});
  std::vector<S> stages(order.place.ranks, S(model, nothing_to_prepare()));
  for (std::uint32_t r = 0; r < order.place.ranks; ++r) prepare(rank_id{r}, stages[r]);
  thread_pipeline<S> run(plan, std::move(stages));
  std::vector<std::vector<double>> given;
  for (std::size_t m = 0; m < rows.size(); ++m)
    given.emplace_back(static_cast<std::size_t>(rows[m]), static_cast<double>(m) + 2.);
  std::vector<tensor_view> inputs;
  for (auto& g : given) inputs.push_back({g.data(), element_type::f64, {std::ssize(g)}});
  std::vector<double> weights;
  for (std::size_t m = 0; m < rows.size(); ++m) weights.push_back(1. + static_cast<double>(m));
  run.run_step({inputs, 1, weights});

  made_by_step<S> made;
  for (std::uint32_t m = 0; m < order.microbatches; ++m)
    for (std::uint32_t k = 0; auto const v = run.result(microbatch_id{m}, k); ++k) {
      auto const* const from = static_cast<double const*>(v->data);
      made.numbers.insert(made.numbers.end(), from, from + rows[m]);
    }
  for (std::uint32_t s = 0; s < t.stages; ++s) {
    auto const g = run.stages_of(order.place.rank_of[s]).gradient(stage_id{s});
    made.numbers.insert(made.numbers.end(), {g.w, g.b});
  }
  for (std::uint32_t r = 0; r < order.place.ranks; ++r) made.stages.push_back(run.stages_of(rank_id{r}));
  return made;
}
template <class S>
made_by_step<S> run_linear_step(schedule const& order, dataflow const& t,
                                std::vector<action_kind> custom = {}) {
  return run_linear_step<S>(order, t, std::move(custom), [](rank_id, S&) {});
}

}  // namespace cleave::testing
