// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/real.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/slices/balance.hpp"

namespace cleave::inline v0_2 {

/// The objective of `partition_acyclic`.
enum class acyclic_goal : std::uint8_t {
  bottleneck,  ///< the largest load, transfers included, as in `balance`
  cut,         ///< the cut, while no part exceeds its share of the time by more than `epsilon`
};

/// The unit in which a cut is measured.
enum class cut_measure : std::uint8_t {
  received_bytes,   ///< the bytes of a value, once for each other part that reads it
  received_values,  ///< 1 instead of the bytes
  edge_bytes,       ///< the bytes of a value, once for each node in another part that reads it
};

/// Objective, constraints and effort of `partition_acyclic`.
struct acyclic_options {
  acyclic_goal goal = acyclic_goal::bottleneck;
  cut_measure counted = cut_measure::received_bytes;
  double epsilon = 0.03;  ///< goal `cut`: how far a part may exceed an even share of the time, given its
                          ///< speed
  device_order devices = device_order::given;
  double effort = 1;         ///< number of rounds, or of calls of `step_time`, relative to the default
  balance_options limits{};  ///< costs, memory, devices, fixed nodes, co-location, and the number of orders
                             ///< tried
};

/// Parts numbered in pipeline order, with their quality.
struct ordered_partition : partition {
  std::vector<double> loads{};          ///< of each part: compute time plus transfers
  double bottleneck = 0;                ///< the largest load
  double bound = 0;                     ///< a lower bound on the bottleneck of any partition, contiguous or
                                        ///< not
  double cut = 0;                       ///< in the unit of `counted`
  std::vector<double> times{};          ///< of each part: compute time at its speed
  double imbalance = 0;                 ///< how far the longest time is above an even share: 0.03 is 3 %
  double step_time = 0;                 ///< the value of the user's callable; 0 if none was given
  bool balanced = true;                 ///< goal `cut`: false if no partition within `epsilon` was found
  std::vector<std::uint32_t> device{};  ///< of each part: its device, by position in `limits`

  /// Returns an upper bound on how far the bottleneck is above the optimum, as a fraction of the bound.
  double gap() const {
    if (bottleneck <= bound) return 0;
    return bound > 0 ? bottleneck / bound - 1 : std::numeric_limits<double>::infinity();
  }
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Describes the first option that is invalid for `g` and `k`, or returns nothing. O(V).
template <std::unsigned_integral Index>
std::optional<std::string> find_option_fault(acyclic_options const& o, basic_snapshot_arrays<Index> const& g,
                                             std::uint32_t k) {
  if (auto fault = find_option_fault(o.limits, g, k)) return fault;
  if (o.limits.relayed) return "`relayed` is supported by balance only; leave it out";
  if (!(o.epsilon >= 0) || !is_finite(o.epsilon))
    return "epsilon is " + std::to_string(o.epsilon) + ": expected a finite number of at least 0";
  if (!(o.effort >= 0) || !is_finite(o.effort))
    return "effort is " + std::to_string(o.effort) + ": expected a finite number of at least 0";
  if (o.devices == device_order::any && !o.limits.fixed.empty())
    return "nodes are fixed to parts, which requires a given device order: set devices to "
           "device_order::given";
  return std::nullopt;
}

}  // namespace cleave::detail
