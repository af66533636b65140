// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/run/executor/measured_times.hpp"
#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/program/step_plan.hpp"
#include "cleave/run/threads/thread_pipeline.hpp"
#include "cleave/schedule/lower/connect_stages.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "support/toy_engine.hpp"

namespace cleave::testing {

using namespace detail;

using host_engine = toy_engine<host_device>;

/// Returns the copies of each parameter that several stages of `engine` hold.
inline std::vector<tied_gradients> ties_of(host_engine const& engine, std::uint32_t stages) {
  std::map<std::string, tied_gradients> copies;
  for (std::uint32_t s = 0; s < stages; ++s)
    for (std::uint32_t k = 0; auto const& holder : engine.holders(stage_id{s}))
      copies[holder].push_back({stage_id{s}, k++});
  std::vector<tied_gradients> ties;
  for (auto& [holder, list] : copies)
    if (list.size() > 1) ties.push_back(std::move(list));
  return ties;
}

struct toy_pipeline_options {
  program_options program = {};
  std::uint64_t delays = 0;  ///< seed of random delays in passes; 0: no delays
  std::size_t bucket_bytes = 64;
};

/// A pipe trained by the executor in the order of a schedule, with one thread per rank.
class toy_pipeline {
 public:
  /// `batches` has one entry per replica, all with the same rows. `wiring` is that of `pipe`; both must
  /// outlive this object.
  toy_pipeline(module_pipe const& pipe, toy_wiring const& wiring, state_values const& state,
               std::vector<toy_batches> const& batches, schedule const& order,
               toy_pipeline_options const& options = {})
      : pipe_(pipe),
        wiring_(wiring),
        microbatches_(static_cast<std::uint32_t>(batches.front().values.size())),
        plan_(connect_stages(order, wiring.moves), wiring.moves, wiring.layouts, options.program),
        threads_(plan_, engines(state, batches.size(), options.delays),
                 threads(state, batches.size(), options.bucket_bytes)) {
    for (auto const& b : batches) take(b);
  }

  /// Runs one step with zeroed gradients. Returns the caller's results of each microbatch, replica after
  /// replica.
  std::vector<std::vector<tensor>> run_step(std::vector<double> const& weights) {
    for (std::uint32_t r = 0; r < threads_.ranks(); ++r) threads_.stages_of(rank_id{r}).clear_gradients();
    std::vector<step_values> values;
    for (auto const& views : views_)
      values.push_back({.inputs = views, .inputs_of_each = views.size() / microbatches_, .weights = weights});
    threads_.run_step(values);
    std::vector<std::vector<tensor>> results;
    for (std::uint32_t d = 0; d < views_.size(); ++d)
      for (std::uint32_t m = 0; m < microbatches_; ++m) {
        auto& list = results.emplace_back();
        for (auto const& e : wiring_.moves.edges) {
          if (e.to != the_caller) continue;
          if (list.size() <= e.input) list.resize(e.input + 1);
          list[e.input] =
              read_elements(e.from == the_caller ? views_[d][m * values[d].inputs_of_each + e.output]
                                                 : *threads_.result(microbatch_id{m}, e.input, d));
        }
      }
    return results;
  }

  /// Returns the gradients of each stage of a replica after a step, by path. Parameters shared by several
  /// stages have the sum in each.
  std::map<std::string, parameter_gradients> gradients(std::uint32_t replica = 0) {
    std::map<std::string, parameter_gradients> all;
    for (std::uint32_t s = 0; s < pipe_.paths.size(); ++s)
      all[pipe_.paths[s]] = engine_of(stage_id{s}, replica).gradients_by_holder(stage_id{s});
    return all;
  }

  host_engine& engine_of(stage_id s, std::uint32_t replica = 0) {
    return threads_.stages_of(rank_id{replica * plan_.order().place.ranks + index(plan_.rank_of(s))});
  }
  step_plan const& plan() const { return plan_; }
  /// Returns the times of the last step of the first replica, in microseconds.
  schedule_times times() {
    std::vector<measured_rank> ranks;
    for (std::uint32_t r = 0; r < plan_.order().ranks.size(); ++r)
      ranks.push_back({threads_.program(rank_id{r}), threads_.times(rank_id{r})});
    return measured_times(plan_.order(), ranks, 1000);
  }

 private:
  std::vector<host_engine> engines(state_values const& state, std::size_t replicas,
                                   std::uint64_t delays) const {
    std::vector<host_engine> all;
    for (std::size_t d = 0; d < replicas; ++d)
      for (auto const& row : plan_.order().ranks) {
        auto& engine = all.emplace_back(pipe_, wiring_, microbatches_, state);
        if (delays != 0) engine.delay(delays + all.size());
        each_action(row, [&](action const& a) {
          if (a.kind == action_kind::recompute) engine.keep_nothing(a.stage, a.microbatch);
        });
      }
    return all;
  }
  pipeline_options threads(state_values const& state, std::size_t replicas, std::size_t bucket_bytes) const {
    return {.watchdog = {.limit = std::chrono::seconds(60)},
            .replicas = static_cast<std::uint32_t>(replicas),
            .ties = ties_of(host_engine(pipe_, wiring_, microbatches_, state), wiring_.moves.stages),
            .bucket_bytes = bucket_bytes};
  }

  void take(toy_batches const& batches) {
    auto& views = views_.emplace_back();
    for (auto const& m : batches.values)
      for (std::uint32_t k = 0; auto const& v : tensors_in(m)) {
        auto const read = std::ranges::find_if(wiring_.moves.edges, [&](dataflow::edge const& e) {
          return e.from == the_caller && e.output == k;
        });
        auto const at = static_cast<std::size_t>(read - wiring_.moves.edges.begin());
        bool const known = read != wiring_.moves.edges.end();
        auto const type = known ? wiring_.layouts.edges[at].type : element_type::f64;
        views.push_back(given_.emplace_back(owned(v.get(), type)).view);
        ++k;
      }
  }

  module_pipe const& pipe_;
  toy_wiring const& wiring_;
  std::uint32_t microbatches_;
  step_plan plan_;
  thread_pipeline<host_engine> threads_;
  std::vector<owned_tensor> given_;              // the caller's inputs
  std::vector<std::vector<tensor_view>> views_;  // views of the inputs, by replica and then microbatch
};

}  // namespace cleave::testing
