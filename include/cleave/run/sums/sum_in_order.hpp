// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "cleave/run/model/concepts.hpp"
#include "cleave/run/sums/floating_bits.hpp"
#include "cleave/run/sums/with_element.hpp"

namespace cleave::detail {

/// Why regions cannot be reduced to one, as a sentence that counts them from 0; or nothing.
inline std::optional<std::string> find_reduction_fault(std::span<region const> regions, reduce_op op) {
  for (std::size_t i = 0; i < regions.size(); ++i) {
    auto const& r = regions[i];
    auto const words = [](region const& x) {
      return std::to_string(x.count) + " elements of " + std::string(name_of(x.type));
    };
    if (r.type != regions[0].type || r.count != regions[0].count)
      return "region " + std::to_string(i) + " has " + words(r) + ", region 0 has " + words(regions[0]);
    if (r.count > 0 && !r.data) return "region " + std::to_string(i) + " has no address";
    if (r.type == element_type::boolean && op == reduce_op::sum)
      return "region " + std::to_string(i) + " has truth values, which have no sum; i64 or u8 has one";
  }
  return std::nullopt;
}

/// How elements of type `T` are reduced: sums wrap, or are rounded; the maximum is the first of
/// the largest, and a NaN where there is one.
template <class T>
struct element_reduction {
  static constexpr auto widen(T x) {
    if constexpr (std::is_integral_v<T>)
      return x;
    else
      return widened(x);
  }
  using wide = decltype(widen(T{}));

  static constexpr wide sum(wide a, wide b) {
    if constexpr (std::is_integral_v<T>) {
      using bits = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<bits>(std::uint64_t{static_cast<bits>(a)} + static_cast<bits>(b)));
    } else {
      return a + b;
    }
  }
  static constexpr wide larger(wide a, wide b) {
    if constexpr (std::is_integral_v<T>)
      return a < b ? b : a;
    else
      return a < b || (b != b && a == a) ? b : a;
  }
  static constexpr T narrow(wide x) {
    if constexpr (std::is_integral_v<T>)
      return x;
    else
      return narrowed<T>(x);
  }
};

/// Element by element r0 + r1 + …, or their maximum, in the order of the list, written to all of them. A sum
/// of 16-bit numbers is made in f32 and rounded once. The same bits wherever it runs. Preconditions:
/// `find_reduction_fault` finds nothing; regions do not overlap.
inline void sum_in_order(std::span<region const> regions, reduce_op op) {
  if (regions.empty() || regions[0].count == 0) return;
  with_element(regions[0].type, [&](auto example) {
    using element = decltype(example);
    using reduction = element_reduction<element>;
    constexpr std::size_t block = 512;
    std::array<typename reduction::wide, block> made;
    std::array<element, block> one;
    for (std::size_t first = 0; first < regions[0].count; first += block) {
      std::size_t const n = (std::min)(block, regions[0].count - first), bytes = n * sizeof(element);
      auto const at = [first](region const& r) {
        return static_cast<std::byte*>(r.data) + first * sizeof(element);
      };
      for (std::size_t r = 0; r < regions.size(); ++r) {
        std::memcpy(one.data(), at(regions[r]), bytes);
        if (r == 0)
          for (std::size_t k = 0; k < n; ++k) made[k] = reduction::widen(one[k]);
        else if (op == reduce_op::sum)
          for (std::size_t k = 0; k < n; ++k) made[k] = reduction::sum(made[k], reduction::widen(one[k]));
        else
          for (std::size_t k = 0; k < n; ++k) made[k] = reduction::larger(made[k], reduction::widen(one[k]));
      }
      for (std::size_t k = 0; k < n; ++k) one[k] = reduction::narrow(made[k]);
      for (auto const& r : regions) std::memcpy(at(r), one.data(), bytes);
    }
  });
}

}  // namespace cleave::detail
