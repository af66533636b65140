// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/scopes.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/named/cut_points.hpp"
#include "cleave/split/make_plan.hpp"
#include "cleave/split/plan.hpp"
#include "cleave/split/split_with_scopes.hpp"

namespace cleave::inline v0_2 {

/// A value with its producing stage and all of its readers.
template <std::unsigned_integral Index>
struct basic_pipe_edge {
  Index value;               ///< position in the snapshot
  stage_id from;             ///< the stage that sends it; `the_caller` for an input of the program
  std::vector<stage_id> to;  ///< ascending, without repeats; the caller comes last if the value is returned

  bool operator==(basic_pipe_edge const&) const = default;
};

/// A program cut into a pipe. Stages are numbered in execution order, so each stage receives values only from
/// earlier stages and the caller. Plain data: values and nodes are positions in the planned snapshot.
template <std::unsigned_integral Index>
struct basic_pipe_plan {
  /// The stages, in execution order. Markers belong to no stage. State that the program returns belongs to
  /// the last stage.
  basic_plan<Index> plan;
  std::vector<std::uint32_t> number;  ///< for each stage: the cuts before it, including those without effect
  std::vector<basic_pipe_edge<Index>> edges;  ///< first the caller's inputs, then the outputs of each stage
  std::vector<idle_cut> idle;                 ///< cuts without effect

