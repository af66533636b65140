// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cleave/core/real.hpp"
#include "cleave/run/sums/floating_bits.hpp"

/// Element-wise accumulation over many tensors at once, cut into tiles, with the same code on CPUs and GPUs.
/// Tiles may run in any order. So may the lanes of a tile: each element belongs to one lane, and lanes never
/// synchronise.
namespace cleave::inline v0_2::detail {

inline constexpr std::size_t tile_elements = 8192;

/// A pair of regions in a table of sums: `count` elements, whose tiles are numbered from `first_tile`.
struct alignas(16) sum_segment {
  void const* from;
  void* to;
  std::uint64_t count;
  std::uint32_t first_tile;
  std::uint32_t aligned;  ///< 2 if both addresses are multiples of 32 bytes, else 1 if of 16, else 0
};
static_assert(sizeof(sum_segment) == 32);

/// Returns the number of tiles that `count` elements take.
constexpr std::uint64_t tiles_of(std::uint64_t count) {
  return count / tile_elements + (count % tile_elements == 0 ? 0 : 1);
}

/// Returns the index of the segment that contains `tile`. `segments` are sorted by tile and not empty.
constexpr std::size_t segment_of(sum_segment const* segments, std::size_t count, std::uint32_t tile) {
  std::size_t low = 0, high = count;
  while (high - low > 1) {
    std::size_t const middle = low + (high - low) / 2;
    (segments[middle].first_tile <= tile ? low : high) = middle;
  }
  return low;
}

/// Returns the index of the segment that contains `tile`, which is at or after segment `from`. O(1) if the
/// tile is in that segment.
constexpr std::size_t segment_from(sum_segment const* segments, std::size_t count, std::size_t from,
                                   std::uint32_t tile) {
  if (tile - segments[from].first_tile < tiles_of(segments[from].count)) return from;
  return from + segment_of(segments + from, count - from, tile);
}

/// The lane type of a CPU: one lane that processes a tile element by element. GPUs have their own type with
/// the same members.
struct plain_lanes {
  static constexpr std::uint32_t lanes = 1;  ///< number of lanes that share a tile
  /// Elements loaded or stored at once.
  template <class From, class To>
  static constexpr std::size_t pack_elements = 1;
  /// Packs that are loaded before the first of them is used.
  template <class From, class To, class Operation>
  static constexpr std::size_t packs_at_once = 1;
  /// The least `sum_segment::aligned` for packs. Other segments are processed element by element.
  static constexpr std::uint32_t pack_alignment = 0;
  static constexpr std::uint32_t singles_at_once = 1;  ///< as `packs_at_once`, for single elements

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
  /// Returns `a * b`, rounded before any addition (no fused multiply-add).
  template <class Sum>
  static constexpr Sum product(Sum a, Sum b) {
    return rounded_product(a, b);
  }
  template <class Sum>
  static constexpr Sum sum(Sum a, Sum b) {
    return a + b;
  }
};

/// The operation `to + factor * from`.
struct adding {
  static constexpr bool reads_target = true, checks_nonfinite = false;
  template <class Lanes, class Sum>
  static constexpr Sum apply(Sum factor, Sum from, Sum to) {
    return Lanes::sum(to, Lanes::product(factor, from));
  }
};

/// The operation `factor * from`.
struct overwriting {
  static constexpr bool reads_target = false, checks_nonfinite = false;
  template <class Lanes, class Sum>
  static constexpr Sum apply(Sum factor, Sum from, Sum /*to*/) {
    return Lanes::product(factor, from);
  }
};

/// `Operation`, which also checks that each result is finite.
template <class Operation>
struct nonfinite_checked : Operation {
  static constexpr bool checks_nonfinite = true;
};

/// Processes one lane's share of a tile of segment `s`. Returns true if it wrote a non-finite value and
/// `Operation` checks for them. `s.from` points to `From`, `s.to` to `To`; the two are the same memory or
/// disjoint. Arithmetic is in f64 if either type is f64, else in f32. Neighbouring lanes take neighbouring
/// packs.
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
  // adds `how_many` packs of `size` elements, starting at element `at`, `lanes` packs apart
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
  // adds all whole packs from element `at` on, `at_once` per iteration while enough are left; returns the end
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
    if (s.aligned >= Lanes::pack_alignment) packed = add_all(0, pack{}, packs_at_once{});
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

/// Processes one lane's share of the tiles of a run that thread block `block` takes: every `blocks`-th tile.
/// `segments` are the `count` segments of the run. Returns the same as `accumulate_lane`.
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
