// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/model/validity.hpp"
#include "cleave/split/detail/part_dependencies.hpp"
#include "cleave/split/make_plan.hpp"
#include "cleave/split/plan.hpp"

namespace cleave::inline v0_2 {

/// A plan whose nodes can move to other stages, one at a time. After each move it equals the plan that
/// `make_plan` returns for the changed partition, but only the stages that change are rebuilt. It refers to
/// the snapshot, which must outlive it. Lists have `make_plan`'s default orders. Scopes are not supported.
template <std::unsigned_integral Index>
class incremental_plan {
 public:
  /// Plans `p`. Replicable nodes without a part get the part in which the plan puts them. O(V + E + parts log
  /// parts).
  /// \throws partition_error as check_partition does
  incremental_plan(basic_snapshot_arrays<Index> const& s, partition p)
      : s_(s),
        p_(std::move(p)),
        taken_(s.values()),
        copies_(s.nodes()),
        given_(s.values()),
        holders_(s.latest.size()),
        mark_(s.values() + s.nodes()) {
    check_partition(s_, p_);
    give_parts();
    needs_ = detail::part_dependencies<Index>(s_, p_);
    stages_.resize(p_.parts), members_.resize(p_.parts), resident_.resize(p_.parts);
    for (Index const v : s_.outputs) given_[v] = 1;
    for (std::size_t n = 0; n < s_.nodes(); ++n)
      (detail::is_replicable(s_, n) ? resident_ : members_)[index(p_.of[n])].push_back(static_cast<Index>(n));
    dirty_.resize(p_.parts);
    for (std::uint32_t i = 0; i < p_.parts; ++i) touch(part_id{i});
    rebuild();
  }

  incremental_plan(basic_snapshot_arrays<Index> const&& /* is gone when a node moves: give it a name first */,
                   partition) = delete;

  /// Returns the current partition, in which every node has a part.
  partition const& parts() const { return p_; }
  /// Returns the current lists of stage i.
  basic_stage<Index> const& stage(stage_id i) const { return stages_[index(i)]; }

  /// Moves node n and its group to part `to`. Returns the stages whose lists changed, ascending. O(size of
  /// the affected stages + dependencies between parts).
  /// \throws partition_error if parts would then depend on each other in a cycle. The plan is unchanged then;
  /// finding the nodes of the cycle takes O(V + E).
  std::vector<stage_id> move(std::size_t n, part_id to) {
    expects(n < s_.nodes() && index(to) < p_.parts, "a node and a part of this plan");
    auto const from = p_.of[n];
    if (from == to) return {};
    auto const moving = with_group(n);
    if (!needs_.move(s_, p_, moving, to)) {
      auto refused = p_;
      for (Index const m : moving) refused.of[m] = to;
      check_partition(s_, refused);
    }
    for (Index const m : moving) {
      auto& lists = detail::is_replicable(s_, m) ? resident_ : members_;
      auto& old = lists[index(from)];
      auto& now = lists[index(to)];
      old.erase(std::lower_bound(old.begin(), old.end(), m));
      now.insert(std::lower_bound(now.begin(), now.end(), m), m);
    }
    if (detail::is_replicable(s_, n)) {  // `copies_` does not count a node's own part
      auto const has = [&](part_id i) {
        return std::binary_search(stages_[index(i)].nodes.begin(), stages_[index(i)].nodes.end(), n);
      };
      copies_[n] += has(from) ? 1 : 0;
      copies_[n] -= has(to) ? 1 : 0;
    }
    touch(from), touch(to);
    return rebuild();
  }

