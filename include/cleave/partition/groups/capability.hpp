// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/graph/check_graph_concepts.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/disjoint_sets.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/groups/capability_options.hpp"
#include "cleave/partition/groups/detail/capability_units.hpp"
#include "cleave/partition/groups/fusion_group.hpp"
#include "cleave/partition/groups/merge_walk.hpp"

namespace cleave::inline v0_2::detail {

/// Merges supported units along values wherever that closes no cycle. Used by `connected_groups`.
///
/// Each group, and each unit in no group, has a height greater than that of its successors. Two groups joined
/// by an edge can be merged if no other path leads from the upper one to the lower one. Such a path stays
/// between their heights, which limits the search.
template <std::unsigned_integral Index>
class group_contraction {
 public:
  group_contraction(capability_units<Index> const& u, std::size_t effort)
      : u_(u),
        effort_(effort),
        sets_(u.size()),
        height_(u.size()),
        below_(u.size()),
        above_(u.size()),
        seen_(u.size()) {}

  /// Returns, for each unit, a unit that represents its group.
  std::vector<Index> run() {
    for (std::size_t n = u_.size(); n-- > 0;) {
      link(static_cast<Index>(n));
      if (u_.supported[n]) merge_below(static_cast<Index>(n));
    }
    std::vector<Index> group(u_.size());
    for (std::size_t n = 0; n < group.size(); ++n) group[n] = sets_[n];
    return group;
  }

 private:
  /// One direction of a bidirectional search.
  struct side {
    std::vector<std::vector<Index>> const* next;
    std::vector<Index> rest;
    std::size_t mark, steps = 0;
  };

  void link(Index n) {
    ++stamp_;
    for (Index const user : u_.successors[n]) {
      Index const to = sets_[user];
      if (std::exchange(seen_[to], stamp_) == stamp_) continue;
      below_[n].push_back(to);
      above_[to].push_back(n);
      height_[n] = (std::max)(height_[n], height_[to] + 1);
    }
  }

  /// Merges into `g` the groups directly below it, one by one, where that closes no cycle.
  void merge_below(Index g) {
    std::vector<Index> targets;
    for (Index const to : tidy(below_, g))
      if (u_.supported[to]) targets.push_back(to);
    for (Index const to : targets)
      if (!other_path(g, to)) g = merge(g, to);
  }

  /// Replaces the entries of a list of `table` by their groups, each once, and returns the list.
  std::vector<Index> const& tidy(std::vector<std::vector<Index>>& table, Index g) {
    auto& list = table[g];
    ++stamp_;
    std::size_t kept = 0;
    for (Index const x : list) {
      Index const root = sets_[x];
      if (root != g && std::exchange(seen_[root], stamp_) != stamp_) list[kept++] = root;
    }
    list.resize(kept);
    return list;
  }

  /// Returns true if a path of two or more edges leads from `from` to `to`, or if the search exceeds the
  /// effort. Searches from both ends, always on the side that has examined fewer edges, until the searches
  /// meet or one is exhausted.
  bool other_path(Index from, Index to) {
    auto const low = height_[to], high = height_[from];
    if (high == low + 1) return false;
    auto const marks = stamp_ += 2;
    side down{&below_, {from}, marks - 1}, up{&above_, {to}, marks};
    stamp_ += 1;
    seen_[from] = down.mark;
    seen_[to] = up.mark;
    while (down.steps + up.steps <= effort_) {
      side& s = down.steps <= up.steps ? down : up;
      if (s.rest.empty()) return false;
      Index const x = s.rest.back();
      s.rest.pop_back();
      for (Index const y : (*s.next)[x]) {
        Index const root = sets_[y];
        ++s.steps;
        bool const direct = (x == from && root == to) || (x == to && root == from);
        if (direct || seen_[root] == s.mark) continue;
        if (seen_[root] == (s.mark == marks ? marks - 1 : marks)) return true;
        if (height_[root] <= low || height_[root] >= high) continue;
        seen_[root] = s.mark;
        s.rest.push_back(root);
      }
    }
    return true;
  }

  /// Merges `upper` and `lower`. The height of the union is at most that of `upper`, so only groups above
  /// `lower` may have to be lifted.
  Index merge(Index upper, Index lower) {
    auto const height = (std::max)(height_[lower], height_beside(upper, lower));
    lifted_.clear();
    if (height > height_[lower]) {
      height_[lower] = height;
      lift_above(lower, upper);
    }
    sets_.join(upper, lower);
    Index const whole = sets_[upper], part = whole == upper ? lower : upper;
    for (auto* table : {&below_, &above_}) {
      auto &to = (*table)[whole], &from = (*table)[part];
      if (to.size() < from.size()) to.swap(from);
      to.insert(to.end(), from.begin(), from.end());
      from = {};
    }
    height_[whole] = height;
    while (!lifted_.empty()) {
      Index const x = lifted_.back();
      lifted_.pop_back();
      lift_above(x, whole);
    }
    return whole;
  }

