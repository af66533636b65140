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
#include "cleave/partition/kway/detail/task.hpp"
#include "cleave/partition/kway/detail/team.hpp"
#include "cleave/partition/kway/options.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave {

/// Parts of an undirected graph, and what they reach.
template <weight_number NodeWeight = std::int64_t, weight_number EdgeWeight = NodeWeight>
struct kway_partition : partition {
  weight_total<EdgeWeight> cut{};                        ///< weight of the edges between parts
  std::vector<weight_total<NodeWeight>> part_weights{};  ///< of the nodes of each part
  double imbalance = 0;       ///< of the part furthest above its share: 0.03 is 3 %
  bool within_limits = true;  ///< false where weights of nodes allow no balance found
};

}  // namespace cleave

namespace cleave::detail {

/// A given partition does not fit the graph: `witness` is the first node without a part, or the number of
/// nodes that it has.
using kway_start_error = tagged_error<struct kway_start_tag, std::size_t>;

/// Cut, weights and imbalance of parts, in the user's units.
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
  return result;
}

/// Parts for a graph that has been checked, better ones than `start` if that is not empty.
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
    within = excess_weight(parts) == 0;
  }
  auto result = weighed_parts(g, std::move(p), options);
  result.within_limits = within;
  return result;
}

}  // namespace cleave::detail

namespace cleave {

/// Cuts an undirected graph into k parts so that the weight of the edges between them is small and no part
/// weighs more than (1 + imbalance) times its share of the nodes, rounded up; more only where a node, or what
/// is fixed, is too heavy for that. No part is empty if there are nodes enough and shares are alike. The same
/// for a seed with any number of threads and any compiler. O((n + m) * log k).
/// \throws adjacency_error, kway_option_error, kway_size_error.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
kway_partition<NodeWeight, EdgeWeight> partition_kway(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                                      std::uint32_t k, kway_options const& options = {}) {
  detail::check_options(options, g.nodes(), k);
  auto const loops = detail::check_arrays(g, detail::thread_team(options.threads));
  return detail::partition_or_refine(g, k, {}, options, loops);
}

/// Moves nodes of a given partition, from wherever it comes, so that it is within its limits and the cut is
/// smaller; `fixed` nodes go where they belong first.
/// \throws adjacency_error, kway_option_error, kway_size_error, kway_start_error.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
kway_partition<NodeWeight, EdgeWeight> refine_kway(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                                   partition const& start, kway_options const& options = {}) {
  detail::check_options(options, g.nodes(), start.parts);
  auto const loops = detail::check_arrays(g, detail::thread_team(options.threads));
  if (start.of.size() != g.nodes())
    throw detail::kway_start_error("k-way partition: the start has parts for " +
                                       std::to_string(start.of.size()) + " nodes of " +
                                       std::to_string(g.nodes()),
                                   start.of.size());
  std::vector<std::uint32_t> of(g.nodes());
  for (std::size_t n = 0; n < of.size(); ++n) {
    of[n] = index(options.fixed.empty() || options.fixed[n] == no_part ? start.of[n] : options.fixed[n]);
    if (of[n] >= start.parts)
      throw detail::kway_start_error("k-way partition: the start gives node #" + std::to_string(n) +
                                         " no part below " + std::to_string(start.parts),
                                     n);
  }
  return detail::partition_or_refine(g, start.parts, std::move(of), options, loops);
}

}  // namespace cleave

/// k-way partitions of a user's own undirected graph, by position in `nodes()`. The graph is read anew by
/// each call; who makes several reads it once, by `neighbours_of`.
namespace cleave {

/// \throws neighbour_error, and what the function on arrays throws.
template <std::unsigned_integral Index = std::uint32_t, undirected_graph Graph>
auto partition_kway(Graph const& g, std::uint32_t k, kway_options const& options = {}) {
  auto const s = neighbours_of<Index>(g);
  return partition_kway(s.view(), k, options);
}

/// \throws neighbour_error, and what the function on arrays throws.
template <std::unsigned_integral Index = std::uint32_t, undirected_graph Graph>
auto refine_kway(Graph const& g, partition const& start, kway_options const& options = {}) {
  auto const s = neighbours_of<Index>(g);
  return refine_kway(s.view(), start, options);
}
}  // namespace cleave
