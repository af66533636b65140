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

namespace cleave::inline v0_2::detail {

/// The coordinates of a node in one or more dimensions.
template <std::size_t Dimensions>
using point = std::array<double, Dimensions>;

/// A node with a coordinate that is infinite or NaN.
struct point_fault {
  std::size_t node;

  bool operator==(point_fault const&) const = default;
};

inline std::string describe(point_fault const& f) {
  return "node #" + std::to_string(f.node) + " has a coordinate that is infinite or NaN";
}

using point_error = fault_error<point_fault>;

/// Returns the first node with a coordinate that is infinite or NaN, if any.
template <std::size_t Dimensions>
std::optional<point_fault> find_point_fault(std::span<point<Dimensions> const> points) {
  for (std::size_t n = 0; n < points.size(); ++n)
    for (double const x : points[n])
      if (!is_finite(x)) return point_fault{n};
  return std::nullopt;
}

/// Returns the node weights, 1 each if none are given.
/// \throws error if they are negative, too many or too few, or their sum overflows.
inline std::vector<std::int64_t> point_weights(std::span<std::int64_t const> weights, std::size_t nodes) {
  if (weights.empty()) return std::vector<std::int64_t>(nodes, 1);
  if (weights.size() != nodes)
    throw error("there are " + std::to_string(nodes) + " points and " + std::to_string(weights.size()) +
                " weights");
  std::int64_t sum = 0;
  for (std::size_t n = 0; n < nodes; ++n) {
    if (weights[n] < 0 || weights[n] > INT64_MAX - sum)
      throw error("node #" + std::to_string(n) + " weighs " + std::to_string(weights[n]) +
                  ": weights must not be negative, and their sum must be below 2^63");
    sum += weights[n];
  }
  return {weights.begin(), weights.end()};
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Options of the geometric methods.
struct point_options {
  std::span<std::int64_t const> node_weight{};  ///< weight of each node; empty: all weigh 1
  share_options weights{};                      ///< shares of the parts; its imbalance is ignored
};

/// Partitions points by recursive coordinate bisection. Nodes are sorted along the longest axis, cut at the
/// shares of half the parts, and each half is divided again (Berger and Bokhari, IEEE Trans. Computers 36,
/// 1987). Each cut adds at most half a node's weight to a part's share. Edges are ignored. O(n log n log k).
/// \throws error if `k` is 0 or an option is invalid, point_error.
template <std::size_t Dimensions>
partition partition_by_coordinates(std::span<detail::point<Dimensions> const> points, std::uint32_t k,
                                   point_options const& o = {}) {
  if (auto const f = detail::find_point_fault(points)) throw detail::point_error(*f);
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

/// Space-filling curves.
enum class space_curve : std::uint8_t {
  hilbert,  ///< neighbours on the curve are neighbours in space
  morton    ///< interleaves the bits of the coordinates; consecutive cells may be far apart
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the position on the curve of a cell in a grid of 2^Bits cells per axis. Morton, IBM, 1966;
/// Skilling, Programming the Hilbert curve, AIP Conf. Proc. 707, 2004.
template <std::size_t Dimensions, int Bits = 63 / static_cast<int>(Dimensions)>
std::uint64_t place_on_curve(std::array<std::uint64_t, Dimensions> cell, space_curve curve) {
  constexpr auto top = std::uint64_t{1} << (Bits - 1);
  if (curve == space_curve::hilbert) {
    for (auto bit = top; bit > 1; bit >>= 1)
      for (std::size_t axis = 0; axis < Dimensions; ++axis) {
        auto const differ = (cell[axis] & bit) != 0 ? 0 : (cell[0] ^ cell[axis]) & (bit - 1);
        if ((cell[axis] & bit) != 0) cell[0] ^= bit - 1;
        cell[0] ^= differ;
        cell[axis] ^= differ;
      }
    for (std::size_t axis = 1; axis < Dimensions; ++axis) cell[axis] ^= cell[axis - 1];
    std::uint64_t flips = 0;
    for (auto bit = top; bit > 1; bit >>= 1)
      if ((cell[Dimensions - 1] & bit) != 0) flips ^= bit - 1;
    for (auto& c : cell) c ^= flips;
  }
  std::uint64_t place = 0;
  for (auto bit = top; bit > 0; bit >>= 1)
    for (auto const c : cell) place = place << 1 | ((c & bit) != 0 ? 1 : 0);
  return place;
}

/// Returns the nodes in their order on a curve through the bounding cube of all points. Within a cell the
/// lower number comes first. O(n log n).
/// \throws point_error
template <std::size_t Dimensions>
std::vector<std::uint32_t> curve_order(std::span<point<Dimensions> const> points,
                                       space_curve curve = space_curve::hilbert) {
  if (auto const f = find_point_fault(points)) throw point_error(*f);
  constexpr int bits = 63 / static_cast<int>(Dimensions);
  point<Dimensions> least{};
  double length = 0;
  for (std::size_t axis = 0; axis < Dimensions && !points.empty(); ++axis) {
    auto const [low, high] = std::ranges::minmax(points, {}, [&](auto const& p) { return p[axis]; });
    least[axis] = low[axis];
    length = (std::max)(length, high[axis] / 2 - low[axis] / 2);
  }
  auto const last_cell = static_cast<double>((std::uint64_t{1} << (std::min)(bits, 52)) - 1);
  std::vector<std::pair<std::uint64_t, std::uint32_t>> keyed;
  for (std::uint32_t n = 0; n < points.size(); ++n) {
    std::array<std::uint64_t, Dimensions> cell{};
    for (std::size_t axis = 0; axis < Dimensions && length > 0; ++axis)
      cell[axis] = static_cast<std::uint64_t>((points[n][axis] / 2 - least[axis] / 2) / length * last_cell);
    keyed.push_back({place_on_curve(cell, curve), n});
  }
  std::ranges::sort(keyed);
  std::vector<std::uint32_t> order;
  for (auto const& [place, n] : keyed) order.push_back(n);
  return order;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Partitions points by cutting a space-filling curve at the shares of the parts. Pilkington and Baden, IEEE
/// Trans. Parallel Distributed Systems 7, 1996. A part exceeds its share by at most the weight of one node.
/// Edges are ignored. O(n log n).
/// \throws error if `k` is 0 or an option is invalid, point_error.
template <std::size_t Dimensions>
partition partition_by_curve(std::span<detail::point<Dimensions> const> points, std::uint32_t k,
                             space_curve curve = space_curve::hilbert, point_options const& o = {}) {
  auto const weight = detail::point_weights(o.node_weight, points.size());
  auto const targets =
      detail::targets_of(std::accumulate(weight.begin(), weight.end(), std::int64_t{}), k, o.weights);
  auto const order = detail::curve_order(points, curve);
  auto const bounds = detail::bounds_at_shares(order, weight, targets.target);
  std::vector<std::uint32_t> part(points.size());
  for (std::uint32_t p = 0; p < k; ++p)
    for (auto i = bounds[p]; i < bounds[p + std::size_t{1}]; ++i) part[order[i]] = p;
  return partition_of(part, k);
}

}  // namespace cleave
