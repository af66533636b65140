// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/split/plan.hpp"

namespace cleave::inline v0_2 {

/// Returns the values that move for each microbatch when the stages of `p`, a plan of `s`, run.
///
/// Input j of a stage is the j-th of its `inputs`, and result j the j-th of its `outputs`. The caller's
/// inputs are those of the graph. Its results are the graph's outputs in order, without state and constants
/// that no stage outputs. Edges are sorted by reader: stages ascending, then the caller. If several stages
/// output a value, the caller receives it from the last one. `updates` of state are not included. `bytes` is
/// 0 if the graph has no sizes. Expected O(values + size of the plan).
template <std::unsigned_integral Index>
dataflow dataflow_of(basic_snapshot_arrays<Index> const& s, basic_plan<Index> const& p) {
  using giver = std::pair<stage_id, std::uint32_t>;
  std::vector<giver> sender(s.values(), {the_caller, 0});
  numbering<std::uint64_t, std::uint32_t> again;  // (stage, value) outputs that a later stage has too …
  std::vector<std::uint32_t> output;              // … and the value's position among the outputs
  auto const key = [&](stage_id i, Index v) { return std::uint64_t{index(i)} * s.values() + v; };
  for (std::uint32_t i = 0; i < s.inputs.size(); ++i) sender[s.inputs[i]].second = i;
  for (stage_id const i : p.order)
    for (std::uint32_t j = 0; j < p.stages[index(i)].outputs.size(); ++j) {
      Index const v = p.stages[index(i)].outputs[j];
      if (auto const before = sender[v]; before.first != the_caller) {
        again.insert(key(before.first, v));
        output.push_back(before.second);
      }
      sender[v] = {i, j};
    }
  // (receiver, value) pairs whose sender is not the last stage with this output …
  numbering<std::uint64_t, std::uint32_t> relayed;
  std::vector<giver> relay;  // … and these senders
  for (auto const& t : p.transfers)
    if (auto const at = again.find(key(t.from, t.value)); at != none<std::uint32_t>) {
      relayed.insert(key(t.to, t.value));
      relay.emplace_back(t.from, output[at]);
    }

  dataflow t{static_cast<std::uint32_t>(p.stages.size()), {}};
  auto const bring = [&](Index v, giver from, stage_id to, std::uint32_t input) {
    t.edges.push_back({from.first, from.second, to, input, v, s.bytes.empty() ? 0 : s.bytes[v]});
  };
  for (std::uint32_t i = 0; i < p.stages.size(); ++i)
    for (std::uint32_t j = 0; j < p.stages[i].inputs.size(); ++j) {
      Index const v = p.stages[i].inputs[j];
      auto const at = relay.empty() ? none<std::uint32_t> : relayed.find(key(stage_id{i}, v));
      bring(v, at == none<std::uint32_t> ? sender[v] : relay[at], stage_id{i}, j);
    }
  for (std::uint32_t result = 0; Index const v : s.outputs)
    if (s.from[v] == source::node || s.from[v] == source::input || sender[v].first != the_caller)
      bring(v, sender[v], the_caller, result++);
  return t;
}
}  // namespace cleave
