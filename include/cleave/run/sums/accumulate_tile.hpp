// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cleave/core/real.hpp"
#include "cleave/run/sums/floating_bits.hpp"

/// Sums over the elements of many tensors at once, cut into tiles, as processors and graphics processors both
/// carry them out. Tiles may run in any order, and so may the lanes of one: each element belongs to one lane,
/// and lanes wait for nothing.
namespace cleave::detail {

inline constexpr std::size_t tile_elements = 8192;

/// One pair of regions in a table of sums: `count` elements, in tiles from number `first_tile` on.
struct alignas(16) sum_segment {
  void const* from;
  void* to;
  std::uint64_t count;
  std::uint32_t first_tile;
  std::uint32_t aligned;  ///< 1 where both begin at a multiple of 16 bytes
};
static_assert(sizeof(sum_segment) == 32);

/// How many tiles `count` elements take.
constexpr std::uint64_t tiles_of(std::uint64_t count) {
  return count / tile_elements + (count % tile_elements == 0 ? 0 : 1);
}

/// The segment that a tile belongs to, of `segments` that are in order of their tiles and not empty.
constexpr std::size_t segment_of(sum_segment const* segments, std::size_t count, std::uint32_t tile) {
  std::size_t low = 0, high = count;
  while (high - low > 1) {
    std::size_t const middle = low + (high - low) / 2;
    (segments[middle].first_tile <= tile ? low : high) = middle;
  }
  return low;
}

/// The same for a tile that does not come before segment number `from`, mostly in it.
constexpr std::size_t segment_from(sum_segment const* segments, std::size_t count, std::size_t from,
                                   std::uint32_t tile) {
  if (tile - segments[from].first_tile < tiles_of(segments[from].count)) return from;
  return from + segment_of(segments + from, count - from, tile);
}

/// How a processor takes part in a tile: one lane, element after element. A device has a type of its own for
/// that, with the same members.
struct plain_lanes {
  static constexpr std::uint32_t lanes = 1;  ///< that share a tile
  /// What is read or written at once.
  template <class From, class To>
  static constexpr std::size_t pack_elements = 1;
  /// Loads of so many packs are issued before the first is used.
  template <class From, class To, class Operation>
  static constexpr std::size_t packs_at_once = 1;
  static constexpr bool packs_need_alignment = false;  ///< to 16 bytes; elements are read singly without
  static constexpr std::uint32_t singles_at_once = 1;  ///< as of packs

  template <class T>
  static constexpr T load(std::byte const* at) {
    T x;
    std::memcpy(&x, at, sizeof x);
    return x;
  }
  template <class T>
  static constexpr void store(std::byte* at, T const& x) {
    std::memcpy(at, &x, sizeof x);
  }