  /// Returns the whole plan, whose stages are in `order::program`. O(size of the plan + parts log parts).
  basic_plan<Index> plan() const {
    basic_plan<Index> all;
    all.stages = stages_;
    detail::part_graph parts;
    parts.first_node.assign(p_.parts, s_.nodes());
    for (std::uint32_t i = 0; i < p_.parts; ++i) {
      for (auto const* list : {&members_[i], &resident_[i]})
        if (!list->empty()) parts.first_node[i] = std::min<std::size_t>(parts.first_node[i], list->front());
      needs_.each_dependent(i, [&](std::uint32_t j) { parts.dependents.add(j); });
      parts.dependents.close();
    }
    all.order = detail::emission_order(parts, order::program);
    for (stage_id const i : all.order) {
      for (Index const v : stages_[index(i)].inputs)
        if (Index const m = s_.producer[v]; m != none<Index>)
          all.transfers.push_back({v, stage_id{index(p_.of[m])}, i});
      for (Index const v : stages_[index(i)].state)
        if (Index const last = s_.latest[s_.slot[v]];
            last != v && p_.of[s_.producer[last]] != part_id{index(i)})
          all.updates.push_back({last, stage_id{index(p_.of[s_.producer[last]])}, i});
    }
    return all;
  }

 private:
  /// Gives each replicable node without a part the smallest part in which `make_plan` puts it.
  void give_parts() {
    bool const all = std::find(p_.of.begin(), p_.of.end(), no_part) == p_.of.end();
    if (all) return;
    auto const made = make_plan(s_, p_);
    for (std::uint32_t i = 0; i < p_.parts; ++i)
      for (Index const n : made.stages[i].nodes)
        if (p_.of[n] == no_part) p_.of[n] = part_id{i};  // the smallest part that has the node
  }

  std::vector<Index> with_group(std::size_t n) const {
    std::vector<Index> moving;
    if (s_.group.empty() || detail::is_replicable(s_, n)) return {static_cast<Index>(n)};
    for (Index const m : members_[index(p_.of[n])])
      if (s_.group[m] == s_.group[n]) moving.push_back(m);
    return moving;
  }

  bool comes_from_outside(Index v, part_id reader) const {
    Index const m = s_.producer[v];
    return m == none<Index> || (!detail::is_replicable(s_, m) && p_.of[m] != reader);
  }
  bool is_overwritten(Index v) const { return s_.latest[s_.slot[v]] != v; }

  void touch(part_id i) {
    if (!std::exchange(dirty_[index(i)], 1)) queue_.push_back(i);
  }
  void touch_outputs(Index v) {
    if (Index const m = s_.producer[v]; m != none<Index>) outputs_.push_back(p_.of[m]);
  }

  /// Rebuilds the stages in the queue. Then updates the outputs of each stage whose values gained their first
  /// receiver or lost their last. Returns the changed stages, ascending.
  std::vector<stage_id> rebuild() {
    std::vector<stage_id> changed;
    for (std::size_t at = 0; at < queue_.size(); ++at) {  // grows as copies vanish or appear elsewhere
      auto const i = queue_[at];
      dirty_[index(i)] = 0;
      auto now = lists_of(i);
      auto& stage = stages_[index(i)];
      now.outputs = stage.outputs;
      count_interface(i, now, 1);  // new lists first, so that counts of what stays never reach 0
      count_interface(i, stage, -1);
      outputs_.push_back(i);
      if (now != stage) changed.push_back(stage_id{index(i)});
      stage = std::move(now);
    }
    queue_.clear();
    std::sort(outputs_.begin(), outputs_.end());
    outputs_.erase(std::unique(outputs_.begin(), outputs_.end()), outputs_.end());
    for (auto const i : outputs_) {
      auto outputs = outputs_of(i);
      if (outputs == stages_[index(i)].outputs) continue;
      stages_[index(i)].outputs = std::move(outputs);
      changed.push_back(stage_id{index(i)});
    }
    outputs_.clear();
    std::sort(changed.begin(), changed.end());
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    return changed;
  }

