// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cleave/run/model/concepts.hpp"
#include "cleave/run/sums/sum_in_order.hpp"

namespace cleave::inline v0_2::detail {

/// Maximum number of regions in one reduction. Their addresses are kernel parameters, which are limited to 4
/// KiB.
inline constexpr std::size_t most_reduced_regions = 440;

/// The addresses of regions of equal size.
template <std::size_t Room>
struct region_addresses {
  std::uint64_t count;                     ///< number of elements in each
  std::uint32_t regions;                   ///< number of regions
  std::uint32_t aligned;                   ///< 1 if all addresses are multiples of 16 bytes, else 0
  std::uint32_t first_stored, end_stored;  ///< the regions from one to before another get the result
  std::byte* at[Room];
};

/// The reduction of elements of type `T` in kernels: as on the host, with the lanes' floating-point
/// operations.
template <class T, reduce_op Op, class Lanes>
struct lane_reduction {
  using wide = typename element_reduction<T>::wide;
  /// 16 bytes, or fewer for short integers, which take a register each.
  static constexpr std::size_t pack_elements = std::is_integral_v<T> && sizeof(T) < 4 ? 4 : 16 / sizeof(T);

  static constexpr wide widen(T x) {
    if constexpr (std::is_integral_v<T>)
      return x;
    else
      return Lanes::widen(x);
  }
  static constexpr wide reduced(wide a, wide b) {
    if constexpr (Op == reduce_op::max)
      return element_reduction<T>::larger(a, b);
    else if constexpr (std::is_integral_v<T>)
      return element_reduction<T>::sum(a, b);
    else
      return Lanes::sum(a, b);
  }
  static constexpr T narrow(wide x) {
    if constexpr (std::is_integral_v<T>)
      return x;
    else
      return Lanes::template narrow<T>(x);
  }
};

/// Reduces `N` packs per lane, of 16 bytes or one element each, at byte `offset` and then `apart` bytes
/// apart. Regions are added one after the other, and some get the result. The loads of four regions are
/// issued before the first is used.
template <class T, reduce_op Op, class Lanes, std::size_t Elements, std::size_t N, std::size_t Room>
constexpr void reduce_packs(region_addresses<Room> const& r, std::uint64_t offset, std::size_t apart) {
  using pack = std::array<T, Elements>;
  using reduction = lane_reduction<T, Op, Lanes>;
  constexpr std::uint32_t at_once = Room < 4 ? Room : 4;
  typename reduction::wide made[N][Elements] = {};
  for (std::uint32_t first = 0; first < r.regions; first += at_once) {
    pack x[at_once][N];
    for (std::uint32_t k = 0; k < at_once; ++k)
      if (first + k < r.regions)
        for (std::size_t u = 0; u < N; ++u)
          x[k][u] = Lanes::template load<pack>(r.at[first + k] + offset + u * apart);
    for (std::size_t u = 0; u < N; ++u)
      for (std::uint32_t k = 0; k < at_once; ++k)
        if (first + k < r.regions)
          for (std::size_t e = 0; e < Elements; ++e)
            made[u][e] = first + k == 0 ? reduction::widen(x[k][u][e])
                                        : reduction::reduced(made[u][e], reduction::widen(x[k][u][e]));
    if constexpr (Room <= at_once) break;
  }
  pack results[N];
  for (std::size_t u = 0; u < N; ++u)
    for (std::size_t e = 0; e < Elements; ++e) results[u][e] = reduction::narrow(made[u][e]);
  for (std::uint32_t first = 0; first < r.regions; first += at_once) {
    for (std::uint32_t k = 0; k < at_once; ++k)
      if (first + k >= r.first_stored && first + k < r.end_stored)
        for (std::size_t u = 0; u < N; ++u) Lanes::store(r.at[first + k] + offset + u * apart, results[u]);
    if constexpr (Room <= at_once) break;
  }
}

/// Processes one lane's share of `sum_in_order` in thread block `block` of `blocks`, for elements of type
/// `T`.
template <class T, reduce_op Op, class Lanes, std::size_t Room>
constexpr void reduce_lane(region_addresses<Room> const& r, std::uint32_t block, std::uint32_t blocks,
                           std::uint32_t lane) {
  constexpr std::uint64_t elements = lane_reduction<T, Op, Lanes>::pack_elements, each = Room < 4 ? 4 : 1,
                          together = Lanes::lanes * each;
  constexpr std::size_t bytes = elements * sizeof(T);
  std::uint64_t const packs = r.aligned != 0 ? r.count / elements : 0;
  for (std::uint64_t p = block * together; p < packs; p += blocks * together) {
    if (p + together <= packs) {
      reduce_packs<T, Op, Lanes, elements, each>(r, (p + lane) * bytes, Lanes::lanes * bytes);
      continue;
    }
    for (std::uint64_t q = p + lane; q < packs; q += Lanes::lanes)
      reduce_packs<T, Op, Lanes, elements, 1>(r, q * bytes, 0);
  }
  std::uint64_t const single = std::uint64_t{block} * Lanes::lanes + lane;
  for (std::uint64_t i = packs * elements + single; i < r.count; i += std::uint64_t{blocks} * Lanes::lanes)
    reduce_packs<T, Op, Lanes, 1, 1>(r, i * sizeof(T), 0);
}

}  // namespace cleave::detail
