// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/backward/stage_root.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/split/plan.hpp"

namespace cleave {

/// The root of a cut graph, and where it has the values of the graph.
template <std::unsigned_integral Index>
struct basic_planned_root {
  stage_root root;
  std::vector<Index> value;  ///< of a value of the root: the graph's; none where a stage gives several
  std::vector<std::uint32_t> stage;    ///< of a stage: its value
  std::vector<std::uint32_t> made_at;  ///< of a value of the graph: where the root has it first, or none
};

}  // namespace cleave

namespace cleave::detail {

using planned_root = basic_planned_root<std::uint32_t>;

}  // namespace cleave::detail

namespace cleave {

/// The root of `p`, a plan of `s`: the caller's inputs, then each stage in its order and, where it gives
/// several values, these as its elements. What a stage receives it reads from the stage that sends it, also
/// where that only passes it on. No user's graph is asked: `make_backward_plan` on it is the backward pass of
/// stages in any IR. Expected O(values + size of the plan).
template <std::unsigned_integral Index>
basic_planned_root<Index> planned_root_of(basic_dense<Index> const& s, basic_plan<Index> const& p) {
  basic_planned_root<Index> made{{},
                                 {},
                                 std::vector<std::uint32_t>(p.stages.size()),
                                 std::vector<std::uint32_t>(s.values(), none<std::uint32_t>)};
  auto& at = made.made_at;
  auto const add = [&](root_kind kind, Index v, std::vector<std::uint32_t> const& reads,
                       std::uint32_t which) {
    auto const number = narrow<std::uint32_t>(made.root.values());
    made.root.add(kind, reads, which);
    made.value.push_back(v);
    if (v != none<Index> && at[v] == none<std::uint32_t>) at[v] = number;
    return number;
  };
  for (Index const v : s.inputs) add(root_kind::input, v, {}, 0);

  numbering<std::uint64_t, std::uint32_t> given;  // a stage and what it gives …
  std::vector<std::uint32_t> given_at;            // … in step with it: where the root has that
  auto const key = [&](stage_id from, Index v) { return std::uint64_t{index(from)} * s.values() + v; };
  auto const give = [&](stage_id from, Index v, std::uint32_t where) {
    if (given.insert(key(from, v)) == given_at.size()) given_at.push_back(where);
  };
  auto next = p.transfers.begin();  // those to one stage stand together, in the order of its inputs
  for (stage_id const i : p.order) {
    auto const& stage = p.stages[index(i)];
    std::vector<std::uint32_t> reads;
    for (Index const v : stage.inputs) {
      auto read = at[v];
      if (next != p.transfers.end() && next->to == i && next->value == v)
        if (auto const from = given.find(key((next++)->from, v)); from != none<std::uint32_t>)
          read = given_at[from];
      reads.push_back(read != none<std::uint32_t> ? read : add(root_kind::other, v, {}, 0));
    }
    bool const bare = stage.outputs.size() == 1;
    auto const call = add(root_kind::stage, bare ? stage.outputs.front() : none<Index>, reads, 0);
    made.stage[index(i)] = call;
    for (std::uint32_t k = 0; k < stage.outputs.size(); ++k) {
      auto const v = stage.outputs[k];
      give(i, v, bare ? call : add(root_kind::element, v, {call}, k));
    }
  }
  return made;
}

}  // namespace cleave
