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

namespace cleave {

/// A value on its way from where it is made to all who read it.
template <std::unsigned_integral Index>
struct basic_pipe_edge {
  Index value;
  stage_id from;             ///< `the_caller`: an input of the program
  std::vector<stage_id> to;  ///< ascending, each once; the caller, who is given the result, comes last

  bool operator==(basic_pipe_edge const&) const = default;
};

/// A program cut into a pipe: stages in the order in which they run, so that each receives from earlier ones
/// and the caller only. Plain data, by positions in the snapshot that it was planned on.
template <std::unsigned_integral Index>
struct basic_pipe_plan {
  /// Markers are in no stage. State that the program returns is of the last stage. Stages are in `order`.
  basic_plan<Index> plan;
  std::vector<std::uint32_t> number;  ///< of a stage: how many cuts come before it, those without effect too
  std::vector<basic_pipe_edge<Index>> edges;  ///< of the caller's inputs, then by stage, of its outputs
  std::vector<idle_cut> idle;                 ///< cuts without effect

  bool operator==(basic_pipe_plan const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

using pipe_edge = basic_pipe_edge<std::uint32_t>;

}  // namespace cleave::detail

namespace cleave {

using pipe_plan = basic_pipe_plan<std::uint32_t>;

/// Whether a value goes past a stage that does not read it on the way to one that does.
template <std::unsigned_integral Index>
bool skips_stages(basic_pipe_edge<Index> const& e) {
  return e.from != the_caller && std::ranges::any_of(e.to, [&](stage_id to) {
           return to != the_caller && index(to) > index(e.from) + 1;
         });
}

}  // namespace cleave

namespace cleave::detail {

/// Whether the caller, who stands last, is among the readers.
inline bool is_returned(std::span<stage_id const> to) { return !to.empty() && to.back() == the_caller; }

/// A program that returns nothing: no stage would have to run.
class no_output_error : public error {
 public:
  no_output_error()
      : error(
            "pipe: the program returns nothing, so that no stage would have to run; let outputs() name what "
            "it is run for") {}
};

/// Who reads what: of the caller's inputs those that are read, in their order, then by stage, in order, what
/// it gives. A value that a stage passes on (`relayed`) has an edge from each that gives it; the caller is
/// given it by the first. Expected O(values + size of the plan).
template <std::unsigned_integral Index>
std::vector<basic_pipe_edge<Index>> pipe_edges_of(basic_snapshot_arrays<Index> const& s,
                                                  basic_plan<Index> const& p) {
  std::vector<basic_pipe_edge<Index>> edges;
  std::vector<std::size_t> last(s.values(), none<std::size_t>);  // of a value: its last edge
  numbering<std::uint64_t, std::uint32_t> senders;               // of a stage and a value, in step with edges
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
  numbering<std::uint64_t, std::uint32_t> sent;  // to a stage, of a value
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

/// Makes a pipe of a plan; `make_pipe_plan` is its one use.
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

  /// In the order in which they run; a part without nodes is no stage.
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

  /// Nobody but a stage has state, so what is returned of it comes from the last one.
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

namespace cleave {

/// Cuts `s` as `p` says. Stages run in the order of the program where that is one; a stage lists what it is
/// given by first use in it, what it gives by first use outside. O(V + E + parts log parts).
/// \throws no_output_error, partition_error as make_plan does
template <std::unsigned_integral Index>
basic_pipe_plan<Index> make_pipe_plan(basic_snapshot_arrays<Index> const& s, cut_partition const& p) {
  if (s.outputs.empty()) throw detail::no_output_error();
  auto made = make_plan(s, p, {.outputs = output_order::first_use});
  return detail::pipe_planner<Index>(s, p, std::move(made)).plan();
}

/// The same for a program with scopes (gradient mode, autocast), where `s` is what `add_scopes` gives: each
/// stage sets up the state of its nodes.
/// \throws what make_plan throws for scopes, too
template <std::unsigned_integral Index>
basic_pipe_plan<Index> make_pipe_plan(basic_snapshot_arrays<Index> const& s, cut_partition const& p,
                                      basic_scopes<Index> const& scopes) {
  if (s.outputs.empty()) throw detail::no_output_error();
  auto made = make_plan(s, p, scopes, {.outputs = output_order::first_use});
  return detail::pipe_planner<Index>(s, p, std::move(made)).plan();
}

}  // namespace cleave
