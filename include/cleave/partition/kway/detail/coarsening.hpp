// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/kway/detail/config.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/team.hpp"

namespace cleave::inline v0_2::detail {

/// The clusters of a level. Each becomes one node of the coarser level. Clusters are numbered by their first
/// members, so that neighbours in memory remain neighbours.
struct clustering {
  std::uint32_t clusters = 0;
  uninitialized_array<std::uint32_t> of;      ///< the cluster of each node, or `no_cluster`
  uninitialized_array<std::uint32_t> begin;   ///< start of each cluster in `member`; clusters + 1 entries
  uninitialized_array<std::uint32_t> member;  ///< nodes, cluster by cluster
};

/// The constraints and preferences of clustering.
struct cluster_rules {
  std::int64_t heaviest = 1;  ///< weight limit of a cluster
  std::vector<std::uint32_t> const*
      fixed;                       ///< nodes fixed to different parts are not clustered together; may be null
  std::uint32_t grain = 1u << 17;  ///< nodes in a range; each range is clustered on its own

  bool may_join(std::uint32_t a, std::uint32_t b) const {
    if (!fixed || fixed->empty()) return true;
    return (*fixed)[a] == no_block || (*fixed)[b] == no_block || (*fixed)[a] == (*fixed)[b];
  }
};

/// Numbers the clusters and lists their members. `leader[n]` is the smallest member of the cluster of n, or
/// `no_cluster`.
/// \pre No cluster crosses a range boundary.
inline clustering numbered_clusters(uninitialized_array<std::uint32_t> leader, id_ranges const& ranges,
                                    thread_team const& team) {
  clustering c;
  c.of = std::move(leader);
  std::vector<std::uint32_t> first_cluster(ranges.count() + 1, 0), first_member(ranges.count() + 1, 0);
  team.share(ranges.count(), [&](std::size_t r) {
    std::uint32_t clusters = 0, members = 0;
    for (auto n = ranges.begin(r); n < ranges.end(r); ++n) {
      if (c.of[n] == no_cluster) continue;
      ++members;
      c.of[n] = c.of[n] == n ? clusters++ : c.of[c.of[n]];  // the leader comes first and already holds the
                                                            // cluster number
    }
    first_cluster[r + 1] = clusters;
    first_member[r + 1] = members;
  });
  for (std::size_t r = 0; r < ranges.count(); ++r) {
    first_cluster[r + 1] += first_cluster[r];
    first_member[r + 1] += first_member[r];
  }
  c.clusters = first_cluster.back();
  c.begin = uninitialized_array<std::uint32_t>(std::size_t{c.clusters} + 1);
  c.member = uninitialized_array<std::uint32_t>(first_member.back());
  c.begin[c.clusters] = first_member.back();
  team.share(ranges.count(), [&](std::size_t r) {
    auto* const begin = c.begin.data() + first_cluster[r];
    auto const clusters = first_cluster[r + 1] - first_cluster[r];
    std::fill_n(begin, clusters, 0u);
    for (auto n = ranges.begin(r); n < ranges.end(r); ++n)
      if (c.of[n] != no_cluster) ++begin[c.of[n]];
    auto end = first_member[r];
    for (std::uint32_t i = 0; i < clusters; ++i) begin[i] = std::exchange(end, end + begin[i]);
    std::vector<std::uint32_t> next(begin, begin + clusters);
    for (auto n = ranges.begin(r); n < ranges.end(r); ++n) {
      if (c.of[n] == no_cluster) continue;
      c.member[next[c.of[n]]++] = n;
      c.of[n] += first_cluster[r];
    }
  });
  return c;
}

/// Contracts a clustering to the coarser level. It has one node per cluster; parallel edges are merged and
/// their weights added. An array remembers the last position of each neighbour, so no hashing is needed.
/// O(n + m).
class contraction {
 public:
  contraction(weighted_view const& g, clustering const& c) : g_(g), c_(c) {}

