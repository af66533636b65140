// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cleave/core/language.hpp"

/// The result and the options of `cut_joint_graph`.
namespace cleave::inline v0_2 {

/// Options of `cut_joint_graph`.
struct joint_cut_options {
  /// Limit on the bytes that all microbatches in flight save. If given, the search is for the least cost of
  /// operations that run again within this limit.
  std::optional<std::size_t> most_bytes = {};
  /// Without a limit: the bytes that one unit of cost must save, at least 0.
  double bytes_per_cost = 0;
  std::size_t in_flight = 1;  ///< microbatches between their forward and their backward pass
  std::size_t weights_in_flight =
      0;  ///< microbatches between their backward and their weight pass; 0: no weight pass
  std::size_t steps = 50'000'000;  ///< limit of each minimum cut
  /// With `most_bytes`: parts of the search space that are solved one by one.
  std::size_t branches = 64;
  /// With `most_bytes`: the search ends once the cost is at most this share above its lower bound.
  double gap = 0.002;
};

/// The passes of a joint graph. Lists of nodes are ascending; a value that stays on the rank is in none.
template <std::unsigned_integral Index>
struct basic_joint_cut {
  std::vector<Index> forward, backward, weight;  ///< the operations that each pass runs
  std::vector<Index> saved;                      ///< values that the forward pass leaves for the other two
  std::vector<Index> kept;  ///< values that wait for the weight pass after the backward pass
  std::size_t saved_bytes = 0, kept_bytes = 0;  ///< of one microbatch
  std::size_t bytes = 0;                        ///< of all microbatches in flight
  std::vector<Index> again;                     ///< operations that run more than once
  double cost = 0;                              ///< of their additional runs
  /// A lower bound on what was minimised: the cost if `most_bytes` is given, otherwise the bytes plus the
  /// cost times `bytes_per_cost`. Rounding may have raised it by a share of 1e-9.
  double bound = 0;
  bool least = false;  ///< true if nothing is better by more than rounding, a share of 1e-9
};

/// The result of `cut_joint_graph` for 32-bit indices.
using joint_cut = basic_joint_cut<std::uint32_t>;

}  // namespace cleave
