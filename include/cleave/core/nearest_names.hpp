// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/printable.hpp"

namespace cleave::inline v0_2 {

/// Returns the Levenshtein distance of `a` and `b`: the smallest number of bytes to insert, delete or
/// replace. Only the first 256 bytes of each count. O(size of a * size of b).
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  a = a.substr(0, 256);
  b = b.substr(0, 256);
  std::vector<std::size_t> row;
  for (std::size_t j = 0; j <= b.size(); ++j) row.push_back(j);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      std::size_t const replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = (std::min)({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

/// Returns the `how_many` names that are nearest to `wanted`, nearest first. Equally near names keep their
/// order. O(names * size of wanted * size of a name).
inline std::vector<std::string> nearest_names(std::string_view wanted, std::vector<std::string> const& names,
                                              std::size_t how_many = 3) {
  std::vector<std::pair<std::size_t, std::size_t>> ranked;
  for (std::size_t i = 0; i < names.size(); ++i) ranked.emplace_back(edit_distance(wanted, names[i]), i);
  std::sort(ranked.begin(), ranked.end());
  ranked.resize((std::min)(ranked.size(), how_many));
  std::vector<std::string> best;
  for (auto const& [distance, i] : ranked) best.push_back(names[i]);
  return best;
}

/// Returns those of `nearest_names(wanted, names)` that a slip could turn into `wanted`: at most half of the
/// bytes of the longer name differ, or the name begins with `wanted`.
inline std::vector<std::string> near_names(std::string_view wanted, std::vector<std::string> const& names) {
  auto found = nearest_names(wanted, names);
  std::erase_if(found, [&](std::string const& name) {
    bool const begins = !wanted.empty() && name.starts_with(wanted);
    return !begins && 2 * edit_distance(wanted, name) > (std::max)(wanted.size(), name.size());
  });
  return found;
}

/// Returns `; nearest: 'a', 'b'`, or an empty text if there are no names.
inline std::string suggestion(std::vector<std::string> const& nearest) {
  std::string text;
  for (auto const& name : nearest) text += (text.empty() ? "; nearest: " : ", ") + quoted(name);
  return text;
}
}  // namespace cleave
