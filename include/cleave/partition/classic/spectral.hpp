// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/classic/detail/gain_bucket_lists.hpp"
#include "cleave/partition/classic/detail/integral_graph.hpp"
#include "cleave/partition/classic/fiduccia_mattheyses.hpp"
#include "cleave/partition/classic/fiedler_vector.hpp"
#include "cleave/partition/classic/measured_partition.hpp"
#include "cleave/partition/classic/part_targets.hpp"
#include "cleave/partition/classic/partition_by_bisection.hpp"

namespace cleave::inline v0_2::detail {

/// Returns the connected components, each as its nodes in breadth-first order from the first. O(n + m).
inline std::vector<std::vector<std::uint32_t>> node_components(integral_graph const& g) {
  std::vector<std::vector<std::uint32_t>> found;
  std::vector<char> met(g.nodes());
  for (std::uint32_t n = 0; n < g.nodes(); ++n) {
    if (std::exchange(met[n], char{1}) != 0) continue;
    auto& queue = found.emplace_back(1, n);
    for (std::size_t i = 0; i < queue.size(); ++i)
      g.each_neighbour(queue[i], [&](std::uint32_t to, std::int64_t) {
        if (std::exchange(met[to], char{1}) == 0) queue.push_back(to);
      });
  }
  return found;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A bisector that cuts at the weighted median of the Fiedler vector: Pothen, Simon and Liou, SIAM J. Matrix
/// Anal. Appl. 11, 1990. Connected components are placed heaviest first, and stay whole if there is room.
struct spectral_bisection {
  fiedler_options eigen{};
  std::size_t passes = 0;  ///< passes of Fiduccia-Mattheyses refinement afterwards

  detail::node_sides operator()(detail::integral_graph const& g, detail::part_targets const& two,
                                std::uint64_t seed) const {
    struct component {
      std::int64_t weight;
      std::size_t number;
    };
    auto const nodes = detail::node_components(g);
    std::vector<component> parts;
    for (auto const& list : nodes) {
      std::int64_t weight = 0;
      for (auto const n : list) weight += g.node_weight[n];
      parts.push_back({weight, parts.size()});
    }
    std::ranges::sort(parts, {}, [](component const& c) { return std::pair(-c.weight, c.number); });
    detail::node_sides side(g.nodes());
    std::int64_t left[] = {two.target[0], two.target[1]};
    std::vector<std::uint32_t> scratch(g.nodes());
    for (auto const& [weight, number] : parts) {
      std::size_t const to = left[1] > left[0] ? 1 : 0;
      auto const slack = two.most[to] - two.target[to];
      if (weight <= left[to] + slack || nodes[number].size() == 1) {
        for (auto const n : nodes[number]) side[n] = static_cast<std::uint8_t>(to);
        left[to] -= weight;
      } else {
        divide(g, nodes[number], left, side, scratch, seed);
      }
    }
    if (passes > 0) detail::fm_walk(g, two.most, {}).run(side, passes);
    return side;
  }

 private:
  void divide(detail::integral_graph const& g, std::vector<std::uint32_t> const& nodes,
              std::int64_t (&left)[2], detail::node_sides& side, std::vector<std::uint32_t>& scratch,
              std::uint64_t seed) const {
    auto o = eigen;
    o.seed = seed;
    auto const inside = detail::subgraph(g, nodes, scratch);
    auto const value = fiedler_vector(inside, o);
    std::vector<std::pair<double, std::uint32_t>> row;
    for (std::uint32_t i = 0; i < nodes.size(); ++i) row.push_back({value[i], i});
    std::ranges::sort(row);
    auto const room = std::max<std::int64_t>(left[0], 0);
    std::int64_t before = 0;
    for (auto const& [v, i] : row) {
      auto const w = inside.node_weight[i];
      bool const first = before + w / 2 < room;
      before += w;
      side[nodes[i]] = first ? 0 : 1;
      left[first ? 0 : 1] -= w;
    }
  }
};

/// Partitions a graph into k parts by recursive spectral bisection. With `passes`, FM moves refine each
/// bisection. Without passes, limits hold only up to the weights of the nodes at the medians. O(log k)
/// times the cost of `fiedler_vector`.
/// \throws error if `k` is 0 or an option is invalid, adjacency_error.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
measured_partition partition_spectral(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                      std::uint32_t k, spectral_bisection const& how = {},
                                      bisection_options const& o = {}) {
  return partition_by_bisection(g, k, how, o);
}

}  // namespace cleave