  /// Returns the height that `upper` needs because of its successors other than `lower`. Units not merged yet
  /// are at the end of the list, where a successor of maximum height is found early.
  std::size_t height_beside(Index upper, Index lower) {
    auto& list = below_[upper];
    std::size_t height = 0;
    for (std::size_t i = list.size(); i-- > 0 && height < height_[upper];) {
      Index const root = sets_[list[i]];
      if (root == upper && i + 1 == list.size()) list.pop_back();
      if (root != upper && root != lower) height = (std::max)(height, height_[root] + 1);
    }
    return height;
  }

  /// Lifts the groups directly above `g` that are not higher than `g`, except `other`, and records them.
  void lift_above(Index g, Index other) {
    for (Index const y : tidy(above_, g))
      if (y != other && height_[y] <= height_[g]) {
        height_[y] = height_[g] + 1;
        lifted_.push_back(y);
      }
  }

  capability_units<Index> const& u_;
  std::size_t effort_;
  disjoint_sets<Index> sets_;
  std::vector<std::size_t> height_;
  std::vector<std::vector<Index>> below_, above_;  // per group: units of the neighbouring groups
  std::vector<std::size_t> seen_;
  std::size_t stamp_ = 0;
  std::vector<Index> lifted_;
};

/// Merges supported units along values until no two connected ones can be merged. The supported units of the
/// result are the groups.
///
/// The first pass merges the same units as torch.fx's merge walk (`merge_walk`) would if its reachability
/// were exact. Further passes use what later merges made possible. A pass is near-linear if the paths that
/// separate neighbours are short. It gives up a merge that would require examining more than `effort` edges.
template <std::unsigned_integral Index>
capability_units<Index> connected_groups(capability_units<Index> u, std::size_t effort) {
  for (;;) {
    auto merged = contracted_units(u, group_contraction<Index>(u, effort).run());
    if (merged.size() == u.size()) return merged;
    u = std::move(merged);
  }
}

}  // namespace cleave::detail

/// Projections: nodes that take one result out of several results of their operand (`getitem`). If only
/// projections read a node, they follow it into its group, so that no tuple crosses a boundary.
namespace cleave::inline v0_2::detail {

/// Calls `f(m, n)` for each node `m` whose results only projections read, and each such projection `n`. Nodes
/// with a graph output are skipped. O(V + E).
template <std::unsigned_integral Index, class F>
void for_each_projection(basic_snapshot_arrays<Index> const& s, std::span<char const> projection, F f) {
  if (projection.empty()) return;
  std::vector<char> given(s.values());
  for (Index const v : s.outputs) given[v] = 1;
  for (std::size_t m = 0; m < s.nodes(); ++m) {
    bool only = true;
    for (Index const v : s.results[m])
      only &= !given[v] && std::ranges::all_of(s.users[v], [&](Index n) { return projection[n] != 0; });
    for (Index const v : s.results[m])
      for (Index const n : s.users[v])
        if (only) f(m, static_cast<std::size_t>(n));
  }
}

/// Makes each projection supported if its operand is, and adds both to `together`. O(V + E).
template <std::unsigned_integral Index>
void tie_projections(basic_snapshot_arrays<Index> const& s, std::span<char const> projection,
                     std::vector<char>& supported, std::vector<std::vector<std::size_t>>& together) {
  for_each_projection(s, projection, [&](std::size_t m, std::size_t n) {
    supported[n] = supported[m];
    together.push_back({m, n});
  });
}

/// Moves each projection to the end of the group of its operand, or out of all groups if its operand is in
/// none. Groups that become empty are kept. O((V + E) depth of projections of projections).
template <std::unsigned_integral Index>
void move_projections(basic_snapshot_arrays<Index> const& s, std::span<char const> projection,
                      std::vector<fusion_group>& groups) {
  auto const nowhere = groups.size();
  std::vector<std::size_t> group_of(s.nodes(), nowhere);
  for (std::size_t i = 0; i < groups.size(); ++i)
    for (auto const n : groups[i].nodes) group_of[n] = i;
  for (bool moved = true; moved;) {
    std::vector<std::pair<std::size_t, std::size_t>> moves;  // (node, target group)
    for_each_projection(s, projection, [&](std::size_t m, std::size_t n) {
      if (group_of[n] != group_of[m]) moves.emplace_back(n, group_of[m]);
    });
    moved = !moves.empty();
    std::vector<char> leaves(s.nodes());
    for (auto const& [n, to] : moves) leaves[n] = 1;
    for (auto& g : groups) std::erase_if(g.nodes, [&](std::size_t n) { return leaves[n] != 0; });
    for (auto const& [n, to] : moves) {
      group_of[n] = to;
      if (to != nowhere) groups[to].nodes.push_back(n);
    }
  }
}

/// Merges supported units into the minimum number of groups, connected by values or not. The supported units
/// of the result are the groups. O(V + E).
///
/// The group of a unit is the largest number of runs of supported units on any path to it. This number of
/// groups is minimal: two runs of one path cannot share a group, because the units between them would be both
/// its predecessors and its successors. No cycle arises, because the number never decreases along an edge,
/// and increases from an unsupported unit to a supported one.
template <std::unsigned_integral Index>
capability_units<Index> fewest_groups(capability_units<Index> const& u) {
  std::vector<Index> runs(u.size()), first, group(u.size());  // `first`: per group, one of its units
  for (std::size_t i = 0; i < u.size(); ++i) {
    Index most = u.supported[i] ? 1 : 0;
    for (Index const need : u.predecessors[i]) {
      bool const begins = u.supported[i] && !u.supported[need];
      most = (std::max)(most, static_cast<Index>(runs[need] + (begins ? 1 : 0)));
    }
    runs[i] = most;
    group[i] = static_cast<Index>(i);
    if (!u.supported[i]) continue;
    if (most > first.size()) first.push_back(group[i]);
    group[i] = first[most - 1];
  }
  return contracted_units(u, group);
}

/// A veto that accepts every group.
struct no_veto {
  template <class Nodes>
  bool operator()(Nodes const&) const {
    return false;
  }
};

/// Forms groups step by step. Used by `capability_groups`.
template <std::unsigned_integral Index, class Veto>
class capability_grouper {
 public:
  capability_grouper(basic_snapshot_arrays<Index> const& s, capability_options const& o, Veto& veto)
      : s_(s), o_(o), veto_(veto) {}

