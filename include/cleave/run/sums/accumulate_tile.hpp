// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cleave/run/sums/floating_bits.hpp"

/// Sums over the elements of many tensors at once, cut into tiles, as processors and graphics processors both
/// carry them out. Tiles may run in any order, and so may the lanes of one: each element belongs to one lane,
/// and lanes wait for nothing.
namespace cleave {

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

/// How a processor reads and writes its own memory, element after element, in one lane. A device has a type
/// of its own for that, with the same members.
struct plain_memory {
  static constexpr std::uint32_t lanes = 1;        ///< that share a tile
  static constexpr std::size_t pack_elements = 1;  ///< what is read or written at once
  static constexpr std::size_t packs_at_once = 1;  ///< loads of so many are issued before the first is used
  static constexpr bool packs_need_alignment = false;  ///< to 16 bytes; elements are read singly without

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
};

/// `to + factor * from`.
struct adding {
  static constexpr bool reads_target = true;
  template <class Sum>
  static constexpr Sum apply(Sum factor, Sum from, Sum to) {
    return to + factor * from;
  }
};

/// `factor * from`.
struct overwriting {
  static constexpr bool reads_target = false;
  template <class Sum>
  static constexpr Sum apply(Sum factor, Sum from, Sum /*to*/) {
    return factor * from;
  }
};

/// The share of one lane in one tile of a segment. `s.from` is memory of `From`, `s.to` of `To`, the same or
/// disjoint from it; sums are f64 where one of them is, f32 otherwise. Neighbouring lanes take neighbouring
/// packs.
template <class From, class To, class Operation, class Memory = plain_memory>
constexpr void accumulate_lane(sum_segment const& s, std::uint32_t tile, common_sum_t<From, To> factor,
                               std::uint32_t lane = 0) {
  using sum = common_sum_t<From, To>;
  constexpr std::size_t lanes = Memory::lanes, pack = Memory::pack_elements, at_once = Memory::packs_at_once;
  std::uint64_t const first = std::uint64_t{tile - s.first_tile} * tile_elements;
  std::uint64_t const left = s.count - first, count = left < tile_elements ? left : tile_elements;
  auto const* const from = static_cast<std::byte const*>(s.from) + first * sizeof(From);
  auto* const to = static_cast<std::byte*>(s.to) + first * sizeof(To);

  auto const add = [factor](From x, To& y) {
    sum before = 0;
    if constexpr (Operation::reads_target) before = sum{widened(y)};
    y = narrowed<To>(Operation::apply(factor, sum{widened(x)}, before));
  };
  auto const add_packs = [&](std::uint64_t p, auto how_many) {
    std::array<From, pack> x[decltype(how_many)::value];
    std::array<To, pack> y[decltype(how_many)::value];
    for (std::size_t u = 0; u < decltype(how_many)::value; ++u) {
      std::uint64_t const i = (p + u * lanes) * pack;
      x[u] = Memory::template load<std::array<From, pack>>(from + i * sizeof(From));
      if constexpr (Operation::reads_target)
        y[u] = Memory::template load<std::array<To, pack>>(to + i * sizeof(To));
    }
    for (std::size_t u = 0; u < decltype(how_many)::value; ++u) {
      for (std::size_t k = 0; k < pack; ++k) add(x[u][k], y[u][k]);
      Memory::store(to + (p + u * lanes) * pack * sizeof(To), y[u]);
    }
  };

  std::uint64_t packed = 0;
  if constexpr (pack > 1) {
    std::uint64_t const packs = !Memory::packs_need_alignment || s.aligned != 0 ? count / pack : 0;
    std::uint64_t p = lane;
    for (; p + (at_once - 1) * lanes < packs; p += at_once * lanes)
      add_packs(p, std::integral_constant<std::size_t, at_once>{});
    for (; p < packs; p += lanes) add_packs(p, std::integral_constant<std::size_t, 1>{});
    packed = packs * pack;
  }
  for (std::uint64_t i = packed + lane; i < count; i += lanes) {
    To y = {};
    if constexpr (Operation::reads_target) y = Memory::template load<To>(to + i * sizeof(To));
    add(Memory::template load<From>(from + i * sizeof(From)), y);
    Memory::store(to + i * sizeof(To), y);
  }
}

}  // namespace cleave
