// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "cleave/core/real.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/run/sums/accumulate_tile.hpp"
#include "cleave/run/sums/floating_bits.hpp"
#include "cleave/run/sums/sum_in_order.hpp"

/// The sum of squares, in an order of additions that processors and graphics processors share, so that both
/// make the same double of it: whoever adds makes many sums side by side, and then a tree of them. Regions
/// are cut into tiles, as for `accumulate`; square i of a tile is added to sum i % 2048 of the tile, then
/// neighbours among these are added, and neighbours of what comes out, until one is left. That of tile t,
/// counted through all regions, is added to sum t % 2048 of all, which become one in the same way.
namespace cleave::detail {

inline constexpr std::size_t sums_by_turns = 2048;

/// Of sums made by turns, the first `used` of which may be other than 0. What they hold is lost.
constexpr double sum_of_neighbours(std::array<double, sums_by_turns>& sums, std::size_t used) {
  for (std::size_t n = std::bit_ceil(used); n > 1; n /= 2)
    for (std::size_t j = 0; j < n / 2; ++j) sums[j] = sums[2 * j] + sums[2 * j + 1];
  return sums[0];
}

/// Precondition: there are `tile_elements` at most.
template <class T>
constexpr double squares_of_tile(T const* elements, std::size_t count) {
  std::array<double, sums_by_turns> sums;
  std::size_t const used = (std::min)(count, sums_by_turns);
  std::fill_n(sums.begin(), std::bit_ceil(used), 0.0);
  for (std::size_t first = 0; first < count; first += sums_by_turns) {
    std::size_t const n = (std::min)(count - first, sums_by_turns);
    for (std::size_t k = 0; k < n; ++k) {
      auto const x = static_cast<double>(widened(elements[first + k]));
      sums[k] += rounded_product(x, x);
    }
  }
  return sum_of_neighbours(sums, used);
}

/// Of all elements of all regions, in their order. Precondition: they are floating-point numbers.
/// O(elements).
inline double sum_of_squares(std::span<region const> regions) {
  std::array<double, sums_by_turns> sums = {};
  std::uint64_t tiles = 0;
  for (auto const& r : regions)
    dispatch_floating_type(r.type, [&](auto zero) {
      auto const* const elements = static_cast<decltype(zero) const*>(r.data);
      for (std::size_t first = 0; first < r.count; first += tile_elements)
        sums[tiles++ % sums_by_turns] +=
            squares_of_tile(elements + first, (std::min)(r.count - first, tile_elements));
    });
  return sum_of_neighbours(sums, std::min<std::uint64_t>(tiles, sums_by_turns));
}

/// What a device needs to do the same: only the `from` of the segments counts, and of the runs, one after the
/// other, the tiles are those of the regions. Precondition: as above.
inline sum_table make_squares_table(std::span<region const> regions) {
  sum_table table;
  for (auto const& r : regions)
    if (r.count > 0) add_segment(table, {r, {nullptr, r.count, r.type}}, false);
  return table;
}

}  // namespace cleave::detail
