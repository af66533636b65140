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

namespace cleave::detail {

/// A chain of layers cut into parts: part s has the layers from bound s up to bound s + 1. One bound more
/// than parts, the first is 0, the last the number of layers. A part may be empty.
using chain_bounds = std::vector<std::size_t>;

/// A weight of a chain that is negative or not finite, or makes the sum infinite.
struct chain_weight_fault {
  std::size_t layer;
  double weight;

  bool operator==(chain_weight_fault const&) const = default;
};

inline std::string describe(chain_weight_fault const& f) {
  return "layer #" + std::to_string(f.layer) + " weighs " + std::to_string(f.weight) +
         ": weights are finite, not negative, and so is their sum";
}

using chain_weight_error = fault_error<chain_weight_fault>;

/// The first weight that is negative, not finite or makes the sum infinite, or nothing. O(layers).
inline std::optional<std::size_t> find_bad_weight(std::span<double const> weights) {
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    if (!(weights[i] >= 0) || !is_finite(sum)) return i;
  }
  return std::nullopt;
}

/// What each rule asks for. \throws error for no parts, chain_weight_error.
inline void check_chain(std::span<double const> weights, std::uint32_t k) {
  if (k == 0) throw error("a chain of " + std::to_string(weights.size()) + " layers into 0 parts: ask for 1");
  if (auto const bad = find_bad_weight(weights)) throw chain_weight_error({*bad, weights[*bad]});
}

/// What the heaviest part weighs.
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

namespace cleave {

/// The same as any other partition.
inline partition partition_of(detail::chain_bounds const& bounds) {
  partition p;
  p.parts = static_cast<std::uint32_t>(bounds.size() - 1);
  for (std::uint32_t s = 0; s < p.parts; ++s) p.of.resize(bounds[s + std::size_t{1}], part_id{s});
  return p;
}

}  // namespace cleave