  /// Returns the fewest groups. Dropped groups may have separated others, so the remaining ones are merged
  /// once more.
  std::vector<fusion_group> fewest(std::vector<char> supported) {
    auto together = o_.together;
    tie_projections<Index>(s_, o_.projection, supported, together);
    auto const units = capability_units_of<Index>(s_, supported, together);
    auto const groups = groups_of(merge(units));
    auto kept = groups;
    std::erase_if(kept, [&](fusion_group const& g) { return is_dropped(g); });
    if (kept.size() == groups.size()) return groups;
    return accepted(groups_of(merge(with_groups(units, kept))), kept);
  }

  std::vector<fusion_group> by_merge_walk(std::vector<char> const& supported) {
    auto const units = capability_units_of<Index>(s_, supported, o_.together);
    auto groups = merge_walk<Index>(units.successors, units.supported).run(o_.along);
    for (auto& g : groups) {
      std::vector<std::size_t> nodes;
      for (auto const unit : g.nodes)
        nodes.insert(nodes.end(), units.members[unit].begin(), units.members[unit].end());
      std::sort(nodes.begin(), nodes.end());
      g.nodes = std::move(nodes);
    }
    move_projections<Index>(s_, o_.projection, groups);
    std::erase_if(groups, [&](fusion_group const& g) { return g.nodes.empty() || is_dropped(g); });
    return groups;
  }

 private:
  capability_units<Index> merge(capability_units<Index> const& u) const {
    return o_.along == fusion::horizontal ? fewest_groups(u) : connected_groups(u, o_.effort);
  }

  static std::vector<fusion_group> groups_of(capability_units<Index> const& u) {
    std::vector<fusion_group> groups;
    for (std::size_t i = 0; i < u.size(); ++i)
      if (u.supported[i]) groups.push_back({0, {u.members[i].begin(), u.members[i].end()}});
    return numbered(std::move(groups));
  }

  /// Numbers the groups in order of their first nodes.
  static std::vector<fusion_group> numbered(std::vector<fusion_group> groups) {
    std::sort(groups.begin(), groups.end(),
              [](fusion_group const& a, fusion_group const& b) { return a.nodes.front() < b.nodes.front(); });
    for (std::size_t i = 0; i < groups.size(); ++i) groups[i].id = i;
    return groups;
  }

