// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/printable.hpp"

namespace cleave {

/// How many characters must be inserted, deleted or replaced to make `a` from `b` (Levenshtein). What is
/// beyond the first 256 bytes of either does not count. O(size of a * size of b).
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

/// The `how_many` names of `names` that are nearest to `wanted`, nearest first, equally near ones in their
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

/// `; nearest: 'a', 'b'`, or nothing where there are no names.
inline std::string suggestion(std::vector<std::string> const& nearest) {
  std::string text;
  for (auto const& name : nearest) text += (text.empty() ? "; nearest: " : ", ") + quoted(name);
  return text;
}
}  // namespace cleave
