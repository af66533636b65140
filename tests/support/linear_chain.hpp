// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/run/model/ports.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/run/program/step_values.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "support/linear_engine.hpp"
#include "support/rng.hpp"

namespace cleave::testing {

/// A model of linear stages with random integer inputs. In a copy, `inputs` still refers to the numbers of
/// the original.
struct linear_model {
  dataflow t;
  std::vector<linear_stage> stages;
  std::vector<std::int64_t> rows;            // by microbatch, like `weights`
  std::vector<std::vector<double>> numbers;  // of inputs
  std::vector<tensor_view> inputs;
  std::uint32_t inputs_of_each;
  std::vector<double> weights;

  linear_model(dataflow connected, std::vector<std::int64_t> counts, std::uint32_t inputs_each, rng& random)
      : t(std::move(connected)), rows(std::move(counts)), inputs_of_each(inputs_each) {
    while (stages.size() < t.stages)
      stages.push_back({1 + static_cast<double>(random.below(2)), static_cast<double>(random.below(3)) - 1});
    for (auto const n : rows) {
      weights.push_back(static_cast<double>(1 + random.below(3)));
      for (std::uint32_t i = 0; i < inputs_of_each; ++i) {
        auto& x = numbers.emplace_back(static_cast<std::size_t>(n));
        for (auto& v : x) v = static_cast<double>(random.below(5)) - 2;
        inputs.push_back({x.data(), element_type::f64, {n}});
      }
    }
  }
  step_values values() const { return {inputs, inputs_of_each, weights}; }
};

/// Returns the dataflow that connects stages as a schedule does. The caller feeds stages without predecessors
/// and reads stages without successors. Edges come in this order: inputs of the caller, edges between stages,
/// results.
inline dataflow dataflow_of_chain(schedule const& s) {
  dataflow t;
  t.stages = s.place.stages();
  std::vector<char> fed(t.stages), read(t.stages);
  for (auto const& e : s.place.edges) read[index(e.from)] = fed[index(e.to)] = 1;
  for (std::uint32_t i = 0; i < t.stages; ++i)
    if (!fed[i]) t.edges.push_back({the_caller, 0, stage_id{i}, 0});
  for (auto const& e : s.place.edges) t.edges.push_back({e.from, 0, e.to, 0});
  for (std::uint32_t i = 0, results = 0; i < t.stages; ++i)
    if (!read[i]) t.edges.push_back({stage_id{i}, 0, the_caller, results++});
  return t;
}

inline std::vector<std::int64_t> random_rows(std::size_t microbatches, rng& random) {
  std::vector<std::int64_t> rows(microbatches);
  for (auto& n : rows) n = static_cast<std::int64_t>(1 + random.below(3));
  return rows;
}

/// A model on the stages of a schedule. All w are 1, so that numbers stay exact on chains of any length.
struct linear_chain : linear_model {
  std::uint32_t results = 0;

  linear_chain(schedule const& s, rng& random)
      : linear_model(dataflow_of_chain(s), random_rows(s.microbatches, random), 1, random) {
    for (auto& stage : stages) stage.w = 1;
    for (auto const& e : t.edges) results += e.to == the_caller;
  }
};

}  // namespace cleave::testing