  level_graph graph(thread_team const& team) const { return graph(team, g_.width()); }

  /// Contracts with weights of the given width. \pre Sums of weights fit `width`.
  level_graph graph(thread_team const& team, weight_width width) const {
    return graph(team, width, width_for_edges(g_.directed_edges()));
  }

  /// Contracts with weights and offsets of the given widths. The remembered positions are forgotten each time
  /// they might exceed `most_positions`. \pre All offsets fit `offsets`, and there are at most
  /// `most_positions` clusters.
  level_graph graph(thread_team const& team, weight_width width, offset_width offsets,
                    std::uint32_t most_positions = 0xffffffff) const {
    level_graph coarse;
    coarse.nodes = c_.clusters;
    coarse.offsets = level_offsets(std::size_t{c_.clusters} + 1, offsets);
    coarse.targets = uninitialized_array<std::uint32_t>(g_.directed_edges());
    coarse.node_weights = level_weights(c_.clusters, width);
    coarse.edge_weights = level_weights(g_.directed_edges(), width);
    if (width == weight_width::narrow)
      merge_all<std::uint32_t>(coarse, team, most_positions);
    else
      merge_all<std::int64_t>(coarse, team, most_positions);
    if (g_.further.limits) add_further(coarse);
    return coarse;
  }

 private:
  /// Adds up the further weights of each cluster.
  void add_further(level_graph& coarse) const {
    auto const count = g_.further.count();
    coarse.limits = g_.further.limits;
    coarse.further = uninitialized_array<std::int64_t>::zeros(std::size_t{c_.clusters} * count);
    for (std::uint32_t i = 0; i < c_.clusters; ++i)
      for (auto at = c_.begin[i]; at < c_.begin[i + 1]; ++at)
        for (std::uint32_t w = 0; w < count; ++w)
          coarse.further[std::size_t{i} * count + w] += g_.further.of(c_.member[at])[w];
  }

  /// Merges ranges of rows in parallel, each into space for all of its directed edges, and then compacts
  /// them.
  template <class Weight>
  void merge_all(level_graph& coarse, thread_team const& team, std::uint32_t most_positions) const {
    bool const in_one = team.threads() == 1 || c_.clusters < 1u << 14;
    id_ranges const ranges{c_.clusters,
                           in_one ? (std::max)(c_.clusters, 1u) : c_.clusters / (4 * team.threads()) + 1};
    std::vector<std::uint64_t> place(ranges.count() + 1, 0), arcs(ranges.count() + 1, 0);
    if (ranges.count() > 1)
      team.share(ranges.count(), [&](std::size_t r) {
        for (auto at = c_.begin[ranges.begin(r)]; at < c_.begin[ranges.end(r)]; ++at)
          place[r + 1] += g_.degree(c_.member[at]);
      });
    for (std::size_t r = 0; r < ranges.count(); ++r) place[r + 1] += place[r];
    team.share(ranges.count(), [&](std::size_t r) {
      arcs[r + 1] = merge<Weight>(ranges.begin(r), ranges.end(r), coarse, place[r], most_positions);
    });
    for (std::size_t r = 0; r < ranges.count(); ++r) arcs[r + 1] += arcs[r];
    coarse.offsets.set(c_.clusters, arcs.back());
    if (ranges.count() == 1) {
      coarse.targets.shrink(arcs.back());
      coarse.edge_weights.shrink(arcs.back());
      return;
    }
    team.share(ranges.count(), [&](std::size_t r) {
      for (auto i = ranges.begin(r); i < ranges.end(r); ++i)
        coarse.offsets.set(i, coarse.offsets[i] - (place[r] - arcs[r]));
    });
    coarse.targets = contracted_targets(coarse.targets, place, arcs, team);
    auto& weights = coarse.edge_weights.array<Weight>();
    weights = contracted_targets(weights, place, arcs, team);
  }