  /// Counts `stage` as a receiver of its inputs and as a holder of its state and copies (`sign` 1), or no
  /// longer (-1).
  void count_interface(part_id i, basic_stage<Index> const& stage, int sign) {
    auto const changes = [&](std::uint32_t& count) {  // true if `count` has just left or reached 0
      sign > 0 ? ++count : --count;
      return count == (sign > 0 ? 1u : 0u);
    };
    for (Index const v : stage.inputs)
      if (changes(taken_[v])) touch_outputs(v);
    for (Index const v : stage.state) {
      if (!is_overwritten(v)) continue;
      auto& list = holders_[s_.slot[v]];
      sign > 0 ? list.push_back(i) : void(list.erase(std::find(list.begin(), list.end(), i)));
      touch_outputs(s_.latest[s_.slot[v]]);
    }
    for (Index const n : stage.nodes)
      if (detail::is_replicable(s_, n) && p_.of[n] != i && changes(copies_[n])) touch(p_.of[n]);
  }

  /// True if a replicable node is in its own part even if nothing there reads it: no other stage has a copy,
  /// or the caller reads a result.
  bool is_resident(Index n) const {
    auto const given = [&](Index v) { return given_[v] != 0; };
    return copies_[n] == 0 || std::ranges::any_of(s_.results[n], given);
  }

  basic_stage<Index> lists_of(part_id i) {
    basic_stage<Index> stage;
    ++stamp_;
    auto const first_time = [&](std::size_t at) { return std::exchange(mark_[at], stamp_) != stamp_; };
    auto const add_copy = [&](Index v) {
      Index const m = s_.producer[v];
      if (m != none<Index> && detail::is_replicable(s_, m) && first_time(s_.values() + m))
        stage.nodes.push_back(m);
    };
    stage.nodes = members_[index(i)];
    for (Index const n : resident_[index(i)])
      if (is_resident(n) && first_time(s_.values() + n)) stage.nodes.push_back(n);
    for (std::size_t at = 0; at < stage.nodes.size(); ++at) {  // grows by the copies that nodes read
      Index const n = stage.nodes[at];
      for (Index const v : s_.operands[n]) {
        add_copy(v);
        if (!detail::is_replicable(s_, n) && comes_from_outside(v, i))
          for (Index const c : s_.companions[v]) add_copy(c);
      }
    }
    std::sort(stage.nodes.begin(), stage.nodes.end());
    auto const take = [&](Index v) {
      if (!comes_from_outside(v, i) || !first_time(v)) return;
      bool const held = is_held(s_.from[v]);
      (held ? stage.state : stage.inputs).push_back(v);
    };
    for (Index const n : stage.nodes)
      for (Index const v : s_.operands[n]) {
        take(v);
        if (detail::is_replicable(s_, n) || !comes_from_outside(v, i)) continue;
        for (Index const c : s_.companions[v]) take(c);
      }
    return stage;
  }

  std::vector<Index> outputs_of(part_id i) const {
    std::vector<Index> outputs;
    for (Index const n : stages_[index(i)].nodes) {
      if (p_.of[n] != i) continue;
      for (Index const v : s_.results[n]) {
        bool leaves = given_[v] != 0 || taken_[v] > 0;
        if (s_.latest[s_.slot[v]] == v)
          for (auto const holder : holders_[s_.slot[v]]) leaves |= holder != i;
        if (leaves) outputs.push_back(v);
      }
    }
    return outputs;
  }

  basic_snapshot_arrays<Index> const& s_;
  partition p_;
  detail::part_dependencies<Index> needs_;
  std::vector<basic_stage<Index>> stages_;
  std::vector<std::vector<Index>> members_;    // by part: its nodes that are not replicable, ascending
  std::vector<std::vector<Index>> resident_;   // by part: its replicable nodes, ascending
  std::vector<std::uint32_t> taken_;           // by value: number of stages that receive it
  std::vector<std::uint32_t> copies_;          // by replicable node: number of other stages that have a copy
  std::vector<char> given_;                    // by value: the caller receives it
  std::vector<std::vector<part_id>> holders_;  // by slot: stages that hold it as state that a node writes
  std::vector<part_id> queue_, outputs_;       // stages to rebuild: all lists, or the outputs only
  std::vector<char> dirty_;                    // by part: it is in the queue
  std::vector<std::uint64_t> mark_;            // by value, then by node: `stamp_` of the last visit
  std::uint64_t stamp_ = 0;
};
}  // namespace cleave
