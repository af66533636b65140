// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::detail {

/// The limits of several node weights, the same on all levels. If nodes have several weights, the engine
/// treats all of them as further weights. Its main weight is then their sum, each relative to its total.
struct further_limits {
  std::uint32_t weights = 0;        ///< the number of weights of a node
  std::vector<std::int64_t> limit;  ///< of part p for weight w: entry p * weights + w
  std::vector<double> unit;         ///< of each weight: what an excess of 1 counts; totals count the same

  std::int64_t const* of(std::uint32_t part) const { return limit.data() + std::size_t{part} * weights; }
  /// Returns how much the sums of a part exceed `most`, over all weights together; 0 only if none does.
  std::int64_t excess(std::int64_t const* sum, std::int64_t const* most) const {
    std::int64_t all = 0;
    for (std::uint32_t w = 0; w < weights; ++w)
      if (sum[w] > most[w]) all += counted(sum[w] - most[w], w);
    return all;
  }
  /// Returns `amount` of weight `w` in units that all weights share; at least 1.
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

}  // namespace cleave::detail