  template <class T>
  static constexpr widened_t<T> widen(T x) {
    return widened(x);
  }
  template <class T, class Sum>
  static constexpr T narrow(Sum x) {
    return narrowed<T>(x);
  }
  /// Rounded, each.
  template <class Sum>
  static constexpr Sum product(Sum a, Sum b) {
    return rounded_product(a, b);
  }
  template <class Sum>
  static constexpr Sum sum(Sum a, Sum b) {
    return a + b;
  }
};

/// `to + factor * from`.
struct adding {
  static constexpr bool reads_target = true, checks_nonfinite = false;
  template <class Lanes, class Sum>
  static constexpr Sum apply(Sum factor, Sum from, Sum to) {
    return Lanes::sum(to, Lanes::product(factor, from));
  }
};

/// `factor * from`.
struct overwriting {
  static constexpr bool reads_target = false, checks_nonfinite = false;
  template <class Lanes, class Sum>
  static constexpr Sum apply(Sum factor, Sum from, Sum /*to*/) {
    return Lanes::product(factor, from);
  }
};

/// The same, and whether each result is finite.
template <class Operation>
struct nonfinite_checked : Operation {
  static constexpr bool checks_nonfinite = true;
};

/// The share of one lane in one tile of a segment; whether it has written what is not finite, where that is
/// watched. `s.from` is memory of `From`, `s.to` of `To`, the same or disjoint from it; sums are f64 where
/// one of them is, f32 otherwise. Neighbouring lanes take neighbouring packs.
template <class From, class To, class Operation, class Lanes = plain_lanes>
constexpr bool accumulate_lane(sum_segment const& s, std::uint32_t tile, common_sum_t<From, To> factor,
                               std::uint32_t lane = 0) {
  using sum = common_sum_t<From, To>;
  using one = std::integral_constant<std::uint32_t, 1>;
  constexpr std::uint32_t lanes = Lanes::lanes;
  std::uint64_t const first = std::uint64_t{tile - s.first_tile} * tile_elements;
  std::uint64_t const left = s.count - first;
  auto const count = static_cast<std::uint32_t>(left < tile_elements ? left : tile_elements);
  auto const* const from = static_cast<std::byte const*>(s.from) + first * sizeof(From);
  auto* const to = static_cast<std::byte*>(s.to) + first * sizeof(To);

  std::uint32_t bad = 0;
  auto const add = [&](From x, To& y) {
    sum before = 0;
    if constexpr (Operation::reads_target) before = static_cast<sum>(Lanes::widen(y));
    y = Lanes::template narrow<To>(
        Operation::template apply<Lanes>(factor, static_cast<sum>(Lanes::widen(x)), before));
    if constexpr (Operation::checks_nonfinite) bad |= is_finite(y) ? 0u : 1u;
  };
  // `how_many` packs of `size` elements, the first from element `at` on, the next one `lanes` packs away
  auto const add_packs = [&](std::uint32_t at, auto size, auto how_many) {
    std::array<From, size.value> x[how_many.value];
    std::array<To, size.value> y[how_many.value];
    auto const* const from_pack = from + std::size_t{at} * sizeof(From);
    auto* const to_pack = to + std::size_t{at} * sizeof(To);
    for (std::size_t u = 0; u < how_many.value; ++u) {
      x[u] = Lanes::template load<std::array<From, size.value>>(from_pack + u * lanes * sizeof x[0]);
      if constexpr (Operation::reads_target)
        y[u] = Lanes::template load<std::array<To, size.value>>(to_pack + u * lanes * sizeof y[0]);
    }
    for (std::size_t u = 0; u < how_many.value; ++u) {
      for (std::size_t k = 0; k < size.value; ++k) add(x[u][k], y[u][k]);
      Lanes::store(to_pack + u * lanes * sizeof y[0], y[u]);
    }
  };
  // all packs of that size from element `at` on, `at_once` a turn while there are so many
  auto const add_all = [&](std::uint32_t at, auto size, auto at_once) {
    std::uint32_t const packs = (count - at) / size.value;
    std::uint32_t p = lane;
    for (; p + (at_once.value - 1) * lanes < packs; p += at_once.value * lanes)
      add_packs(at + p * size.value, size, at_once);
    for (; p < packs; p += lanes) add_packs(at + p * size.value, size, one{});
    return at + packs * size.value;
  };

  using pack = std::integral_constant<std::uint32_t, Lanes::template pack_elements<From, To>>;
  using packs_at_once =
      std::integral_constant<std::uint32_t, Lanes::template packs_at_once<From, To, Operation>>;
  std::uint32_t packed = 0;
  if constexpr (pack::value > 1)
    if (!Lanes::packs_need_alignment || s.aligned != 0) packed = add_all(0, pack{}, packs_at_once{});
  if constexpr (Lanes::singles_at_once > 1) {
    add_all(packed, one{}, std::integral_constant<std::uint32_t, Lanes::singles_at_once>{});
  } else {
    for (std::uint32_t i = packed + lane; i < count; i += lanes) {
      std::byte* const at = to + std::size_t{i} * sizeof(To);
      To y = {};
      if constexpr (Operation::reads_target) y = Lanes::template load<To>(at);
      add(Lanes::template load<From>(from + std::size_t{i} * sizeof(From)), y);
      Lanes::store(at, y);
    }
  }
  return bad != 0;
}

/// The share of one lane in all tiles that `block` of `blocks` takes of a run, every `blocks`th: the segments
/// are those of the run, `count` of them. The result is that of `accumulate_lane`.
template <class From, class To, class Operation, class Lanes = plain_lanes>
constexpr bool accumulate_block(sum_segment const* segments, std::uint32_t count, std::uint32_t tiles,
                                common_sum_t<From, To> factor, std::uint32_t block, std::uint32_t blocks,
                                std::uint32_t lane) {
  std::size_t at = 0;
  bool bad = false;
  for (std::uint64_t t = block; t < tiles; t += blocks) {
    auto const tile = static_cast<std::uint32_t>(t);
    at = segment_from(segments, count, at, tile);
    bad = accumulate_lane<From, To, Operation, Lanes>(segments[at], tile, factor, lane) || bad;
  }
  return bad;
}

}  // namespace cleave::detail
