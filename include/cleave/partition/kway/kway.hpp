// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/graph/neighbours.hpp"
#include "cleave/partition/kway/detail/engine.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/several_weights.hpp"
#include "cleave/partition/kway/detail/task.hpp"
#include "cleave/partition/kway/detail/team.hpp"
#include "cleave/partition/kway/options.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::inline v0_2 {

/// The balance of a partition in one of `further_weights`.
struct further_balance {
  std::vector<double> part_weights{};  ///< of each part
  double imbalance = 0;                ///< largest excess of a part over its share
};

/// A partition of an undirected graph, with its cut and balance.
template <weight_number NodeWeight = std::int64_t, weight_number EdgeWeight = NodeWeight>
struct kway_partition : partition {
  weight_total<EdgeWeight> cut{};                        ///< weight of the edges between parts, each edge
                                                         ///< counted once
  std::vector<weight_total<NodeWeight>> part_weights{};  ///< total node weight of each part
  double imbalance = 0;                    ///< largest excess of a part over its share: 0.03 is 3 %
  std::vector<further_balance> further{};  ///< for each of `kway_options::further_weights`
  bool within_limits = true;               ///< false if no partition within the weight limits was found
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown if the given partition does not fit the graph. `witness` is the first node without a valid part, or
/// the number of entries if that differs from the number of nodes.
using kway_start_error = tagged_error<struct kway_start_tag, std::size_t>;

/// Returns the balance of a partition in a further weight.
inline further_balance balance_of(partition const& p, further_weight const& w) {
  auto const unit = unit_of(w.of);
  std::vector<std::int64_t> sum(p.parts, 0);
  std::int64_t total = 0;
  for (std::size_t n = 0; n < p.of.size(); ++n) {
    sum[index(p.of[n])] += unit.of(w.of[n]);
    total += unit.of(w.of[n]);
  }
  auto const fair = fair_weights(total, p.parts, w.share);
  further_balance result;
  for (std::uint32_t part = 0; part < p.parts; ++part) {
    result.part_weights.push_back(unit.value(sum[part]));
    if (fair[part] > 0)
      result.imbalance =
          (std::max)(result.imbalance, static_cast<double>(sum[part]) / static_cast<double>(fair[part]) - 1);
  }
  return result;
}

/// Computes cut, part weights and imbalance in the user's units.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
kway_partition<NodeWeight, EdgeWeight> weighed_parts(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                                     partition p, kway_options const& options) {
  kway_partition<NodeWeight, EdgeWeight> result;
  static_cast<partition&>(result) = std::move(p);
  result.part_weights.assign(result.parts, 0);
  struct sums {
    weight_total<EdgeWeight> cut{};
    std::vector<weight_total<NodeWeight>> weight{};
  };
  id_ranges const ranges{static_cast<std::uint32_t>(g.nodes()), 1u << 16};
  std::vector<sums> piece(ranges.count());
  thread_team(options.threads).share(ranges.count(), [&](std::size_t r) {
    sums s{0, std::vector<weight_total<NodeWeight>>(result.parts, 0)};
    for (std::size_t n = ranges.begin(r); n < ranges.end(r); ++n) {
      auto const own = result.of[n];
      s.weight[index(own)] += static_cast<weight_total<NodeWeight>>(g.weight(n));
      for (auto e = static_cast<std::size_t>(g.offsets[n]); e < static_cast<std::size_t>(g.offsets[n + 1]);
           ++e)
        if (auto const to = static_cast<std::size_t>(g.targets[e]); to > n && result.of[to] != own)
          s.cut += static_cast<weight_total<EdgeWeight>>(g.weight_of_edge(e));
    }
    piece[r] = std::move(s);
  });
  weight_total<NodeWeight> total = 0;
  for (auto const& s : piece) {
    result.cut += s.cut;
    for (std::uint32_t part = 0; part < result.parts; ++part) {
      result.part_weights[part] += s.weight[part];
      total += s.weight[part];
    }
  }
  auto const fair = fair_weights(total, result.parts, options);
  for (std::uint32_t part = 0; part < result.parts; ++part)
    if (fair[part] > 0)
      result.imbalance =
          (std::max)(result.imbalance,
                     static_cast<double>(result.part_weights[part]) / static_cast<double>(fair[part]) - 1);
  for (auto const& w : options.further_weights) result.further.push_back(balance_of(result, w));
  return result;
}

/// Partitions a graph that has been checked. Improves `start` if it is not empty. `loops` is the number of
/// self-loops.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
kway_partition<NodeWeight, EdgeWeight> partition_or_refine(
    adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g, std::uint32_t k,
    std::vector<std::uint32_t> start, kway_options const& options, std::size_t loops) {
  auto const flat = make_flat(g, loops);
  kway_problem task{flat, {}, {}, std::move(start), options};
  auto const fair = fair_weights(flat.node_total, k, options);
  task.limit = weight_limits(flat, fair, options);
  for (auto const part : options.fixed) task.fixed.push_back(part == no_part ? no_block : index(part));
  partition p{.of = {}, .parts = k};
  bool within = true;
  if (k == 1 || flat.nodes == 0) {
    p.of.assign(flat.nodes, part_id{0});
  } else {
    auto const parts = kway_parts(std::move(task));
    p.of.resize(flat.nodes);
    id_ranges const ranges{flat.nodes, 1u << 16};
    thread_team(options.threads).share(ranges.count(), [&](std::size_t r) {
      for (auto n = ranges.begin(r); n < ranges.end(r); ++n) p.of[n] = part_id{parts.of[n]};
    });
    within = parts.within_limits;
  }
  auto result = weighed_parts(g, std::move(p), options);
  result.within_limits = within;
  return result;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Partitions an undirected graph of n nodes and m edges into k parts with a small cut.
///
/// No part weighs more than (1 + imbalance) times its share of the total node weight. For integer weights,
/// the share is rounded up. A limit is raised only where a single node, or the nodes fixed to a part, are too
/// heavy for it. No part is empty if there are enough nodes and all shares are equal.
///
/// For a given seed, the result is the same with any number of threads and any compiler.
/// Complexity: O((n + m) * log k).
///
/// \param g        the graph in CSR form; each edge appears in the rows of both of its ends
/// \param k        number of parts, from 1 to n + 65,536
/// \param options  preset, imbalance, shares, fixed nodes, seed and threads
/// \returns        the part of each node by its position, the cut and the part weights
/// \throws adjacency_error if the arrays are not a valid undirected graph.
/// \throws kway_option_error if an option does not fit the graph or `k`.
/// \throws kway_size_error if there are 2^32 - 1 nodes or more.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
kway_partition<NodeWeight, EdgeWeight> partition_kway(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                                      std::uint32_t k, kway_options const& options = {}) {
  detail::check_options(options, g.nodes(), k);
  auto const loops = detail::check_arrays(g, detail::thread_team(options.threads));
  return detail::partition_or_refine(g, k, {}, options, loops);
}

/// Improves a given partition from any source: brings it within the weight limits and reduces its cut.
///
/// Fixed nodes are moved to their parts first. The number of parts is `start.parts`; limits and determinism
/// are those of `partition_kway`.
///
/// \param g      the graph in CSR form
/// \param start  a part below `start.parts` for each node that is not fixed
/// \throws adjacency_error, kway_option_error, kway_size_error as `partition_kway` does.
/// \throws kway_start_error if `start` does not give each node a part.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
kway_partition<NodeWeight, EdgeWeight> refine_kway(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                                   partition const& start, kway_options const& options = {}) {
  detail::check_options(options, g.nodes(), start.parts);
  auto const loops = detail::check_arrays(g, detail::thread_team(options.threads));
  if (start.of.size() != g.nodes())
    throw detail::kway_start_error("k-way partition: `start` has " + std::to_string(start.of.size()) +
                                       " entries, but the number of nodes is " + std::to_string(g.nodes()),
                                   start.of.size());
  std::vector<std::uint32_t> of(g.nodes());
  for (std::size_t n = 0; n < of.size(); ++n) {
    of[n] = index(options.fixed.empty() || options.fixed[n] == no_part ? start.of[n] : options.fixed[n]);
    if (of[n] >= start.parts)
      throw detail::kway_start_error("k-way partition: `start` gives node #" + std::to_string(n) +
                                         " no valid part: expected a part below " +
                                         std::to_string(start.parts),
                                     n);
  }
  return detail::partition_or_refine(g, start.parts, std::move(of), options, loops);
}

}  // namespace cleave

/// These overloads partition a user's own undirected graph. Nodes are numbered by their position in
/// `nodes()`. Each call reads the whole graph. To partition one graph several times, read it once with
/// `neighbours_of`.
namespace cleave::inline v0_2 {

/// Partitions a user's own graph. `Index` is the integer type in which nodes are numbered.
/// \throws neighbour_error if the graph is not undirected, and the errors of the overload for arrays.
template <std::unsigned_integral Index = std::uint32_t, undirected_graph Graph>
auto partition_kway(Graph const& g, std::uint32_t k, kway_options const& options = {}) {
  auto const s = neighbours_of<Index>(g);
  return partition_kway(s.view(), k, options);
}

/// Improves a given partition of a user's own graph.
/// \throws neighbour_error if the graph is not undirected, and the errors of the overload for arrays.
template <std::unsigned_integral Index = std::uint32_t, undirected_graph Graph>
auto refine_kway(Graph const& g, partition const& start, kway_options const& options = {}) {
  auto const s = neighbours_of<Index>(g);
  return refine_kway(s.view(), start, options);
}
}  // namespace cleave
