// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/kway/clusters.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/team.hpp"

namespace cleave::detail {

/// Size-constrained label propagation: in rounds, each node moves to the cluster that it is most connected
/// with, as long as it has room. O(rounds * (n + m)). Meyerhenke, Sanders, Schulz, SEA 2014, §4.
template <class Level, class Sum = std::int64_t>
class label_clustering {
 public:
  label_clustering(Level const& g, cluster_rules const& rules)
      : g_(g),
        rules_(rules),
        heaviest_(static_cast<Sum>(rules.heaviest)),
        label_(g.nodes),
        weight_(g.nodes),
        bound_(rules.fixed && !rules.fixed->empty() ? g.nodes : 0) {}

  clustering clusters(std::uint32_t rounds, thread_team const& team) {
    id_ranges const ranges{g_.nodes, rules_.grain};
    team.share(ranges.count(), [&](std::size_t r) { propagate(rounds, ranges.begin(r), ranges.end(r)); });
    weight_ = {};
    return numbered_clusters(std::move(label_), ranges, team);
  }

 private:
  void propagate(std::uint32_t rounds, std::uint32_t lo, std::uint32_t hi) {
    near_labels nearby(lo, hi);
    for (auto n = lo; n < hi; ++n) {
      label_[n] = n;
      weight_[n] = static_cast<Sum>(g_.weight(n));
      if (!bound_.empty()) bound_[n] = (*rules_.fixed)[n];
    }
    for (std::uint32_t round = 0; round < rounds; ++round) {
      std::uint32_t moved = 0;
      for (auto n = lo; n < hi; ++n) moved += move_node(n, nearby);
      if (moved <= (hi - lo) / 64) break;
    }
    std::vector<std::uint32_t> waiting(hi - lo, free_node);
    join_two_hops(nearby, waiting);
    choose_leaders(lo, hi, waiting);
  }

  /// What ties one node at a time to the labels of a range. All weights are zero between the nodes.
  struct near_labels {
    near_labels(std::uint32_t begin, std::uint32_t end)
        : lo(begin),
          hi(end),
          weight(raw_array<Sum>::zeros(end - begin)),
          seen(std::size_t{end} - begin + 1) {}

    std::uint32_t lo, hi;
    raw_array<Sum> weight;          // by label, from `lo` on
    raw_array<std::uint32_t> seen;  // labels, `count` of them
    std::uint32_t count = 0;
  };

  void count_labels(std::uint32_t n, near_labels& nearby) const {
    auto const* const label_of = label_.data();
    auto* const weight = nearby.weight.data();
    auto* const seen = nearby.seen.data();
    auto const arc_weights = g_.arc_weights;
    auto const lo = nearby.lo, size = nearby.hi - nearby.lo;
    std::uint32_t count = 0;
    for (auto arc = g_.first[n], stop = g_.first[n + 1]; arc < stop; ++arc) {
      auto const other = g_.head[arc];
      if (other - lo >= size) continue;
      auto const label = label_of[other];
      seen[count] = label;
      auto const w = static_cast<Sum>(arc_weights[arc]);
      count += (weight[label - lo] == 0) & (w != 0);
      weight[label - lo] += w;
    }
    nearby.count = count;
  }

  bool move_node(std::uint32_t n, near_labels& nearby) {
    count_labels(n, nearby);
    auto const lo = nearby.lo;
    auto const own = label_[n];
    auto best = own;
    Sum most = nearby.weight[own - lo];
    auto const w = static_cast<Sum>(g_.weight(n));
    for (std::uint32_t i = 0; i < nearby.count; ++i) {
      auto const label = nearby.seen[i];
      auto const connection = std::exchange(nearby.weight[label - lo], Sum{0});
      if (label == own || connection < most) continue;
      if (connection == most && (best == own || !preferred(label, best))) continue;
      if (weight_[label] + w > heaviest_ || !may_take(label, n)) continue;
      best = label;
      most = connection;
    }
    if (best == own) return false;
    weight_[own] -= w;
    weight_[best] += w;
    bind(best, n);
    label_[n] = best;
    return true;
  }

  /// Whether no node of a cluster is, or was, bound to another part than `n`.
  bool may_take(std::uint32_t label, std::uint32_t n) const {
    if (bound_.empty()) return true;
    auto const part = (*rules_.fixed)[n];
    return part == free_node || bound_[label] == free_node || bound_[label] == part;
  }
  void bind(std::uint32_t label, std::uint32_t n) {
    if (!bound_.empty() && (*rules_.fixed)[n] != free_node) bound_[label] = (*rules_.fixed)[n];
  }

  bool preferred(std::uint32_t label, std::uint32_t other) const {
    return rules_.tie == cluster_tie::heavier ? weight_[label] > weight_[other]
                                              : weight_[label] < weight_[other];
  }

  /// Nodes that remained alone join others that favour the same cluster, which has no room for them.
  void join_two_hops(near_labels& nearby, std::vector<std::uint32_t>& waiting) {
    auto const lo = nearby.lo;
    for (auto n = lo; n < nearby.hi; ++n) {
      if (label_[n] != n || weight_[n] != static_cast<Sum>(g_.weight(n)) || g_.degree(n) == 0) continue;
      count_labels(n, nearby);
      auto favourite = free_node;
      Sum most = 0;
      for (std::uint32_t i = 0; i < nearby.count; ++i) {
        auto const label = nearby.seen[i];
        auto const connection = std::exchange(nearby.weight[label - lo], Sum{0});
        if (connection > most) most = connection, favourite = label;
      }
      if (favourite == free_node) continue;
      auto& other = waiting[favourite - lo];
      if (other != free_node && other != n && weight_[other] + weight_[n] <= heaviest_ &&
          may_take(other, n)) {
        weight_[other] += weight_[n];
        weight_[n] = 0;
        bind(other, n);
        label_[n] = other;
      } else {
        other = n;
      }
    }
  }

  /// Labels name nodes that may have left; the first member in id order leads.
  void choose_leaders(std::uint32_t lo, std::uint32_t hi, std::vector<std::uint32_t>& first) {
    std::fill(first.begin(), first.end(), free_node);
    for (auto n = lo; n < hi; ++n) {
      if (g_.degree(n) == 0) {
        label_[n] = no_cluster;
        continue;
      }
      auto& lead = first[label_[n] - lo];
      if (lead == free_node) lead = n;
      label_[n] = lead;
    }
  }

  Level const& g_;
  cluster_rules const& rules_;
  Sum heaviest_;
  raw_array<std::uint32_t> label_;
  raw_array<Sum> weight_;
  raw_array<std::uint32_t> bound_;  // the part that a cluster is bound to; empty where nothing is fixed
};

}  // namespace cleave::detail
