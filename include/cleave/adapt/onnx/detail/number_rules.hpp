// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "cleave/adapt/onnx/detail/arguments.hpp"
#include "cleave/adapt/onnx/detail/numbers.hpp"
#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// The arithmetic of single numbers. A result that could overflow, or whose operator is not defined for its
/// operands, is unknown.
struct onnx_number_rules {
  using numbers = onnx_numbers;
  using number = onnx_number;
  using node = ::onnx::NodeProto;

  /// Returns an unknown number of this element type.
  static number unknown(int element) {
    using type = ::onnx::TensorProto;
    if (element == type::BOOL) return {.low = 0, .high = 1};
    if (element == type::INT32)
      return {.low = (std::numeric_limits<std::int32_t>::min)(),
              .high = (std::numeric_limits<std::int32_t>::max)()};
    return {};
  }

  static numbers converted(numbers from, int to) {
    using type = ::onnx::TensorProto;
    bool const was_real = from.real();
    from.element = to;
    for (auto& x : from.data) {
      if (!x.known() && (from.real() || was_real)) {
        x = unknown(to);
      } else if (from.real()) {
        double const wide = was_real ? x.real : static_cast<double>(x.low);
        float const narrow = was_real ? static_cast<float>(x.real) : static_cast<float>(x.low);
        x = number::of_real(to == type::DOUBLE ? wide : static_cast<double>(narrow));
      } else if (to == type::BOOL) {
        if (was_real)
          x = number::of(x.real != 0);
        else
          x = truth_of(x);
      } else if (was_real) {
        // The limits are exact in floating point.
        x = std::abs(x.real) < (to == type::INT32 ? 2147483648.0 : 9223372036854775808.0)
                ? number::of(static_cast<std::int64_t>(x.real))
                : unknown(to);
      } else {
        x = bounded(to, x);
      }
    }
    return from;
  }

  static number truth(bool is_true) { return number::of(is_true); }
  static number truth_of(number const& x) {
    return x.low > 0 || x.high < 0 ? truth(true) : x.is(0) ? truth(false) : number{.low = 0, .high = 1};
  }
  static number maybe() { return {.low = 0, .high = 1}; }

  /// Returns `x` if it fits into the element type, and an unknown number if it could overflow.
  static number bounded(int element, number const& x) {
    auto const all = unknown(element);
    return x.low >= all.low && x.high <= all.high ? x : all;
  }

  static number either(int element, number const& x, number const& y) {
    if (x.same(y)) return x;
    if (element == ::onnx::TensorProto::FLOAT || element == ::onnx::TensorProto::DOUBLE)
      return x.real == y.real ? x : number{};
    return {.low = (std::min)(x.low, y.low), .high = (std::max)(x.high, y.high)};
  }

  /// Returns the interval of `f` over the corners of two intervals; unknown if a corner overflows.
  template <class F>
  static number over_corners(number const& x, number const& y, F f) {
    number made{.low = number::highest, .high = number::lowest};
    for (auto const a : {x.low, x.high})
      for (auto const b : {y.low, y.high}) {
        std::int64_t at = 0;
        if (f(a, b, &at)) return {};
        made.low = (std::min)(made.low, at);
        made.high = (std::max)(made.high, at);
      }
    return made;
  }

