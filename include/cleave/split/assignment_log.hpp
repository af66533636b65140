// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/units/part_cycles.hpp"
#include "cleave/split/boundary.hpp"
#include "cleave/split/plan.hpp"

namespace cleave::inline v0_2::detail {

/// One step in the assignment of a node to a stage.
struct assignment_event {
  enum class kind : std::uint8_t {
    assigned,     ///< the partition puts the node into part `to`
    moved,        ///< the node moved from part `from` to `to`, since parts depended on each other in a cycle
    cut,          ///< part `from` lay on a cycle and was cut into instances; `to` is the one with the node
    merged,       ///< part `from` lay on a cycle; all parts of the cycle were merged into part `to`
    renumbered,   ///< part `from` is now numbered `to`, since other parts were merged
    projected,    ///< the node takes an element of a result of `other` and moved to its part
    recomputed,   ///< the node is copied to its readers, so that its results are not sent
    together,     ///< the node must share its stage with `other`
    copied,       ///< stage `to` has a copy, which `other` reads
    in_own_part,  ///< stage `to`, the node's own, has it: no other stage reads it, or the caller does
    state_mark,   ///< stage `to` has a copy of this mark, to set the state of `other` or to end a scope
  };
  kind what;
  std::size_t node;
  part_id from = no_part, to = no_part;
  std::size_t other = none<std::size_t>;  ///< another node, or none

  bool operator==(assignment_event const&) const = default;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A record, as data, of why each node is in its stage: the effects of the steps of a cut, in their order.
/// The caller records the steps that were taken. Planning does not need the log.
class assignment_log {
 public:
  /// Starts with the parts of `p`.
  explicit assignment_log(partition const& p) : of_(p.of) {
    for (std::size_t n = 0; n < of_.size(); ++n)
      if (of_[n] != no_part) add({kind::assigned, n, no_part, of_[n]});
  }

  /// Records the effect of a policy for cycles. O(V).
  void record(acyclic_partition const& a) {
    auto moved = a.moved.begin();
    for (std::size_t n = 0; n < of_.size(); ++n) {
      auto const to = a.parts.of[n];
      if (to == of_[n] || to == no_part) continue;
      bool const is_moved = moved != a.moved.end() && moved->node == n;
      if (is_moved) ++moved;
      auto const made_of = a.made_of[index(to)];
      add({is_moved             ? kind::moved
           : made_of.size() > 1 ? kind::merged
           : a.new_cuts > 0     ? kind::cut
                                : kind::renumbered,
           n, of_[n], to});
      of_[n] = to;
    }
  }

  /// Records the effect of the rules for the boundary. O(V).
  template <class Snapshot>
  void record(resolved_boundary<Snapshot> const& b) {
    for (auto const n : b.projected) {
      auto other = none<std::size_t>;
      for (auto const v : b.s.operands[n])
        if (auto const m = b.s.producer[v]; b.s.from[v] == source::node && b.parts.of[m] == b.parts.of[n])
          other = m;
      add({kind::projected, n, of_[n], b.parts.of[n], other});
      of_[n] = b.parts.of[n];
    }
    for (auto const n : b.recomputed) add({kind::recomputed, n, of_[n], of_[n]});
  }

  /// Records the groups and copies of a plan. O(V + E + copies).
  template <std::unsigned_integral Index>
  void record(basic_snapshot_arrays<Index> const& s, basic_plan<Index> const& p) {
    for (std::size_t n = 0; n < s.group.size(); ++n)
      if (s.group[n] != n && !detail::is_replicable(s, n))
        add({kind::together, n, of_[n], of_[n], s.group[n]});
    std::vector<std::size_t> reader(s.nodes()), read_in(s.nodes(), p.stages.size());
    for (std::uint32_t i = 0; i < p.stages.size(); ++i) {
      auto const& nodes = p.stages[i].nodes;
      auto const reads = [&](Index v, Index by) {
        Index const m = s.producer[v];
        if (m == none<Index> || read_in[m] == i) return;
        read_in[m] = i;
        reader[m] = by;
      };
      for (Index const n : nodes)
        for (Index const v : s.operands[n]) {
          reads(v, n);
          if (!detail::is_replicable(s, n))
            for (Index const c : s.companions[v]) reads(c, n);
        }
      for (std::size_t at = 0; at < nodes.size(); ++at) {
        Index const n = nodes[at];
        part_id const here{i};
        if (!detail::is_replicable(s, n)) {
          if (of_[n] != here)
            add({kind::state_mark, n, of_[n], here,
                 at + 1 < nodes.size() ? nodes[at + 1] : none<std::size_t>});
        } else if (read_in[n] == i) {
          add({kind::copied, n, of_[n], here, reader[n]});
        } else {
          add({kind::in_own_part, n, of_[n], here});
        }
      }
    }
  }

  /// Returns all events, in the order of the steps.
  std::span<detail::assignment_event const> events() const { return {events_.data(), events_.size()}; }

  /// Returns the events of one node, in order. O(events).
  std::vector<detail::assignment_event> of(std::size_t n) const {
    std::vector<detail::assignment_event> list;
    for (auto const& e : events_)
      if (e.node == n) list.push_back(e);
    return list;
  }

 private:
  using kind = detail::assignment_event::kind;
  void add(detail::assignment_event const& e) { events_.push_back(e); }

  std::vector<part_id> of_;  // by node: its part so far
  std::vector<detail::assignment_event> events_;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns one sentence that describes the event, in the names of the graph.
template <std::unsigned_integral Index>
std::string assignment_text(basic_snapshot_arrays<Index> const& s, assignment_event const& e) {
  using enum assignment_event::kind;
  auto const part = [](part_id i) { return std::to_string(index(i)); };
  auto const other = [&] {
    return e.other < s.nodes() ? s.label(e.other) : std::string("the end of the stage");
  };
  auto const node = s.label(e.node);
  switch (e.what) {
    case assigned:
      return node + " is assigned to part " + part(e.to);
    case moved:
      return node + " goes from part " + part(e.from) + " to part " + part(e.to) +
             ", since the parts depended on each other in a cycle";
    case cut:
      return node + " is in part " + part(e.to) + ", an instance of part " + part(e.from) +
             ", which lay on a cycle";
    case merged:
      return node + " moves with part " + part(e.from) + " into part " + part(e.to) +
             ", which holds all parts of a cycle";
    case renumbered:
      return node + " stays: part " + part(e.from) + " is now numbered " + part(e.to);
    case projected:
      return node + " goes from part " + part(e.from) + " to part " + part(e.to) + ", to " + other() +
             ", since it takes an element of a result there";
    case recomputed:
      return node + " is copied to its readers, by the rules for the boundary";
    case together:
      return node + " must share its stage with " + other();
    case copied:
      return node + " is copied into stage " + part(e.to) + " for " + other();
    case in_own_part:
      return node + " is in stage " + part(e.to) +
             ", its own part: the caller reads it, or no other stage does";
    case state_mark:
      return node + " is copied into stage " + part(e.to) + " for the state at " + other();
  }
  return {};
}

}  // namespace cleave::detail
