// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "cleave/partition/classic/coordinates.hpp"
#include "cleave/partition/classic/measured_partition.hpp"
#include "cleave/partition/classic/part_targets.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave {

enum class space_curve : std::uint8_t {
  hilbert,  ///< neighbours on the curve are neighbours in space
  morton    ///< the bits of the coordinates by turns; with jumps
};

}  // namespace cleave

namespace cleave::detail {

/// The place on a curve of a cell of 2^Bits cells along each axis. Morton, IBM, 1966; Skilling, Programming
/// the Hilbert curve, AIP Conf. Proc. 707, 2004.
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

/// The nodes in their order on a curve through the box around all of them, alike on all axes; of nodes in one
/// cell the lower number first. O(n log n). \throws point_error
template <std::size_t Dimensions>
std::vector<std::uint32_t> curve_order(std::span<point<Dimensions> const> points,
                                       space_curve curve = space_curve::hilbert) {
  if (auto const bad = find_bad_point(points)) throw point_error(*bad);
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

namespace cleave {

/// Parts as pieces of a curve through space, cut at their shares. Pilkington and Baden, IEEE Trans. Parallel
/// Distributed Systems 7, 1996. A part is heavier than its share by at most a node. Edges play no role.
/// O(n log n). \throws error where options make no sense, point_error.
template <std::size_t Dimensions>
partition cut_curve(std::span<detail::point<Dimensions> const> points, std::uint32_t k,
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
