// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"

namespace cleave::detail {

/// Rows `first`, first + 1, …, last - 1.
struct row_range {
  std::int64_t first, last;

  bool operator==(row_range const&) const = default;
};

/// The rows of microbatch `i` of `k` of a batch of `rows`: neighbours, and the first `rows` mod `k`
/// microbatches have one more than the others. Precondition: 0 <= i < k, 0 <= rows.
constexpr row_range microbatch_rows(std::int64_t rows, std::int64_t k, std::int64_t i) {
  auto const begin = [each = rows / k, longer = rows % k](std::int64_t j) {
    return j * each + (std::min)(j, longer);
  };
  return {begin(i), begin(i + 1)};
}

/// How many microbatches there can be: 1 to this.
inline constexpr std::int64_t most_microbatches = 0xfffffffe;

/// The sizes of the microbatches of a batch of `rows`: `asked` of them, or one a row where that is fewer.
/// \throws error where `asked` or `rows` is no such number.
inline std::vector<std::int64_t> microbatch_sizes(std::int64_t rows, std::int64_t asked) {
  if (asked < 1 || asked > most_microbatches)
    throw error("microbatch_sizes: " + std::to_string(asked) + " microbatches; ask for 1 to " +
                std::to_string(most_microbatches));
  if (rows < 0)
    throw error("microbatch_sizes: " + std::to_string(rows) + " rows; there cannot be fewer than 0");
  std::vector<std::int64_t> sizes;
  std::int64_t const k = (std::min)(asked, rows);
  for (std::int64_t i = 0; i < k; ++i) {
    auto const [first, last] = microbatch_rows(rows, k, i);
    sizes.push_back(last - first);
  }
  return sizes;
}

}  // namespace cleave::detail
