// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/real.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::inline v0_2::detail {

/// Bounds of consecutive parts of a chain: part s consists of layers bounds[s] up to, but not including,
/// bounds[s + 1]. There is one more bound than parts. The first is 0 and the last is the number of layers. A
/// part may be empty.
using chain_bounds = std::vector<std::size_t>;

/// A layer weight that is negative, not finite, or makes the sum of the weights infinite.
struct chain_weight_fault {
  std::size_t layer;
  double weight;

  bool operator==(chain_weight_fault const&) const = default;
};

inline std::string describe(chain_weight_fault const& f) {
  return "layer #" + std::to_string(f.layer) + " weighs " + std::to_string(f.weight) +
         ": weights and their sum must be finite and not negative";
}

using chain_weight_error = fault_error<chain_weight_fault>;

/// Returns the first layer whose weight is negative, not finite or makes the sum infinite, if any. O(layers).
inline std::optional<std::size_t> find_bad_weight(std::span<double const> weights) {
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    if (!(weights[i] >= 0) || !is_finite(sum)) return i;
  }
  return std::nullopt;
}

/// Checks the arguments common to all chain rules. \throws error if `k` is 0, chain_weight_error.
inline void check_chain(std::span<double const> weights, std::uint32_t k) {
  if (k == 0)
    throw error("a chain of " + std::to_string(weights.size()) +
                " layers cannot be cut into 0 parts; pass at least 1");
  if (auto const bad = find_bad_weight(weights)) throw chain_weight_error({*bad, weights[*bad]});
}

/// Returns the weight of the heaviest part.
inline double largest_sum(std::span<double const> weights, chain_bounds const& bounds) {
  double largest = 0;
  for (std::size_t s = 0; s + 1 < bounds.size(); ++s) {
    double sum = 0;
    for (std::size_t i = bounds[s]; i < bounds[s + 1]; ++i) sum += weights[i];
    largest = (std::max)(largest, sum);
  }
  return largest;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the partition with these bounds: layer i of the chain is node i. O(layers).
inline partition partition_of(detail::chain_bounds const& bounds) {
  partition p;
  p.parts = static_cast<std::uint32_t>(bounds.size() - 1);
  for (std::uint32_t s = 0; s < p.parts; ++s) p.of.resize(bounds[s + std::size_t{1}], part_id{s});
  return p;
}

}  // namespace cleave
