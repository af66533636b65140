// SPDX-License-Identifier: MIT
#pragma once
#include <bit>
#include <cstdint>
#include <type_traits>

#include "cleave/core/real.hpp"

/// Storage formats of 16-bit floats, and their conversion to and from arithmetic types. Everything is
/// constexpr, so that nvcc accepts it in device code (with --expt-relaxed-constexpr).
namespace cleave::inline v0_2::detail {

/// A bfloat16: the upper half of an f32.
struct bfloat16_bits {
  std::uint16_t bits;
};

/// IEEE 754 binary16.
struct float16_bits {
  std::uint16_t bits;
};

/// The arithmetic type for elements of type `T`.
template <class T>
using widened_t = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// The arithmetic type for elements of types `A` and `B` together.
template <class A, class B>
using common_sum_t =
    std::conditional_t<std::is_same_v<A, double> || std::is_same_v<B, double>, double, float>;

/// Returns `first ? a : b` by masking, without a branch, so that loops with it vectorise.
constexpr std::uint32_t bit_select(bool first, std::uint32_t a, std::uint32_t b) {
  std::uint32_t const mask = 0u - static_cast<std::uint32_t>(first);
  return (a & mask) | (b & ~mask);
}

constexpr float widened(float x) { return x; }
constexpr double widened(double x) { return x; }
constexpr float widened(bfloat16_bits x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}
/// Returns `x` as an f32. No intermediate value is a subnormal f32, which some processors flush to zero.
constexpr float widened(float16_bits x) {
  constexpr std::uint32_t bias = (127u - 15) << 23, all_ones = 0x1fu << 23;
  std::uint32_t const magnitude = (x.bits & 0x7fffu) << 13, exponent = magnitude & all_ones;
  std::uint32_t const normal = magnitude + bias + bit_select(exponent == all_ones, bias, 0);
  float const small = std::bit_cast<float>(magnitude + bias + (1u << 23)) - 0x1p-14f;
  std::uint32_t const bits = bit_select(exponent == 0, std::bit_cast<std::uint32_t>(small), normal);
  return std::bit_cast<float>(bits | (x.bits & 0x8000u) << 16);
}

/// Rounds `x` to odd: towards 0, with the last bit set if the result is inexact. Rounding this further, to at
/// most 22 bits, gives the same as rounding `x` directly. Boldo, Melquiond, IEEE Trans. Computers 57(4),
/// 2008.
constexpr float rounded_to_odd(double x) {
  auto const nearest = static_cast<float>(x);
  auto const back = static_cast<double>(nearest);
  auto const size = [](double v) { return v < 0 ? -v : v; };
  std::uint32_t const away = size(back) > size(x) ? 1 : 0, inexact = back < x || back > x ? 1 : 0;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(nearest) - away) | inexact);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Rounds `x` to the nearest `T`, ties to even. A 16-bit NaN becomes 0x7fff, as in CUDA.
template <class T>
constexpr T narrowed(float x) {
  auto const u = std::bit_cast<std::uint32_t>(x);
  std::uint32_t const magnitude = u & 0x7fffffffu;
  auto const unless_nan = [magnitude](std::uint32_t bits) {
    return static_cast<std::uint16_t>(detail::bit_select(magnitude > 0x7f800000u, 0x7fffu, bits));
  };
  if constexpr (std::is_same_v<T, detail::bfloat16_bits>) {
    return {unless_nan((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
  } else if constexpr (std::is_same_v<T, detail::float16_bits>) {
    constexpr std::uint32_t smallest_normal = (127u - 14) << 23, beyond = (127u + 16) << 23;
    bool const is_small = magnitude < smallest_normal;
    // below the smallest normal number the f32 addition rounds at the place of the last bit of a float16
    float const aligned = std::bit_cast<float>(detail::bit_select(is_small, magnitude, 0)) + 0.5f;
    std::uint32_t const small = std::bit_cast<std::uint32_t>(aligned) - std::bit_cast<std::uint32_t>(0.5f);
    std::uint32_t const normal = (magnitude - ((127u - 15) << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    std::uint32_t const finite = detail::bit_select(is_small, small, normal);
    return {unless_nan(detail::bit_select(magnitude >= beyond, 0x7c00u, finite) | (u >> 16 & 0x8000u))};
  } else {
    return static_cast<T>(x);
  }
}
template <class T>
constexpr T narrowed(double x) {
  if constexpr (sizeof(T) == 2)
    return narrowed<T>(detail::rounded_to_odd(x));
  else
    return static_cast<T>(x);
}

/// Returns true if `x` is neither infinite nor NaN, like `is_finite` of a double.
constexpr bool is_finite(float x) { return (std::bit_cast<std::uint32_t>(x) & 0x7f800000u) != 0x7f800000u; }
constexpr bool is_finite(detail::bfloat16_bits x) { return (x.bits & 0x7f80u) != 0x7f80u; }
constexpr bool is_finite(detail::float16_bits x) { return (x.bits & 0x7c00u) != 0x7c00u; }

}  // namespace cleave
