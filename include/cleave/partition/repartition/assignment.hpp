// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"

namespace cleave::detail {

/// Gives each row of a square table a column of its own so that the entries taken add up to the most:
/// `profit[row * n + column]`, each of at most 2^61 / n in magnitude. O(n^3), without recursion. Kuhn, Naval
/// Res. Logist. Q. 2, 1955; by shortest augmenting paths, Jonker, Volgenant, Computing 38, 1987.
inline std::vector<std::uint32_t> heaviest_assignment(std::span<std::int64_t const> profit, std::uint32_t n) {
  expects(profit.size() == std::size_t{n} * n, "heaviest_assignment: a square table");
  auto const nobody = n;  // the column from which each path starts
  std::vector<std::uint32_t> row_of(n + std::size_t{1}, nobody);
  std::vector<std::int64_t> row_price(n, 0), column_price(n + std::size_t{1}, 0);
  auto const unreachable = (std::numeric_limits<std::int64_t>::max)();
  for (std::uint32_t row = 0; row < n; ++row) {
    row_of[nobody] = row;
    std::vector<std::int64_t> distance(n, unreachable);
    std::vector<std::uint32_t> before(n, nobody);
    std::vector<char> done(n + std::size_t{1}, 0);
    auto at = nobody;
    do {
      done[at] = 1;
      auto const from = row_of[at];
      auto nearest = nobody;
      std::int64_t step = unreachable;
      for (std::uint32_t column = 0; column < n; ++column) {
        if (done[column]) continue;
        auto const reduced = -profit[from * std::size_t{n} + column] - row_price[from] - column_price[column];
        if (reduced < distance[column]) distance[column] = reduced, before[column] = at;
        if (distance[column] < step) step = distance[column], nearest = column;
      }
      for (std::uint32_t column = 0; column < n; ++column)
        if (done[column])
          row_price[row_of[column]] += step, column_price[column] -= step;
        else
          distance[column] -= step;
      row_price[row] += step;  // of the path's own row
      at = nearest;
    } while (row_of[at] != nobody);
    for (; at != nobody; at = before[at]) row_of[at] = row_of[before[at]];
  }
  std::vector<std::uint32_t> column_of(n);
  for (std::uint32_t column = 0; column < n; ++column) column_of[row_of[column]] = column;
  return column_of;
}

}  // namespace cleave::detail
