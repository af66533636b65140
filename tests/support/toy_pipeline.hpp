// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cleave/engine/stage_engine.hpp"
#include "cleave/run/executor/measured_times.hpp"
#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/program/step_plan.hpp"
#include "cleave/run/threads/thread_pipeline.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "support/toy_engine.hpp"

namespace cleave::testing {

using namespace detail;

using host_engine = toy_engine<host_device>;

struct toy_pipeline_options {
  program_options program = {};
  std::uint64_t delays = 0;  ///< seed of random delays in passes; 0: no delays
  std::size_t bucket_bytes = 64;
};

/// The stages of an engine trained by the executor in the order of a schedule, with one thread per rank.
class toy_pipeline {
 public:
  /// `batches` has one entry per replica, all with the same rows. `engine` must outlive this object.
  toy_pipeline(toy_stage_engine const& engine, std::vector<toy_batches> const& batches, schedule const& order,
               toy_pipeline_options const& options = {})
      : engine_(engine),
        microbatches_(order.microbatches),
        plan_(engine.plan(order, options.program)),
        threads_(plan_, stages(batches.size(), options.delays),
                 threads(batches.size(), options.bucket_bytes)) {
    for (auto const& b : batches) {
      auto& views = views_.emplace_back();
      for (auto const& m : inputs_of(engine.pipe().program.whole(), b))
        for (auto const& v : m.arguments.leaves())
          views.push_back(given_.emplace_back(*v.tensor()).memory->view);
    }
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
        for (auto const& e : plan_.edges().edges) {
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
    auto const& paths = engine_.pipe().paths;
    for (std::uint32_t s = 0; s < paths.size(); ++s)
      all[paths[s]] =
          stages_with(stage_id{s}, replica).gradients_by_holder(stage_id{s}, engine_.wiring().parameters[s]);
    return all;
  }

  /// Returns the stages of the rank that runs stage `s`.
  host_engine& stages_with(stage_id s, std::uint32_t replica = 0) {
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
  std::vector<host_engine> stages(std::size_t replicas, std::uint64_t delays) const {
    std::vector<host_engine> all;
    for (std::size_t d = 0; d < replicas; ++d)
      for (std::uint32_t r = 0; r < plan_.order().place.ranks; ++r)
        all.push_back(make_toy_stages<host_device>(engine_, plan_.order(), rank_id{r},
                                                   {.delays = delays ? delays + all.size() : 0}));
    return all;
  }
  pipeline_options threads(std::size_t replicas, std::size_t bucket_bytes) const {
    return {.watchdog = {.limit = std::chrono::seconds(60)},
            .replicas = static_cast<std::uint32_t>(replicas),
            .ties = engine_.ties(),
            .bucket_bytes = bucket_bytes};
  }

  toy_stage_engine const& engine_;
  std::uint32_t microbatches_;
  step_plan plan_;
  thread_pipeline<host_engine> threads_;
  std::vector<toy_value> given_;                 // the caller's inputs
  std::vector<std::vector<tensor_view>> views_;  // views of the inputs, by replica and then microbatch
};

}  // namespace cleave::testing