  /// Copies the used elements of pieces that begin at `from` to their final positions `to`.
  template <class T>
  static uninitialized_array<T> contracted_targets(uninitialized_array<T> const& pieces,
                                                   std::vector<std::uint64_t> const& from,
                                                   std::vector<std::uint64_t> const& to,
                                                   thread_team const& team) {
    uninitialized_array<T> all(to.back());
    team.share(from.size() - 1, [&](std::size_t r) {
      std::copy_n(pieces.data() + from[r], to[r + 1] - to[r], all.data() + to[r]);
    });
    return all;
  }

  /// Writes the rows and weights of the clusters in [lo, hi), the first directed edge at `begin`. Returns the
  /// number of directed edges.
  template <class Weight>
  std::uint64_t merge(std::uint32_t lo, std::uint32_t hi, level_graph& coarse, std::uint64_t begin,
                      std::uint32_t most_positions) const {
    auto last = uninitialized_array<std::uint32_t>::zeros(c_.clusters);  // last position of each neighbour
                                                                         // after `base`, plus 1
    auto base = begin;
    auto* head = coarse.targets.data() + base;
    auto* weight = coarse.edge_weights.array<Weight>().data() + base;
    auto const* const of = c_.of.data();
    auto const edge_weights = g_.edge_weights;
    std::uint32_t end = 0;  // after `base`
    for (auto i = lo; i < hi; ++i) {
      if (end > most_positions - c_.clusters) {  // a row may be longer than what is left
        std::fill_n(last.data(), c_.clusters, 0u);
        base += end, head += end, weight += end;
        end = 0;
      }
      auto const row = end;
      coarse.offsets.set(i, base + row);
      std::int64_t sum = 0;
      for (auto at = c_.begin[i]; at < c_.begin[i + 1]; ++at) {
        auto const n = c_.member[at];
        sum += g_.weight(n);
        for (auto e = g_.offsets[n], stop = g_.offsets[n + 1]; e < stop; ++e) {
          auto const other = of[g_.targets[e]];
          if (other == i) continue;
          auto const place = last[other];
          auto const w = static_cast<Weight>(edge_weights[e]);
          if (place > row) {
            weight[place - 1] += w;
          } else {
            head[end] = other;
            weight[end] = w;
            last[other] = ++end;
          }
        }
      }
      coarse.node_weights.array<Weight>()[i] = static_cast<Weight>(sum);
    }
    return base + end - begin;
  }

  weighted_view const& g_;
  clustering const& c_;
};

/// Clusters by size-constrained label propagation: in each round, every node joins the neighbouring cluster
/// to which its edges weigh most, if it has room. O(rounds * (n + m)). Meyerhenke, Sanders, Schulz, SEA 2014,
/// section 4.
template <class Sum>
class label_clustering {
 public:
  label_clustering(weighted_view const& g, cluster_rules const& rules)
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
    std::vector<std::uint32_t> waiting(hi - lo, no_block);
    match_two_hop(nearby, waiting);
    choose_leaders(lo, hi, waiting);
  }

  /// The connectivity of one node to the labels of a range. All weights are zero between two nodes.
  struct near_labels {
    near_labels(std::uint32_t begin, std::uint32_t end)
        : lo(begin),
          hi(end),
          weight(uninitialized_array<Sum>::zeros(end - begin)),
          seen(std::size_t{end} - begin + 1) {}

    std::uint32_t lo, hi;
    uninitialized_array<Sum> weight;          // by label - `lo`
    uninitialized_array<std::uint32_t> seen;  // labels with weight; the first `count` entries
    std::uint32_t count = 0;
  };

