// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "cleave/core/language.hpp"

// A cut of a row is a list of places: slice s has the units from place s of the list to place s + 1.
namespace cleave::inline v0_2::detail {

/// Returns the number of cuts of a row into slices that are not empty: exact up to 2^53, infinite if too
/// large. Precondition: 1 <= slices <= units.
inline double number_of_cuts(std::size_t units, std::size_t slices) {
  double count = 1;
  for (std::size_t i = 1; i <= (std::min)(slices - 1, units - slices); ++i)
    count = count * static_cast<double>(units - i) / static_cast<double>(i);
  return count;
}

/// Returns the first cut in lexicographic order. Precondition: 1 <= slices <= units.
template <class Place>
std::vector<Place> first_row_cut(std::size_t units, std::size_t slices) {
  std::vector<Place> cut(slices + 1);
  std::iota(cut.begin(), cut.end(), Place{});
  cut.back() = static_cast<Place>(units);
  return cut;
}

/// Advances to the next cut in lexicographic order; returns false after the last.
template <class Place>
bool next_row_cut(std::vector<Place>& cut) {
  for (auto i = cut.size() - 1; i-- > 1;)
    if (cut[i] + (cut.size() - 1 - i) < cut.back()) {
      for (auto place = ++cut[i]; ++i < cut.size() - 1;) cut[i] = ++place;
      return true;
    }
  return false;
}

}  // namespace cleave::detail
