// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/transport.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/split/plan.hpp"

namespace cleave {

/// What moves for each microbatch when the stages of `p`, a plan of `s`, run. Input j of a stage is the j-th
/// of its `inputs`, result j the j-th of its `outputs`; the caller's inputs are those of the graph, its
/// results the graph's outputs in order, without state and constants that no stage gives. Edges are listed by
/// reader, stages ascending and the caller last. `updates` of state are not among them. Bytes are 0 where the
/// graph does not tell them. O(values + size of the plan).
template <std::unsigned_integral Index>
transport transport_of(basic_dense<Index> const& s, basic_plan<Index> const& p) {
  std::vector<std::pair<stage_id, std::uint32_t>> sender(s.values(), {the_caller, 0});
  for (std::uint32_t i = 0; i < s.inputs.size(); ++i) sender[s.inputs[i]].second = i;
  for (std::uint32_t i = 0; i < p.stages.size(); ++i)
    for (std::uint32_t j = 0; j < p.stages[i].outputs.size(); ++j)
      sender[p.stages[i].outputs[j]] = {stage_id{i}, j};

  transport t{static_cast<std::uint32_t>(p.stages.size()), {}};
  auto const bring = [&](Index v, stage_id to, std::uint32_t input) {
    t.edges.push_back({sender[v].first, sender[v].second, to, input, v, s.bytes.empty() ? 0 : s.bytes[v]});
  };
  for (std::uint32_t i = 0; i < p.stages.size(); ++i)
    for (std::uint32_t j = 0; j < p.stages[i].inputs.size(); ++j)
      bring(p.stages[i].inputs[j], stage_id{i}, j);
  for (std::uint32_t result = 0; Index const v : s.outputs)
    if (s.from[v] == source::node || s.from[v] == source::input || sender[v].first != the_caller)
      bring(v, the_caller, result++);
  return t;
}

}  // namespace cleave
