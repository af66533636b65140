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
#include "cleave/graph/check_rungs.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/groups/capability_options.hpp"
#include "cleave/partition/groups/capability_units.hpp"
#include "cleave/partition/groups/connected_groups.hpp"
#include "cleave/partition/groups/fewest_groups.hpp"
#include "cleave/partition/groups/fusion_group.hpp"
#include "cleave/partition/groups/merge_walk.hpp"
#include "cleave/partition/groups/projections.hpp"

namespace cleave::detail {

/// Accepts every group.
struct no_veto {
  template <class Nodes>
  bool operator()(Nodes const&) const {
    return false;
  }
};

/// Forms groups step by step; `capability_groups` is its one use.
template <std::unsigned_integral Index, class Veto>
class capability_grouper {
 public:
  capability_grouper(basic_dense<Index> const& s, capability_options const& o, Veto& veto)
      : s_(s), o_(o), veto_(veto) {}

  /// Groups; those that are dropped may have stood between others, so what is kept is merged once more.
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
    auto groups = merge_walk<Index>(units.needed_by, units.supported).run(o_.along);
    for (auto& g : groups) {
      std::vector<std::size_t> nodes;
      for (auto const unit : g.nodes)
        nodes.insert(nodes.end(), units.members[unit].begin(), units.members[unit].end());
      std::ranges::sort(nodes);
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

  /// By their first nodes.
  static std::vector<fusion_group> numbered(std::vector<fusion_group> groups) {
    std::ranges::sort(groups, {}, [](fusion_group const& g) { return g.nodes.front(); });
    for (std::size_t i = 0; i < groups.size(); ++i) groups[i].id = i;
    return groups;
  }

  bool is_dropped(fusion_group const& g) {
    std::uint64_t size = o_.size.empty() ? g.nodes.size() : 0;
    for (auto const n : g.nodes) size += o_.size.empty() ? 0 : o_.size[n];
    return size < o_.least || veto_(std::span<std::size_t const>(g.nodes));
  }

  /// `u` with a unit for each of `groups` and nothing else supported.
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

  /// `unions` of `kept` groups, or what they are made of where one is not accepted.
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

  basic_dense<Index> const& s_;
  capability_options const& o_;
  Veto& veto_;
};

}  // namespace cleave::detail

namespace cleave {

/// Groups of nodes that one device can run as a piece: of the nodes that are `supported` as many as the
/// options allow are in a group, no group needs itself through others or through nodes in none, and no two
/// can be merged. By default there are no more groups than any such grouping must have, in the order of their
/// first nodes. Needs count as they do for `make_plan`; replicable nodes count like any other.
///
/// `veto(nodes)` is asked of each group that counts enough, and again where what is left is merged; one that
/// it rejects is dropped. O(V + E) where values need not connect a group; see `connected_groups` and
/// `merge_walk` for the others.
///
/// Preconditions: an entry of `supported` a node; `s` is not changed by `veto`.
/// \throws error where options make no sense for `s`.
template <std::unsigned_integral Index, class Veto = detail::no_veto>
std::vector<fusion_group> capability_groups(basic_dense<Index> const& s, std::vector<char> const& supported,
                                            capability_options const& o = {}, Veto veto = {}) {
  expects(supported.size() == s.nodes(), "an entry of `supported` for each node");
  if (auto const fault = detail::find_option_fault(o, s)) throw error("capability_groups: " + *fault);
  detail::capability_grouper<Index, Veto> grouper(s, o, veto);
  return o.by == grouping::fewest ? grouper.fewest(supported) : grouper.by_merge_walk(supported);
}

/// The same of a graph. `supports(node)` is asked once for each node, in order; `veto` is given positions.
/// \throws what snapshot_of throws.
template <dataflow_graph Graph, class Supports, class Veto = detail::no_veto>
  requires std::predicate<Supports&, node_t<Graph>>
std::vector<fusion_group> capability_groups(Graph const& g, Supports supports,
                                            capability_options const& o = {}, Veto veto = {}) {
  std::vector<char> supported;
  for (auto n : g.nodes()) supported.push_back(supports(n) ? 1 : 0);
  return detail::with_snapshot(g, [&](auto const& s) { return capability_groups(s, supported, o, std::move(veto)); });
}

template <detail::unfinished_graph Graph, class Supports, class Veto = detail::no_veto>
detail::refused capability_groups(Graph const&, Supports const&, capability_options const& = {}, Veto const& = {}) {
  detail::refuse_graph<Graph>();
}

}  // namespace cleave
