// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/real.hpp"
#include "cleave/partition/classic/measured_partition.hpp"
#include "cleave/partition/classic/part_targets.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::detail {

/// Where a node is, in 1, 2, 3 or more dimensions.
template <std::size_t Dimensions>
using point = std::array<double, Dimensions>;

/// A coordinate that is infinite or no number. The witness: the node.
class point_error : public witness_error<std::size_t> {
 public:
  explicit point_error(std::size_t n)
      : witness_error("node #" + std::to_string(n) + " has a coordinate that is infinite or no number", n) {}
};

/// The first node with one, or nothing.
template <std::size_t Dimensions>
std::optional<std::size_t> find_bad_point(std::span<point<Dimensions> const> points) {
  for (std::size_t n = 0; n < points.size(); ++n)
    for (double const x : points[n])
      if (!is_finite(x)) return n;
  return std::nullopt;
}

/// The weights of nodes, 1 each where there are none. \throws error
inline std::vector<std::int64_t> point_weights(std::span<std::int64_t const> weights, std::size_t nodes) {
  if (weights.empty()) return std::vector<std::int64_t>(nodes, 1);
  if (weights.size() != nodes)
    throw error("there are " + std::to_string(nodes) + " points and " + std::to_string(weights.size()) +
                " weights");
  std::int64_t sum = 0;
  for (std::size_t n = 0; n < nodes; ++n) {
    if (weights[n] < 0 || weights[n] > INT64_MAX - sum)
      throw error("node #" + std::to_string(n) + " weighs " + std::to_string(weights[n]) +
                  ": weights are not negative, and their sum is below 2^63");
    sum += weights[n];
  }
  return {weights.begin(), weights.end()};
}

}  // namespace cleave::detail

namespace cleave {

struct point_options {
  std::span<std::int64_t const> node_weight{};  ///< empty: all weigh 1
  share_options weights{};                      ///< its imbalance is not used: cuts are where shares say
};

/// Parts by where nodes are: the nodes are sorted along the axis in which they reach furthest and cut at the
/// shares of half the parts, then each half again. Berger and Bokhari, IEEE Trans. Computers 36, 1987. A part
/// is heavier than its share by at most half a node for each cut. Edges play no role. O(n log n log k).
/// \throws error where options make no sense, point_error.
template <std::size_t Dimensions>
partition bisect_coordinates(std::span<detail::point<Dimensions> const> points, std::uint32_t k,
                             point_options const& o = {}) {
  if (auto const bad = detail::find_bad_point(points)) throw detail::point_error(*bad);
  auto const weight = detail::point_weights(o.node_weight, points.size());
  auto const targets =
      detail::targets_of(std::accumulate(weight.begin(), weight.end(), std::int64_t{}), k, o.weights).target;
  struct piece {
    std::span<std::uint32_t> nodes;
    std::uint32_t first, parts;
  };
  auto const longest_axis = [&](std::span<std::uint32_t const> nodes) {
    std::pair<double, std::size_t> best{-1, 0};
    for (std::size_t axis = 0; axis < Dimensions; ++axis) {
      auto const [least, most] = std::ranges::minmax(nodes, {}, [&](auto n) { return points[n][axis]; });
      if (auto const length = points[most][axis] - points[least][axis]; length > best.first)
        best = {length, axis};
    }
    return best.second;
  };
  std::vector<std::uint32_t> row(points.size()), part(points.size());
  std::iota(row.begin(), row.end(), 0u);
  std::vector<piece> open{{row, 0, k}};
  while (!open.empty()) {
    auto const p = open.back();
    open.pop_back();
    if (p.parts == 1 || p.nodes.size() <= p.parts) {
      for (std::uint32_t i = 0; i < p.nodes.size(); ++i) part[p.nodes[i]] = p.first + (p.parts > 1 ? i : 0);
      continue;
    }
    auto const axis = longest_axis(p.nodes);
    std::ranges::sort(p.nodes, {}, [&](std::uint32_t n) { return std::pair(points[n][axis], n); });
    auto const left = p.parts / 2;
    std::span const own(targets.data() + p.first, p.parts);
    std::array<std::int64_t, 2> const shares{std::accumulate(own.begin(), own.begin() + left, std::int64_t{}),
                                             std::accumulate(own.begin() + left, own.end(), std::int64_t{})};
    auto at = detail::bounds_at_shares(p.nodes, weight, shares)[1];
    at = std::clamp<std::size_t>(at, left, p.nodes.size() - (p.parts - left));
    open.push_back({p.nodes.first(at), p.first, left});
    open.push_back({p.nodes.subspan(at), p.first + left, p.parts - left});
  }
  return partition_of(part, k);
}

}  // namespace cleave