  void count_labels(std::uint32_t n, near_labels& nearby) const {
    auto const* const label_of = label_.data();
    auto* const weight = nearby.weight.data();
    auto* const seen = nearby.seen.data();
    auto const edge_weights = g_.edge_weights;
    auto const lo = nearby.lo, size = nearby.hi - nearby.lo;
    std::uint32_t count = 0;
    for (auto e = g_.offsets[n], stop = g_.offsets[n + 1]; e < stop; ++e) {
      auto const other = g_.targets[e];
      if (other - lo >= size) continue;
      auto const label = label_of[other];
      seen[count] = label;
      auto const w = static_cast<Sum>(edge_weights[e]);
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
      if (connection == most && (best == own || weight_[label] >= weight_[best])) continue;
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

  /// Returns true if every node ever in the cluster is free or fixed to the same part as `n`.
  bool may_take(std::uint32_t label, std::uint32_t n) const {
    if (bound_.empty()) return true;
    auto const part = (*rules_.fixed)[n];
    return part == no_block || bound_[label] == no_block || bound_[label] == part;
  }
  void bind(std::uint32_t label, std::uint32_t n) {
    if (!bound_.empty() && (*rules_.fixed)[n] != no_block) bound_[label] = (*rules_.fixed)[n];
  }

  /// Two-hop clustering: joins singletons that prefer the same cluster, which has no room for them.
  void match_two_hop(near_labels& nearby, std::vector<std::uint32_t>& waiting) {
    auto const lo = nearby.lo;
    for (auto n = lo; n < nearby.hi; ++n) {
      if (label_[n] != n || weight_[n] != static_cast<Sum>(g_.weight(n)) || g_.degree(n) == 0) continue;
      count_labels(n, nearby);
      auto favourite = no_block;
      Sum most = 0;
      for (std::uint32_t i = 0; i < nearby.count; ++i) {
        auto const label = nearby.seen[i];
        auto const connection = std::exchange(nearby.weight[label - lo], Sum{0});
        if (connection > most) most = connection, favourite = label;
      }
      if (favourite == no_block) continue;
      auto& other = waiting[favourite - lo];
      if (other != no_block && other != n && weight_[other] + weight_[n] <= heaviest_ && may_take(other, n)) {
        weight_[other] += weight_[n];
        weight_[n] = 0;
        bind(other, n);
        label_[n] = other;
      } else {
        other = n;
      }
    }
  }

  /// Makes the first member of each cluster its leader. The label may name a node that has left.
  void choose_leaders(std::uint32_t lo, std::uint32_t hi, std::vector<std::uint32_t>& first) {
    std::fill(first.begin(), first.end(), no_block);
    for (auto n = lo; n < hi; ++n) {
      if (g_.degree(n) == 0) {
        label_[n] = no_cluster;
        continue;
      }
      auto& lead = first[label_[n] - lo];
      if (lead == no_block) lead = n;
      label_[n] = lead;
    }
  }

  weighted_view const& g_;
  cluster_rules const& rules_;
  Sum heaviest_;
  uninitialized_array<std::uint32_t> label_;
  uninitialized_array<Sum> weight_;
  uninitialized_array<std::uint32_t> bound_;  // part of each cluster's fixed nodes; empty if no node is fixed
};

/// One level of the hierarchy, with its mapping from the next finer level.
struct level_above {
  level_graph graph;
  uninitialized_array<std::uint32_t>
      cluster_of;                    ///< for each node of the finer level: its node here, or `no_cluster`
  std::vector<std::uint32_t> fixed;  ///< the part of each fixed node here, or `no_block`; may be empty
};

/// Builds the levels of the hierarchy by repeated contraction until a level is small or hardly shrinks any
/// more.
class level_hierarchy {
 public:
  level_hierarchy(std::uint32_t parts, kway_config const& config, thread_team const& team)
      : target_((std::max)(config.least_nodes, config.nodes_a_part * parts)), config_(config), team_(team) {}

  std::vector<level_above> above(weighted_view const& g, std::vector<std::uint32_t> const& fixed) {
    std::vector<level_above> levels;
    total_ = 0;
    for (std::uint32_t n = 0; n < g.nodes; ++n) total_ += g.weight(n);
    width_ = width_of(g);
    heaviest_ = std::max<std::int64_t>(1, total_ / (2 * std::int64_t{target_}) * 3);
    if (g.nodes <= target_ || !add(levels, g, fixed)) return levels;
    while (levels.back().graph.nodes > target_)
      if (!add(levels, levels.back().graph.view(), levels.back().fixed)) break;
    return levels;
  }

 private:
  bool add(std::vector<level_above>& levels, weighted_view const& g,
           std::vector<std::uint32_t> const& fixed) {
    auto const level_cap = total_ / std::max<std::int64_t>(1, g.nodes) * std::int64_t{config_.shrink};
    cluster_rules rules{.heaviest = (std::min)(heaviest_, std::max<std::int64_t>(level_cap, 1)),
                        .fixed = &fixed};
    rules.grain = grain_for(g.nodes);
    if (local_share(g, rules.grain) < 0.8) rules.grain = g.nodes;
    auto c = clusters(g, rules);
    if (c.clusters > g.nodes - g.nodes / 20) return false;
    level_above next;
    next.graph = contraction(g, c).graph(team_, width_);
    if (!fixed.empty()) {
      next.fixed.assign(c.clusters, no_block);
      for (std::uint32_t n = 0; n < g.nodes; ++n)
        if (fixed[n] != no_block && c.of[n] != no_cluster) next.fixed[c.of[n]] = fixed[n];
    }
    next.cluster_of = std::move(c.of);
    levels.push_back(std::move(next));
    return true;
  }

  /// Returns the width that holds the weights of all coarser levels.
  weight_width width_of(weighted_view const& g) const {
    if (g.width() == weight_width::narrow) return weight_width::narrow;
    auto arcs = g.edge_weights.all_one() ? static_cast<std::int64_t>(g.directed_edges()) : 0;
    for (std::uint64_t e = 0; e < g.directed_edges() && !g.edge_weights.all_one(); ++e)
      arcs += g.edge_weight(e);
    return (std::max)(arcs, total_) <= 0xffffffff ? weight_width::narrow : weight_width::wide;
  }

  /// Returns the nodes per range: about 2^17. The number of ranges is even, so that two threads finish at the
  /// same time.
  static std::uint32_t grain_for(std::uint32_t nodes) {
    constexpr std::uint32_t about = 1u << 17;
    if (nodes <= about) return about;
    auto const ranges = 2 * ((nodes - 1) / (2 * about) + 1);
    return (nodes - 1) / ranges + 1;
  }

  /// Estimates the fraction of directed edges with both ends in the same range, from a sample of nodes.
  static double local_share(weighted_view const& g, std::uint32_t grain) {
    std::uint64_t inside = 0, arcs = 0;
    auto const step = std::max<std::uint64_t>(37, g.nodes / 4096);
    for (std::uint64_t n = 0; n < g.nodes && g.nodes > grain; n += step) {
      auto const node = static_cast<std::uint32_t>(n);
      for (auto e = g.offsets[node], stop = g.offsets[node + 1]; e < stop; ++e)
        inside += g.targets[e] / grain == node / grain;
      arcs += g.degree(node);
    }
    return arcs == 0 ? 1 : static_cast<double>(inside) / static_cast<double>(arcs);
  }

  clustering clusters(weighted_view const& g, cluster_rules const& rules) const {
    if (width_ == weight_width::narrow)
      return label_clustering<std::uint32_t>(g, rules).clusters(config_.label_rounds, team_);
    return label_clustering<std::int64_t>(g, rules).clusters(config_.label_rounds, team_);
  }

  std::uint32_t target_;
  kway_config config_;
  thread_team const& team_;
  std::int64_t total_ = 0, heaviest_ = 1;
  weight_width width_ = weight_width::wide;
};

}  // namespace cleave::detail