  bool is_dropped(fusion_group const& g) {
    std::uint64_t size = o_.size.empty() ? g.nodes.size() : 0;
    for (auto const n : g.nodes) size += o_.size.empty() ? 0 : o_.size[n];
    return size < o_.least || veto_(std::span<std::size_t const>(g.nodes));
  }

  /// Returns `u` with one unit per group of `groups`, and no other unit supported.
  capability_units<Index> with_groups(capability_units<Index> u,
                                      std::vector<fusion_group> const& groups) const {
    std::vector<std::size_t> group_at(s_.nodes(), groups.size());
    for (std::size_t i = 0; i < groups.size(); ++i)
      for (auto const n : groups[i].nodes) group_at[n] = i;
    std::vector<Index> first(groups.size(), none<Index>), label(u.size());
    for (std::size_t i = 0; i < u.size(); ++i) {
      label[i] = static_cast<Index>(i);
      auto const group = group_at[u.members[i].front()];
      u.supported[i] = group < groups.size();
      if (!u.supported[i]) continue;
      if (first[group] == none<Index>) first[group] = label[i];
      label[i] = first[group];
    }
    return contracted_units(u, label);
  }

  /// Returns the accepted groups of `unions`. A rejected union is replaced by the `kept` groups that it
  /// consists of.
  std::vector<fusion_group> accepted(std::vector<fusion_group> unions,
                                     std::vector<fusion_group> const& kept) {
    std::vector<std::size_t> union_at(s_.nodes()), parts(unions.size());
    std::vector<char> vetoed(unions.size());
    for (std::size_t i = 0; i < unions.size(); ++i)
      for (auto const n : unions[i].nodes) union_at[n] = i;
    for (auto const& g : kept) ++parts[union_at[g.nodes.front()]];
    for (std::size_t i = 0; i < unions.size(); ++i)
      vetoed[i] = parts[i] > 1 && veto_(std::span<std::size_t const>(unions[i].nodes));
    std::vector<fusion_group> list;
    for (std::size_t i = 0; i < unions.size(); ++i)
      if (!vetoed[i]) list.push_back(std::move(unions[i]));
    for (auto const& g : kept)
      if (vetoed[union_at[g.nodes.front()]]) list.push_back(g);
    return numbered(std::move(list));
  }

  basic_snapshot_arrays<Index> const& s_;
  capability_options const& o_;
  Veto& veto_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Groups nodes that one device can run as a piece. As many `supported` nodes are grouped as the options
/// allow. No group depends on itself through other nodes, and no two groups can be merged. By default the
/// number of groups is the minimum, and they are in order of their first nodes. Dependencies are those of
/// `make_plan`. Replicable nodes count like any other node.
///
/// `veto(nodes)` is called for each group that is large enough, and again for groups merged from the
/// remaining ones. Groups for which it returns true are dropped. O(V + E) unless values must connect a group;
/// for that case see `connected_groups` and `merge_walk`.
///
/// \pre `supported` has an entry per node, and `veto` does not modify `s`.
/// \throws error if an option does not fit `s`.
template <std::unsigned_integral Index, class Veto = detail::no_veto>
std::vector<fusion_group> capability_groups(basic_snapshot_arrays<Index> const& s,
                                            std::vector<char> const& supported,
                                            capability_options const& o = {}, Veto veto = {}) {
  expects(supported.size() == s.nodes(), "an entry of `supported` for each node");
  if (auto const fault = detail::find_option_fault(o, s))
    detail::raise(error("capability_groups: " + *fault));
  detail::capability_grouper<Index, Veto> grouper(s, o, veto);
  return o.by == grouping::fewest ? grouper.fewest(supported) : grouper.by_merge_walk(supported);
}

/// Groups the nodes of a user's graph. `supports(node)` is called once per node, in order. `veto` receives
/// positions.
/// \throws the errors of `capability_groups` and `snapshot_of`
template <std::unsigned_integral Index = std::uint32_t, dataflow_graph Graph, class Supports,
          class Veto = detail::no_veto>
  requires std::predicate<Supports&, node_t<Graph>>
std::vector<fusion_group> capability_groups(Graph const& g, Supports supports,
                                            capability_options const& o = {}, Veto veto = {}) {
  std::vector<char> supported;
  for (auto n : g.nodes()) supported.push_back(supports(n) ? 1 : 0);
  return capability_groups(snapshot_of<Index>(g), supported, o, std::move(veto));
}

template <std::unsigned_integral Index = std::uint32_t, detail::unfinished_graph Graph, class Supports,
          class Veto = detail::no_veto>
detail::refused capability_groups(Graph const&, Supports const&, capability_options const& = {},
                                  Veto const& = {}) {
  detail::refuse_graph<Graph>();
}

}  // namespace cleave
