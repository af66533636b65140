// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/random.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/classic/detail/gain_bucket_lists.hpp"
#include "cleave/partition/classic/detail/integral_graph.hpp"
#include "cleave/partition/classic/measured_partition.hpp"
#include "cleave/partition/classic/part_targets.hpp"

namespace cleave::inline v0_2::detail {

/// Tie-breaking between labels to which the edges of a node weigh the same.
enum class label_tie_breaking : std::uint8_t {
  any,     ///< one at random
  lighter  ///< a different label only if it is lighter than the current one even with the node added
};

/// Size-constrained label propagation. In random order, each node adopts the label to which its edges weigh
/// most, among labels with room for it.
class label_walk {
 public:
  label_walk(integral_graph const& g, std::vector<std::uint32_t> label, std::vector<std::int64_t> most,
             label_tie_breaking tie, std::uint64_t seed)
      : g_(g),
        label_(std::move(label)),
        most_(std::move(most)),
        tie_(tie),
        weight_(most_.size()),
        nodes_(most_.size()),
        edges_(most_.size()),
        dice_(seed) {
    for (std::uint32_t n = 0; n < g.nodes(); ++n) {
      weight_[label_[n]] += g.node_weight[n];
      ++nodes_[label_[n]];
    }
    order_.resize(g.nodes());
    std::iota(order_.begin(), order_.end(), 0u);
  }

  /// Runs at most `rounds` rounds, until less than 1 % of the nodes move. Labels keep at least `fewest`
  /// nodes.
  std::vector<std::uint32_t> run(std::size_t rounds, std::uint32_t fewest) {
    for (std::size_t moved = g_.nodes(); rounds-- > 0 && moved > 0 && moved * 100 >= g_.nodes();) {
      dice_.shuffle(order_);
      moved = 0;
      for (auto const n : order_) {
        if (nodes_[label_[n]] <= fewest) continue;
        auto const to = best_label(n);
        if (to == label_[n]) continue;
        move(n, to);
        ++moved;
      }
    }
    return std::move(label_);
  }

 private:
  // Returns the current label unless another is better. An overweight label gives nodes away at any loss.
  std::uint32_t best_label(std::uint32_t n) {
    auto const own = label_[n];
    auto const w = g_.node_weight[n];
    bool const must_go = weight_[own] > most_[own];
    near_.clear();
    g_.each_neighbour(n, [&](std::uint32_t to, std::int64_t edge) {
      if (edges_[label_[to]] == 0) near_.push_back(label_[to]);
      edges_[label_[to]] += edge;
    });
    auto best = own;
    std::int64_t best_edges = must_go ? -1 : edges_[own];
    std::size_t alike = 1;
    for (auto const l : near_) {
      if (l == own || weight_[l] + w > most_[l] || edges_[l] < best_edges) continue;
      alike = edges_[l] > best_edges ? 1 : alike + 1;
      if (alike > 1 &&
          (tie_ == label_tie_breaking::any ? !is_chosen(alike) : weight_[l] + w >= weight_[best]))
        continue;
      best = l;
      best_edges = edges_[l];
    }
    for (auto const l : near_) edges_[l] = 0;
    if (must_go && best == own) best = roomiest(n);
    return best;
  }

  bool is_chosen(std::size_t of) { return dice_.below(of) == 0; }

  std::uint32_t roomiest(std::uint32_t n) const {
    auto best = label_[n];
    for (std::uint32_t l = 0; l < most_.size(); ++l)
      if (weight_[l] + g_.node_weight[n] <= most_[l] &&
          (best == label_[n] || most_[l] - weight_[l] > most_[best] - weight_[best]))
        best = l;
    return best;
  }

  void move(std::uint32_t n, std::uint32_t to) {
    weight_[label_[n]] -= g_.node_weight[n];
    --nodes_[label_[n]];
    label_[n] = to;
    weight_[to] += g_.node_weight[n];
    ++nodes_[to];
  }

  integral_graph const& g_;
  std::vector<std::uint32_t> label_, order_, near_;
  std::vector<std::int64_t> most_;
  label_tie_breaking tie_;
  std::vector<std::int64_t> weight_;
  std::vector<std::uint32_t> nodes_;
  std::vector<std::int64_t> edges_;  // weights of the edges from the current node to each label
  splitmix dice_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Options of `label_clusters`.
struct label_options {
  double most_weight = 0;   ///< maximum weight of a cluster, in the unit of the graph; 0: no limit
  std::size_t rounds = 10;  ///< at most
  std::uint64_t seed = 1;
};

/// Clusters nodes by label propagation. Each node starts as its own cluster and joins the cluster to which
/// its edges weigh most. Raghavan, Albert and Kumara, Physical Review E 76, 2007. The size limit follows
/// Meyerhenke, Sanders and Schulz, SEA 2014. Clusters are returned as parts, numbered by their first nodes.
/// O(n + m) per round.
/// \throws error if the limit is negative or NaN, adjacency_error.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
measured_partition label_clusters(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                  label_options const& o = {}) {
  if (!(o.most_weight >= 0)) throw error("label_clusters: most_weight must not be negative or NaN");
  auto const copy = detail::integral_graph_of(g);
  auto const unit = detail::exact_unit(g.node_weight);
  auto most = copy.total();
  if (o.most_weight > 0 && o.most_weight < unit.value(most))
    most = static_cast<std::int64_t>(o.most_weight * detail::power_of_two(unit.exponent));
  std::vector<std::uint32_t> alone(copy.nodes());
  std::iota(alone.begin(), alone.end(), 0u);
  std::vector<std::int64_t> limits(alone.size());
  for (std::size_t n = 0; n < limits.size(); ++n) limits[n] = (std::max)(most, copy.node_weight[n]);
  auto label =
      detail::label_walk(copy, std::move(alone), std::move(limits), detail::label_tie_breaking::any, o.seed)
          .run(o.rounds, 0);
  std::vector<std::uint32_t> number(label.size(), detail::no_node);
  std::uint32_t clusters = 0;
  for (auto& l : label) l = number[l] = number[l] == detail::no_node ? clusters++ : number[l];
  return measured(g, partition_of(label, clusters));
}

/// Options of `refine_by_labels`.
struct label_refine_options {
  share_options weights{};
  std::size_t rounds = 10;  ///< at most
  std::uint64_t seed = 1;
};

/// Refines a partition by label propagation with parts as labels. The cut never grows unless a part of
/// `start` exceeds its limit. Overweight is reduced to the extent that single moves into parts with room can.
/// No part becomes empty. O(n + m) per round, plus O(k) for each node that must move and has no neighbouring
/// part with room.
/// \throws error if `start` or the options do not fit the graph, adjacency_error.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
measured_partition refine_by_labels(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                    partition const& start, label_refine_options const& o = {}) {
  auto const copy = detail::integral_graph_of(g);
  detail::check_start(start, copy.nodes());
  if (start.of.empty()) return measured(g, start);
  auto targets = detail::targets_of(copy.total(), start.parts, o.weights);
  std::vector<std::uint32_t> of;
  for (auto const p : start.of) of.push_back(index(p));
  return measured(g, partition_of(detail::label_walk(copy, std::move(of), std::move(targets.most),
                                                     detail::label_tie_breaking::lighter, o.seed)
                                      .run(o.rounds, 1),
                                  start.parts));
}

}  // namespace cleave
