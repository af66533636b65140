// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "cleave/run/sums/accumulate_tile.hpp"
#include "cleave/run/sums/floating_bits.hpp"
#include "cleave/run/sums/sum_of_squares.hpp"

namespace cleave::inline v0_2::detail {

/// The number of packs of type `T` that each lane accumulates side by side.
template <class T, class Lanes>
inline constexpr std::size_t square_packs =
    sums_by_turns / (Lanes::lanes * Lanes::template pack_elements<T, T>);

/// Returns one lane's partial sums of squares of a tile. Sum u is that of pack `u * Lanes::lanes + lane`. The
/// tree over the partial sums of all lanes gives the result of `squares_of_tile`.
template <class T, class Lanes>
constexpr std::array<double, square_packs<T, Lanes>> square_lane(sum_segment const& s, std::uint32_t tile,
                                                                 std::uint32_t lane) {
  constexpr std::uint32_t lanes = Lanes::lanes, pack = Lanes::template pack_elements<T, T>,
                          packs = square_packs<T, Lanes>, rows = tile_elements / sums_by_turns;
  using pack_of_elements = std::array<T, pack>;
  std::uint64_t const first = std::uint64_t{tile - s.first_tile} * tile_elements, left = s.count - first;
  auto const* const from = static_cast<std::byte const*>(s.from) + first * sizeof(T);
  auto const* const mine = from + std::size_t{lane} * sizeof(pack_of_elements);
  auto const at = [](std::uint32_t row, std::uint32_t u) {
    return (std::size_t{row} * sums_by_turns + std::size_t{u} * lanes * pack) * sizeof(T);
  };
  double sums[packs][pack] = {};
  auto const add = [&](std::uint32_t u, std::uint32_t k, T x) {
    auto const wide = static_cast<double>(Lanes::widen(x));
    sums[u][k] = Lanes::sum(sums[u][k], Lanes::product(wide, wide));
  };

  if (left >= tile_elements && s.aligned >= Lanes::pack_alignment) {
    for (std::uint32_t row = 0; row < rows; row += Lanes::rows_at_once) {
      pack_of_elements x[Lanes::rows_at_once][packs];
      for (std::uint32_t r = 0; r < Lanes::rows_at_once; ++r)
        for (std::uint32_t u = 0; u < packs; ++u)
          x[r][u] = Lanes::template load<pack_of_elements>(mine + at(row + r, u));
      for (std::uint32_t r = 0; r < Lanes::rows_at_once; ++r)
        for (std::uint32_t u = 0; u < packs; ++u)
          for (std::uint32_t k = 0; k < pack; ++k) add(u, k, x[r][u][k]);
    }
  } else {
    for (std::uint32_t row = 0; row < rows; ++row)
      for (std::uint32_t u = 0; u < packs; ++u)
        for (std::uint32_t k = 0; k < pack; ++k) {
          std::uint32_t const i = row * std::uint32_t{sums_by_turns} + (u * lanes + lane) * pack + k;
          if (i < left) add(u, k, Lanes::template load<T>(mine + at(row, u) + k * sizeof(T)));
        }
  }

  std::array<double, packs> whole = {};
  for (std::uint32_t u = 0; u < packs; ++u) {
    for (std::uint32_t n = pack; n > 1; n /= 2)
      for (std::uint32_t j = 0; j < n / 2; ++j) sums[u][j] = Lanes::sum(sums[u][2 * j], sums[u][2 * j + 1]);
    whole[u] = sums[u][0];
  }
  return whole;
}

}  // namespace cleave::detail
