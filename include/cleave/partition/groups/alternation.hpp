// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/check_graph_concepts.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/groups/capability_options.hpp"
#include "cleave/partition/groups/detail/capability_units.hpp"
#include "cleave/partition/groups/fusion_group.hpp"
#include "cleave/partition/named/assign.hpp"

namespace cleave::inline v0_2 {

/// Options of `alternation`. Nodes are positions in `nodes()`.
struct alternation_options {
  std::size_t least = 1;  ///< minimum number of nodes of an accelerator part; smaller parts go to the host
  std::size_t most = (std::numeric_limits<std::size_t>::max)();     ///< maximum number of accelerator parts
  std::vector<std::vector<std::size_t>> together{};                 ///< sets of nodes that must share a part
  std::string accelerator = "_run_on_acc_", host = "_run_on_cpu_";  ///< prefixes of labels, before the number
};

/// Parts in execution order, and the device that runs each.
struct alternating_partition : labelled_partition<std::string> {
  std::vector<char> accelerated;  ///< per part: true if the accelerator runs it
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns true if the host runs first: one of its units has no predecessors.
template <std::unsigned_integral Index>
bool host_begins(capability_units<Index> const& u) {
  for (std::size_t i = 0; i < u.size(); ++i)
    if (u.predecessors[i].empty() && !u.supported[i]) return true;
  return false;
}

/// Returns the turn in which each unit runs if the two sides alternate: the first turn of its own side that
/// is not before the turns of its predecessors.
template <std::unsigned_integral Index>
std::vector<std::uint32_t> turns_of(capability_units<Index> const& u, bool host_begins) {
  std::vector<std::uint32_t> turn(u.size());
  for (std::size_t i = 0; i < u.size(); ++i) {
    turn[i] = (u.supported[i] != 0) == host_begins ? 1 : 0;
    for (Index const need : u.predecessors[i])
      turn[i] = (std::max)(turn[i], turn[need] + (u.supported[i] != u.supported[need] ? 1 : 0));
  }
  return turn;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Cuts a graph into parts that alternate between an accelerator and its host, as torch.fx's splitter_base
/// does. The accelerator runs only nodes that are `supported`. Nodes that must share a part, because a value
/// between them cannot cross, run on the host unless all of them are supported. An accelerator part that is
/// too small is merged into the host parts before and after it. Replicable nodes count like any other node.
/// O(V + E).
///
/// No part depends on a later one.
/// \pre `supported` has an entry per node.
/// \throws infeasible_error if there are more than `most` accelerator parts.
/// \throws error            if a set of `together` names a node that does not exist.
template <std::unsigned_integral Index>
alternating_partition alternation(basic_snapshot_arrays<Index> const& s, std::vector<char> const& supported,
                                  alternation_options const& o = {}) {
  expects(supported.size() == s.nodes(), "an entry of `supported` for each node");
  if (auto const fault = detail::find_option_fault({.together = o.together}, s))
    detail::raise(error("alternation: " + *fault));
  auto const units = detail::capability_units_of<Index>(s, supported, o.together);
  bool host_turn = detail::host_begins(units);
  auto const turn = detail::turns_of(units, host_turn);
  std::vector<std::size_t> size;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (turn[i] >= size.size()) size.resize(turn[i] + std::size_t{1});
    size[turn[i]] += units.members[i].size();
  }

  alternating_partition p;
  std::vector<part_id> part_of;  // per turn
  for (auto const nodes : size) {
    bool const host = host_turn || nodes < o.least;
    bool const joins = host && !p.accelerated.empty() && !p.accelerated.back();
    if (!joins) p.accelerated.push_back(!host);
    part_of.push_back(part_id{static_cast<std::uint32_t>(p.accelerated.size() - 1)});
    host_turn = !host_turn;
  }
  p.parts = static_cast<std::uint32_t>(p.accelerated.size());
  p.of.assign(s.nodes(), no_part);
  for (std::size_t i = 0; i < units.size(); ++i)
    for (Index const n : units.members[i]) p.of[n] = part_of[turn[i]];
  for (std::uint32_t i = 0; i < p.parts; ++i)
    p.label.push_back((p.accelerated[i] ? o.accelerator : o.host) + std::to_string(i));

  auto const used = static_cast<std::size_t>(std::count(p.accelerated.begin(), p.accelerated.end(), 1));
  if (used > o.most)
    detail::raise(
        infeasible_error("alternation: the accelerator gets " + std::to_string(used) +
                         " parts, but at most " + std::to_string(o.most) +
                         " are allowed; raise `least`, so that small parts go to the host, or raise `most`"));
  return p;
}

/// Partitions a user's graph into alternating parts. `supports(node)` is called once per node, in order.
/// \throws the errors of `alternation` for a snapshot, and of `snapshot_of`
template <std::unsigned_integral Index = std::uint32_t, dataflow_graph Graph, class Supports>
  requires std::predicate<Supports&, node_t<Graph>>
alternating_partition alternation(Graph const& g, Supports supports, alternation_options const& o = {}) {
  std::vector<char> supported;
  for (auto n : g.nodes()) supported.push_back(supports(n) ? 1 : 0);
  return alternation(snapshot_of<Index>(g), supported, o);
}

template <std::unsigned_integral Index = std::uint32_t, detail::unfinished_graph Graph, class Supports>
detail::refused alternation(Graph const&, Supports const&, alternation_options const& = {}) {
  detail::refuse_graph<Graph>();
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns `groups` without the nodes at their ends that do no work, such as views. A `trivial` node is at an
/// end if all its predecessors in the group are at the start too, or if all its successors in the group are
/// at the end too. Removing such nodes closes no cycle. Groups that become empty are kept. O(V + E).
///
/// \pre `trivial` has an entry per node, and the groups are disjoint.
template <std::unsigned_integral Index>
std::vector<fusion_group> trim_trivial_ends(basic_snapshot_arrays<Index> const& s,
                                            std::vector<fusion_group> groups, std::span<char const> trivial) {
  expects(trivial.size() == s.nodes(), "an entry of `trivial` for each node");
  std::vector<std::size_t> group_of(s.nodes(), groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i)
    for (auto const n : groups[i].nodes) group_of[n] = i;

  auto first = std::vector<char>(trivial.begin(), trivial.end()), last = first;
  for (std::size_t n = 0; n < s.nodes(); ++n)
    for (Index const v : s.operands[n])
      if (Index const m = s.producer[v]; m != none<Index> && group_of[m] == group_of[n] && !first[m])
        first[n] = 0;
  for (std::size_t n = s.nodes(); n-- > 0;)
    for (Index const v : s.results[n])
      for (Index const user : s.users[v])
        if (group_of[user] == group_of[n] && !last[user]) last[n] = 0;

  for (auto& g : groups) std::erase_if(g.nodes, [&](std::size_t n) { return first[n] != 0 || last[n] != 0; });
  return groups;
}

}  // namespace cleave::detail
