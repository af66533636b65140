// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <type_traits>

#include "cleave/core/expects.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/run/sums/floating_bits.hpp"

namespace cleave::detail {

/// Calls `f` with a value of the type that holds elements of `t`; a `boolean` is a byte.
template <class F>
constexpr void with_element(element_type t, F f) {
  switch (t) {
    case element_type::f32:
      return f(float{});
    case element_type::f64:
      return f(double{});
    case element_type::f16:
      return f(float16_bits{});
    case element_type::bf16:
      return f(bfloat16_bits{});
    case element_type::i64:
      return f(std::int64_t{});
    case element_type::i32:
      return f(std::int32_t{});
    case element_type::i16:
      return f(std::int16_t{});
    case element_type::i8:
      return f(std::int8_t{});
    case element_type::u8:
    case element_type::boolean:
      return f(std::uint8_t{});
  }
}

/// The same for what takes floating-point numbers only. Precondition: `is_floating(t)`.
template <class F>
constexpr void with_floating(element_type t, F f) {
  expects(is_floating(t), "with_floating: a floating-point type");
  with_element(t, [&](auto zero) {
    if constexpr (!std::is_integral_v<decltype(zero)>) f(zero);
  });
}

}  // namespace cleave::detail
