// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/stage_text.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/split/plan.hpp"
#include "cleave/split/split.hpp"

namespace cleave::inline v0_2::detail {

/// Returns, for each update of a plan, the position of the written state among the `state` of the stage that
/// receives it. O(size of the plan).
template <class Graph, std::unsigned_integral Index>
std::vector<std::size_t> updated_state(staged_graph<Graph, Index> const& stages) {
  auto const& s = stages.snapshot();
  auto const& p = stages.plan();
  auto const key = [&](std::size_t stage, Index v) {
    return static_cast<std::uint64_t>(stage) * s.values() + s.slot[v];
  };
  numbering<std::uint64_t, std::size_t> held;  // pairs of a stage and the slot of a state
  std::vector<std::size_t> position;           // by pair: the position of that state in the stage
  if (!p.updates.empty())
    for (std::size_t i = 0; i < p.stages.size(); ++i)
      for (std::size_t j = 0; j < p.stages[i].state.size(); ++j) {
        held.insert(key(i, p.stages[i].state[j]));
        position.resize(held.size(), j);
      }
  std::vector<std::size_t> found;
  for (auto const& u : p.updates) {
    auto const at = held.find(key(index(u.to), u.value));
    if (at == none<std::size_t>)
      raise(error("run_stages: " + stage_text(u.to) +
                  " does not hold the state that an update of the plan writes; see find_plan_fault"));
    found.push_back(position[at]);
  }
  return found;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Runs a step of a cut graph on the calling thread: each stage once, in the order of the plan. Returns the
/// values of `outputs()` in order. State and constants that no stage outputs are left out.
///
/// - `inputs` are the values of the graph's `inputs()`, in order. A `Value` owns its contents: a copy does
///   not change when the original is overwritten.
/// - `run(i, in)` runs stage i and returns the values of its `outputs`, as a vector. `in` are the values of
///   its `inputs`, and may be overwritten. A stage keeps its `state` from step to step, and writes it in
///   place.
/// - `update(i, v, value)` stores `value` as the state `v` of stage i, for the next step. It is called after
///   all stages have run, once for each state that another stage has written: the entries of
///   `plan().updates`.
///
/// Values are carried by version, so memory that is written several times in a step has several values.
/// O(values + size of the plan) besides the calls.
/// \throws error if the number of inputs or of a stage's outputs is wrong, or the plan has a fault
template <class Value, class Graph, std::unsigned_integral Index, class Run, class Update>
std::vector<Value> run_stages(staged_graph<Graph, Index> const& stages, std::vector<Value> const& inputs,
                              Run run, Update update) {
  auto const& s = stages.snapshot();
  auto const& p = stages.plan();
  auto const number = [](std::size_t n) { return std::to_string(n); };
  if (inputs.size() != s.inputs.size())
    detail::raise(error("run_stages: " + number(inputs.size()) + " inputs are given, but the graph has " +
                        number(s.inputs.size())));
  auto const state_of = detail::updated_state(stages);

  std::vector<std::optional<Value>> held(s.values());
  auto const value_of = [&](Index v, char const* what, stage_id of) -> Value const& {
    if (!held[v])
      detail::raise(error(std::string("run_stages: no stage has output ") + what + stage_text(of) +
                          "; see find_plan_fault"));
    return *held[v];
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) held[s.inputs[i]] = inputs[i];
  for (stage_id const i : p.order) {
    auto const& stage = p.stages[index(i)];
    std::vector<Value> in;
    for (Index const v : stage.inputs) in.push_back(value_of(v, "an input of ", i));
    std::vector<Value> made = run(i, std::span<Value>(in));
    if (made.size() != stage.outputs.size())
      detail::raise(error("run_stages: " + stage_text(i) + " returned " + number(made.size()) +
                          " values, but the number of its outputs is " + number(stage.outputs.size())));
    for (std::size_t j = 0; j < made.size(); ++j) held[stage.outputs[j]] = std::move(made[j]);
  }

  std::vector<Value> results;
  for (Index const v : s.outputs)
    if (held[v]) results.push_back(*held[v]);
  for (std::size_t u = 0; u < p.updates.size(); ++u) {
    auto const& [v, from, to] = p.updates[u];
    update(to, s.value[p.stages[index(to)].state[state_of[u]]], value_of(v, "an update of ", to));
  }
  return results;
}

/// The same for graphs that write no state of another stage.
/// \throws error, before it runs a stage, if the plan has updates
template <class Value, class Graph, std::unsigned_integral Index, class Run>
std::vector<Value> run_stages(staged_graph<Graph, Index> const& stages, std::vector<Value> const& inputs,
                              Run run) {
  for (auto const& u : stages.plan().updates)
    detail::raise(error("run_stages: " + stage_text(u.from) + " writes state of " + stage_text(u.to) +
                        "; pass update(stage, v, value), which stores it for the next step"));
  return run_stages(stages, inputs, std::move(run), [](stage_id, value_t<Graph> const&, Value const&) {});
}

}  // namespace cleave