  static number add(node const&, number const& x, number const& y) {
    if (y.is(0)) return x;
    if (x.is(0)) return y;
    return over_corners(x, y, [](auto a, auto b, auto* to) { return __builtin_add_overflow(a, b, to); });
  }
  static number subtract(node const&, number const& x, number const& y) {
    if (y.is(0)) return x;
    if (x.same(y)) return number::of(0);
    return over_corners(x, y, [](auto a, auto b, auto* to) { return __builtin_sub_overflow(a, b, to); });
  }
  static number multiply(node const&, number const& x, number const& y) {
    if (y.is(1)) return x;
    if (x.is(1)) return y;
    if (x.is(0) || y.is(0)) return number::of(0);
    return over_corners(x, y, [](auto a, auto b, auto* to) { return __builtin_mul_overflow(a, b, to); });
  }
  /// ONNX truncates toward zero.
  static number divide(node const&, number const& x, number const& y) {
    if (y.is(1)) return x;
    if (y.low <= 0 && y.high >= 0) return {};
    if (x.same(y)) return number::of(1);
    return over_corners(x, y, [](auto a, auto b, auto* to) {
      if (a == number::lowest && b == -1) return true;
      *to = a / b;
      return false;
    });
  }
  static number modulo(node const& n, number const& x, number const& y) {
    if (!y.whole() || y.low == 0 || y.low == -1) return y.is(-1) ? number::of(0) : number{};
    bool const as_c = onnx_whole_attribute(n, "fmod", 0) != 0;
    if (x.whole()) {
      auto const rest = x.low % y.low;
      return number::of(!as_c && rest != 0 && (rest < 0) != (y.low < 0) ? rest + y.low : rest);
    }
    if (y.low > 0 && x.low >= 0) return x.high < y.low ? x : number{.low = 0, .high = y.low - 1};
    return {};
  }
  static number power(node const&, number const& x, number const& y) {
    if (!x.whole() || !y.whole() || y.low < 0 || y.low > 63) return {};
    std::int64_t made = 1;
    for (std::int64_t i = 0; i < y.low; ++i)
      if (__builtin_mul_overflow(made, x.low, &made)) return {};
    return number::of(made);
  }
  static number least(node const&, number const& x, number const& y) {
    if (x.same(y) || x.high <= y.low) return x;
    if (y.high <= x.low) return y;
    return {.low = (std::min)(x.low, y.low), .high = (std::min)(x.high, y.high)};
  }
  static number greatest(node const&, number const& x, number const& y) {
    if (x.same(y) || x.low >= y.high) return x;
    if (y.low >= x.high) return y;
    return {.low = (std::max)(x.low, y.low), .high = (std::max)(x.high, y.high)};
  }
  static number equal(node const&, number const& x, number const& y) {
    if (x.same(y)) return truth(true);
    return x.high < y.low || y.high < x.low ? truth(false) : maybe();
  }
  static number less(node const&, number const& x, number const& y) {
    if (x.same(y)) return truth(false);
    return x.high < y.low ? truth(true) : x.low >= y.high ? truth(false) : maybe();
  }
  static number less_equal(node const&, number const& x, number const& y) {
    if (x.same(y)) return truth(true);
    return x.high <= y.low ? truth(true) : x.low > y.high ? truth(false) : maybe();
  }
  static number greater(node const& n, number const& x, number const& y) { return less(n, y, x); }
  static number greater_equal(node const& n, number const& x, number const& y) { return less_equal(n, y, x); }
  static number both(node const&, number const& x, number const& y) {
    return {.low = (std::min)(x.low, y.low), .high = (std::min)(x.high, y.high)};
  }
  static number any(node const&, number const& x, number const& y) {
    return {.low = (std::max)(x.low, y.low), .high = (std::max)(x.high, y.high)};
  }
  static number unequal(node const&, number const& x, number const& y) {
    return x.whole() && y.whole() ? truth(x.low != y.low) : maybe();
  }

  static double real_add(double x, double y) { return x + y; }
  static double real_subtract(double x, double y) { return x - y; }
  static double real_multiply(double x, double y) { return x * y; }
  static double real_divide(double x, double y) { return x / y; }
  static double real_least(double x, double y) { return y < x ? y : x; }
  static double real_greatest(double x, double y) { return y > x ? y : x; }
  static double real_equal(double x, double y) { return x == y; }
  static double real_less(double x, double y) { return x < y; }
  static double real_less_equal(double x, double y) { return x <= y; }
  static double real_greater(double x, double y) { return x > y; }
  static double real_greater_equal(double x, double y) { return x >= y; }

  using whole_function = number (*)(node const&, number const&, number const&);
  using real_function = double (*)(double, double);

  /// Returns `f(a, b)` for single numbers of the element type `from`; the result has the type `to`.
  static number apply(whole_function f, real_function real, node const& n, int from, int to, number const& a,
                      number const& b) {
    using type = ::onnx::TensorProto;
    if (from != type::FLOAT && from != type::DOUBLE) return bounded(to, f(n, a, b));
    if (real == nullptr || !a.known() || !b.known()) return unknown(to);
    double const x = real(a.real, b.real);
    if (to == type::BOOL) return truth(x != 0);
    return number::of_real(to == type::FLOAT ? static_cast<double>(static_cast<float>(x)) : x);
  }

  static number negative(number const& x) { return subtract({}, number::of(0), x); }
  static number magnitude(number const& x) {
    return x.low >= 0                ? x
           : x.high <= 0             ? negative(x)
           : x.low == number::lowest ? number{}
                                     : number{.low = 0, .high = (std::max)(-x.low, x.high)};
  }
  static number sign(number const& x) {
    return {.low = x.low > 0 ? 1 : x.low == 0 ? 0 : -1, .high = x.high > 0 ? 1 : x.high == 0 ? 0 : -1};
  }
  static number opposite(number const& x) { return subtract({}, truth(true), x); }
  static number same(number const& x) { return x; }
  static double real_negative(double x) { return -x; }
  static double real_magnitude(double x) { return std::abs(x); }
  static double real_sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
  static double real_floor(double x) { return std::floor(x); }
  static double real_ceiling(double x) { return std::ceil(x); }
  static double real_round(double x) { return std::nearbyint(x); }
  static double real_root(double x) { return std::sqrt(x); }
  static double real_inverse(double x) { return 1 / x; }
  static double real_same(double x) { return x; }
};

}  // namespace cleave::detail
