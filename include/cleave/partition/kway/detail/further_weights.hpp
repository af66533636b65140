// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// The limits of several node weights, the same on all levels. If nodes have several weights, the engine
/// treats all of them as further weights. Its main weight is then their sum, each relative to its total.
struct further_limits {
  std::uint32_t weights = 0;        ///< the number of weights of a node
  std::vector<std::int64_t> limit;  ///< of part p for weight w: entry p * weights + w
  std::vector<double> unit;         ///< of each weight: the value of 1; all totals have the same value

  std::int64_t const* of(std::uint32_t part) const { return limit.data() + std::size_t{part} * weights; }
  /// Returns the value of an amount of weight `w`, at least 1, so that weights can be compared.
  std::int64_t counted(std::int64_t amount, std::uint32_t w) const {
    return std::int64_t{1} + static_cast<std::int64_t>(static_cast<double>(amount) * unit[w]);
  }
};

/// The further weights of the nodes of a level.
struct further_weights {
  std::int64_t const* of_nodes = nullptr;  ///< of node n for weight w: entry n * weights + w
  further_limits const* limits = nullptr;  ///< null if nodes have one weight only

  std::uint32_t count() const { return limits ? limits->weights : 0; }
  std::int64_t const* of(std::uint32_t n) const { return of_nodes + std::size_t{n} * limits->weights; }
};

/// The sums of the further weights in each part.
struct further_sums {
  std::vector<std::int64_t> sum{};         ///< of part p for weight w: entry p * weights + w
  further_limits const* limits = nullptr;  ///< null if nodes have one weight only

  std::int64_t const* of(std::uint32_t part) const {
    return sum.data() + std::size_t{part} * limits->weights;
  }
  void clear(std::size_t parts) { sum.assign(limits ? parts * limits->weights : 0, 0); }

  /// Adds the weights of a node to a part, or removes them with `sign` -1.
  void add(further_weights const& g, std::uint32_t n, std::uint32_t part, int sign = 1) {
    if (!limits) return;
    auto* const to = sum.data() + std::size_t{part} * limits->weights;
    for (std::uint32_t w = 0; w < limits->weights; ++w) to[w] += sign * g.of(n)[w];
  }
  /// Returns true if a part can take a node without exceeding a limit.
  bool fits(further_weights const& g, std::uint32_t n, std::uint32_t part) const {
    if (!limits) return true;
    for (std::uint32_t w = 0; w < limits->weights; ++w)
      if (g.of(n)[w] > 0 && of(part)[w] + g.of(n)[w] > limits->of(part)[w]) return false;
    return true;
  }
  /// Returns how much a part exceeds its limits, over all weights together; 0 only if it exceeds none.
  std::int64_t excess(std::uint32_t part) const {
    std::int64_t all = 0;
    for (std::uint32_t w = 0; limits && w < limits->weights; ++w)
      if (auto const over = of(part)[w] - limits->of(part)[w]; over > 0) all += limits->counted(over, w);
    return all;
  }
};

}  // namespace cleave::detail
