// SPDX-License-Identifier: MIT
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

#include "cleave/core/real.hpp"
#include "cleave/cuda/detail/device_lanes.hpp"
#include "cleave/run/sums/floating_bits.hpp"

namespace cleave::inline v0_2::cuda {

/// The formats of 8-bit floats (OCP 8-bit Floating Point Specification, 2023). e4m3 has three bits of
/// mantissa and no infinity; e5m2 has two, and a wider range.
enum class fp8_format : std::uint8_t { e4m3, e5m2 };

}  // namespace cleave::cuda

namespace cleave::inline v0_2::detail {

/// The numbers of a format: the largest finite one, the bits of a mantissa, the bias of an exponent, and the
/// f32 whose unit in the last place is the smallest subnormal of the format.
template <cuda::fp8_format>
struct fp8_numbers;
template <>
struct fp8_numbers<cuda::fp8_format::e4m3> {
  static constexpr float most = 448, place = 16384;
  static constexpr std::uint32_t mantissa = 3, bias = 7;
};
template <>
struct fp8_numbers<cuda::fp8_format::e5m2> {
  static constexpr float most = 57344, place = 128;
  static constexpr std::uint32_t mantissa = 2, bias = 15;
};

inline constexpr std::uint8_t fp8_nan = 0x7f;

/// Rounds `x` to the nearest number of the format, ties to even. Precondition: `x` is NaN, or its magnitude
/// is at most `most`.
template <cuda::fp8_format F>
constexpr std::uint8_t fp8_of(float x) {
  using numbers = fp8_numbers<F>;
  auto const u = std::bit_cast<std::uint32_t>(x), magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return fp8_nan;
  constexpr std::uint32_t shift = 23 - numbers::mantissa, smallest_normal = (127u - numbers::bias + 1) << 23;
  std::uint32_t made = 0;
  if (magnitude < smallest_normal) {  // the addition rounds at the place of the last bit
    float const sum = std::bit_cast<float>(magnitude) + numbers::place;
    made = std::bit_cast<std::uint32_t>(sum) - std::bit_cast<std::uint32_t>(numbers::place);
  } else {
    made = (magnitude - ((127u - numbers::bias) << 23) + ((1u << (shift - 1)) - 1) +
            ((magnitude >> shift) & 1u)) >>
           shift;
  }
  return static_cast<std::uint8_t>(made | (u >> 24 & 0x80u));
}

/// Returns the number with these bits. Infinities of e5m2 are not expected.
template <cuda::fp8_format F>
constexpr float widened_fp8(std::uint8_t bits) {
  using numbers = fp8_numbers<F>;
  constexpr std::uint32_t shift = 23 - numbers::mantissa;
  std::uint32_t const magnitude = bits & 0x7fu, sign = (bits & 0x80u) << 24;
  if (magnitude == fp8_nan) return std::bit_cast<float>(0x7fffffffu);
  float made = 0;
  if (magnitude < 1u << numbers::mantissa)
    made = std::bit_cast<float>(std::bit_cast<std::uint32_t>(numbers::place) + magnitude) - numbers::place;
  else
    made = std::bit_cast<float>((magnitude << shift) + ((127u - numbers::bias) << 23));
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(made) | sign);
}

/// Values as a message of 8-bit floats: for each block of values the largest magnitude, as an f32, and then a
/// byte for each value. The scale of a block is its largest magnitude divided by the largest number of the
/// format.
struct fp8_block_list {
  std::uint64_t count = 0;  ///< values
  std::uint64_t block = 0;  ///< values in a block: a multiple of `fp8_together`, or 0 for a single block

  constexpr std::uint64_t blocks() const { return block == 0 ? 1 : (count + block - 1) / block; }
  constexpr std::uint64_t block_of(std::uint64_t value) const { return block == 0 ? 0 : value / block; }
  /// Returns where the bytes of the values begin.
  constexpr std::size_t first_byte() const {
    return static_cast<std::size_t>((blocks() * sizeof(float) + 15) / 16 * 16);
  }
  constexpr std::size_t bytes() const { return first_byte() + static_cast<std::size_t>(count); }
};

/// Values that a lane packs at a time, all of one block.
inline constexpr std::uint64_t fp8_together = 16;

/// Returns where a lane of a thread block begins, how far its next values are, and how many it takes at `at`.
constexpr std::uint64_t fp8_first(std::uint32_t block, std::uint32_t lane) {
  return (std::uint64_t{block} * device_lanes::lanes + lane) * fp8_together;
}
constexpr std::uint64_t fp8_apart(std::uint32_t blocks) {
  return std::uint64_t{blocks} * device_lanes::lanes * fp8_together;
}
constexpr std::uint64_t fp8_in_turn(fp8_block_list const& all, std::uint64_t at) {
  return all.count - at < fp8_together ? all.count - at : fp8_together;
}

/// Returns the bits of the largest magnitude among some values. Bits of larger magnitudes are larger, and
/// those of NaN are the largest.
template <class From, class Lanes>
constexpr std::uint32_t fp8_largest(std::byte const* from, std::uint64_t count) {
  std::uint32_t largest = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    float const x = Lanes::widen(Lanes::template load<From>(from + i * sizeof(From)));
    auto const magnitude = std::bit_cast<std::uint32_t>(x) & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

/// Packs some values of a block whose largest magnitude is `largest`. If that is not finite, all become NaN.
template <class From, cuda::fp8_format F, class Lanes>
constexpr void fp8_pack(std::byte const* from, std::byte* to, std::uint64_t count, float largest) {
  constexpr float most = fp8_numbers<F>::most;
  bool const finite = is_finite(largest);
  float const factor = largest == 0 || !is_finite(most / largest) ? 0 : most / largest;
  for (std::uint64_t i = 0; i < count; ++i) {
    float x = Lanes::product(Lanes::widen(Lanes::template load<From>(from + i * sizeof(From))), factor);
    x = x > most ? most : x < -most ? -most : x;  // the factor is rounded
    Lanes::store(to + i, finite ? fp8_of<F>(x) : fp8_nan);
  }
}

/// Unpacks some values of a block whose largest magnitude is `largest`.
template <class To, cuda::fp8_format F, class Lanes>
constexpr void fp8_unpack(std::byte const* from, std::byte* to, std::uint64_t count, float largest) {
  float const scale = largest / fp8_numbers<F>::most;
  for (std::uint64_t i = 0; i < count; ++i) {
    float const x = widened_fp8<F>(Lanes::template load<std::uint8_t>(from + i));
    Lanes::store(to + i * sizeof(To), Lanes::template narrow<To>(Lanes::product(x, scale)));
  }
}

}  // namespace cleave::detail
