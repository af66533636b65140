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

/// Sums of squares in a fixed order of additions, so that CPUs and GPUs compute the same double. Many partial
/// sums are made side by side and then added in a binary tree. Regions are cut into tiles, as for
/// `accumulate`. Square i of a tile is added to partial sum i % 2048 of the tile. Neighbouring partial sums
/// are then added pairwise until one is left. The sum of tile t, counted through all regions, is added to
/// total t % 2048; the totals are reduced by the same tree.
namespace cleave::inline v0_2::detail {

/// Number of partial sums per tree.
inline constexpr std::size_t sums_by_turns = 2048;

/// Adds the partial sums pairwise as a tree. Only the first `used` may be non-zero. Overwrites `sums`.
constexpr double sum_of_neighbours(std::array<double, sums_by_turns>& sums, std::size_t used) {
  for (std::size_t n = std::bit_ceil(used); n > 1; n /= 2)
    for (std::size_t j = 0; j < n / 2; ++j) sums[j] = sums[2 * j] + sums[2 * j + 1];
  return sums[0];
}

/// Returns the sum of squares of one tile. Precondition: `count` is at most `tile_elements`.
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

/// Returns the sum of squares of all elements of all regions, in order. Precondition: the elements are
/// floating-point. O(elements).
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

/// Returns `regions` as a table for a device that computes the same sum. Of each segment only `from` is used.
/// The runs of the table list the tiles in the order of the regions. Precondition: as for `sum_of_squares`.
inline sum_table make_squares_table(std::span<region const> regions) {
  sum_table table;
  for (auto const& r : regions)
    if (r.count > 0) add_segment(table, {r, {nullptr, r.count, r.type}}, false);
  return table;
}

}  // namespace cleave::detail
