// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>

#include "cleave/run/sums/floating_bits.hpp"
#include "cleave/run/sums/with_element.hpp"
#include "cleave/run/tensor_view.hpp"

namespace cleave {

/// Of elements of one type, in blocks, whose sums are added in order: rounding grows with the number of
/// blocks and the size of one, not with all elements.
template <class T>
double sum_of_squares(T const* elements, std::size_t count) {
  constexpr std::size_t block = 4096;
  double all = 0;
  for (std::size_t first = 0; first < count; first += block) {
    double sum = 0;
    for (std::size_t i = first; i < std::min(count, first + block); ++i) {
      auto const x = static_cast<double>(widened(elements[i]));
      sum += x * x;
    }
    all += sum;
  }
  return all;
}

/// Of all elements of all regions, in their order: as a double, the same wherever it is computed.
/// Precondition: they are floating-point numbers. O(elements).
inline double sum_of_squares(std::span<region const> regions) {
  double all = 0;
  for (auto const& r : regions)
    with_floating(r.type, [&](auto zero) {
      all += sum_of_squares(static_cast<decltype(zero) const*>(r.data), r.count);
    });
  return all;
}

}  // namespace cleave
