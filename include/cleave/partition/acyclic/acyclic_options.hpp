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

namespace cleave {

/// What `partition_acyclic` makes least.
enum class acyclic_goal : std::uint8_t {
  bottleneck,  ///< the largest load, transfers included, as `balance` does
  cut,         ///< what crosses, while no part takes more than its share of the time and a little
};

/// What a cut counts.
enum class cut_measure : std::uint8_t {
  received_bytes,   ///< the bytes of a value once for each part that reads it elsewhere
  received_values,  ///< 1 instead
  edge_bytes,       ///< the bytes of a value once for each node that reads it in another part
};

/// What `partition_acyclic` tries to reach, and what it must respect.
struct acyclic_options {
  acyclic_goal goal = acyclic_goal::bottleneck;
  cut_measure counted = cut_measure::received_bytes;
  double epsilon = 0.03;  ///< of a cut: how much more than an even share a part may take, its speed minded
  device_order devices = device_order::given;
  double effort =
      1;  ///< how often it is tried anew, or a step's time asked for, as a multiple of what is usual
  balance_options limits{};  ///< costs, memory, devices, pins, co-location; how many orders are tried
};

/// Parts numbered in the order of the pipeline, and how good they are.
struct ordered_partition : partition {
  std::vector<double> loads{};          ///< of a part: its time and its transfers
  double bottleneck = 0;                ///< the largest of them
  double bound = 0;                     ///< no bottleneck can be below, contiguous or not
  double cut = 0;                       ///< as `counted` says
  std::vector<double> times{};          ///< of a part: what it computes, at its speed
  double imbalance = 0;                 ///< the longest of them above an even share, as a part of that
  double step_time = 0;                 ///< as the user's callable says; 0 where none was given
  bool balanced = true;                 ///< of a cut: within epsilon; else that was found impossible
  std::vector<std::uint32_t> device{};  ///< of a part: which of the devices it is, as `limits` lists them

  /// How far above the best the bottleneck can be at most, as a share of the bound.
  double gap() const {
    if (bottleneck <= bound) return 0;
    return bound > 0 ? bottleneck / bound - 1 : std::numeric_limits<double>::infinity();
  }
};

}  // namespace cleave

namespace cleave::detail {

/// The first thing in options that makes no sense for `g` and `k`, as a sentence, or nothing. O(V).
template <std::unsigned_integral Index>
std::optional<std::string> find_option_fault(acyclic_options const& o, basic_snapshot_arrays<Index> const& g,
                                             std::uint32_t k) {
  if (auto fault = find_option_fault(o.limits, g, k)) return fault;
  if (!(o.epsilon >= 0) || !is_finite(o.epsilon))
    return "epsilon is " + std::to_string(o.epsilon) + ": it must be finite, not negative";
  if (!(o.effort >= 0) || !is_finite(o.effort))
    return "effort is " + std::to_string(o.effort) + ": it must be finite, not negative";
  if (o.devices == device_order::any && !o.limits.fixed.empty())
    return "nodes are pinned to parts, and devices may stand in any order: give the order of devices";
  return std::nullopt;
}

}  // namespace cleave::detail