  bool operator==(basic_pipe_plan const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

using pipe_edge = basic_pipe_edge<std::uint32_t>;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

using pipe_plan = basic_pipe_plan<std::uint32_t>;

/// Returns true if a value passes over a stage that does not read it.
template <std::unsigned_integral Index>
bool skips_stages(basic_pipe_edge<Index> const& e) {
  return e.from != the_caller && std::ranges::any_of(e.to, [&](stage_id to) {
           return to != the_caller && index(to) > index(e.from) + 1;
         });
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns true if the caller is among the readers. It is always the last one.
inline bool is_returned(std::span<stage_id const> to) { return !to.empty() && to.back() == the_caller; }

/// Thrown if a program returns nothing, so that no stage would have to run.
class no_output_error : public error {
 public:
  no_output_error()
      : error(
            "pipe: the program returns nothing, so no stage would have to run; list its results in "
            "outputs()") {}
};

/// Returns the edges of a plan: first the caller's inputs that are read, then the outputs of each stage, both
/// in order. A relayed value has one edge from each stage that sends it. The caller receives a returned value
/// from the last stage that outputs it. Expected O(values + size of the plan).
template <std::unsigned_integral Index>
std::vector<basic_pipe_edge<Index>> pipe_edges_of(basic_snapshot_arrays<Index> const& s,
                                                  basic_plan<Index> const& p) {
  std::vector<basic_pipe_edge<Index>> edges;
  std::vector<std::size_t> last(s.values(), none<std::size_t>);  // for each value: its last edge
  numbering<std::uint64_t, std::uint32_t> senders;  // key of a sender and a value; indexed like `edges`
  auto const key = [&](stage_id from, Index v) {
    return from == the_caller ? std::uint64_t{v} : (std::uint64_t{index(from)} + 1) * s.values() + v;
  };
  auto const open = [&](Index v, stage_id from) {
    if (auto const known = senders.size(); senders.insert(key(from, v)) < known) return;
    last[v] = edges.size();
    edges.push_back({v, from, {}});
  };
  for (Index const v : s.inputs) open(v, the_caller);
  for (stage_id const i : p.order)
    for (Index const v : p.stages[index(i)].inputs)
      if (s.from[v] == source::input) open(v, the_caller);
  for (stage_id const i : p.order)
    for (Index const v : p.stages[index(i)].outputs) open(v, i);

  auto const read = [&](std::size_t edge, stage_id by) {
    auto& to = edges[edge].to;
    if (to.empty() || to.back() != by) to.push_back(by);
  };
  numbering<std::uint64_t, std::uint32_t> sent;  // a receiving stage and a value
  for (auto const& t : p.transfers) {
    sent.insert(key(t.to, t.value));
    if (auto const e = senders.find(key(t.from, t.value)); e != none<std::uint32_t>) read(e, t.to);
  }
  for (stage_id const i : p.order)
    for (Index const v : p.stages[index(i)].inputs)
      if (s.from[v] == source::input && sent.find(key(i, v)) == none<std::uint32_t>)
        read(senders.find(key(the_caller, v)), i);
  for (auto& e : edges) std::ranges::sort(e.to);
  for (Index const v : s.outputs)
    if (last[v] != none<std::size_t>) read(last[v], the_caller);
  std::erase_if(edges, [](auto const& e) { return e.to.empty(); });
  return edges;
}

/// Turns a plan into a pipe plan. Helper of `make_pipe_plan`.
template <std::unsigned_integral Index>
class pipe_planner {
 public:
  pipe_planner(basic_snapshot_arrays<Index> const& s, cut_partition const& p, basic_plan<Index> made)
      : s_(s), p_(p), made_(std::move(made)) {}

  basic_pipe_plan<Index> plan() {
    leave_markers_out();
    number_stages();
    return_state();
    pipe_.edges = pipe_edges_of(s_, pipe_.plan);
    pipe_.idle = p_.idle;
    return std::move(pipe_);
  }

 private:
  std::vector<basic_stage<Index>>& stages() { return pipe_.plan.stages; }

  void leave_markers_out() {
    if (p_.markers.empty()) return;
    std::vector<char> marks(s_.nodes());
    for (auto const n : p_.markers) marks[n] = 1;
    for (auto& stage : made_.stages) std::erase_if(stage.nodes, [&](Index n) { return marks[n] != 0; });
  }

  /// Numbers the stages in execution order. A part without nodes does not become a stage.
  void number_stages() {
    std::vector<stage_id> now(made_.stages.size(), the_caller);
    for (stage_id const old : made_.order) {
      auto& stage = made_.stages[index(old)];
      if (stage.nodes.empty()) continue;
      now[index(old)] = stage_id{static_cast<std::uint32_t>(stages().size())};
      pipe_.plan.order.push_back(now[index(old)]);
      pipe_.number.push_back(p_.number[index(old)]);
      stages().push_back(std::move(stage));
    }
    auto const renumbered = [&](std::vector<basic_transfer<Index>> list) {
      for (auto& t : list) t.from = now[index(t.from)], t.to = now[index(t.to)];
      return list;
    };
    pipe_.plan.transfers = renumbered(std::move(made_.transfers));
    pipe_.plan.updates = renumbered(std::move(made_.updates));
  }

  /// Makes the last stage return state that the program outputs, because only stages hold state.
  void return_state() {
    if (stages().empty()) return;
    auto& last = stages().back();
    for (Index const v : s_.outputs) {
      if (!is_held(s_.from[v])) continue;
      if (std::ranges::find(last.state, v) == last.state.end()) last.state.push_back(v);
      if (std::ranges::find(last.outputs, v) == last.outputs.end()) last.outputs.push_back(v);
    }
  }

  basic_snapshot_arrays<Index> const& s_;
  cut_partition const& p_;
  basic_plan<Index> made_;
  basic_pipe_plan<Index> pipe_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Plans the pipe of `s` cut at `p`. Stages run in program order if the dependencies allow it. Inputs of a
/// stage are sorted by first use in the stage, outputs by first use outside. O(V + E + parts log parts).
/// \throws no_output_error; partition_error as in make_plan
template <std::unsigned_integral Index>
basic_pipe_plan<Index> make_pipe_plan(basic_snapshot_arrays<Index> const& s, cut_partition const& p) {
  if (s.outputs.empty()) throw detail::no_output_error();
  auto made = make_plan(s, p, {.outputs = output_order::first_use});
  return detail::pipe_planner<Index>(s, p, std::move(made)).plan();
}

/// Plans the pipe of a program with scopes (gradient mode, autocast). `s` is the result of `add_scopes`. Each
/// stage sets up the scopes of its nodes.
/// \throws no_output_error; the errors of make_plan, including those about scopes
template <std::unsigned_integral Index>
basic_pipe_plan<Index> make_pipe_plan(basic_snapshot_arrays<Index> const& s, cut_partition const& p,
                                      basic_scopes<Index> const& scopes) {
  if (s.outputs.empty()) throw detail::no_output_error();
  auto made = make_plan(s, p, scopes, {.outputs = output_order::first_use});
  return detail::pipe_planner<Index>(s, p, std::move(made)).plan();
}

}  // namespace cleave
