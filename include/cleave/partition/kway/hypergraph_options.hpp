// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/partition/kway/options.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave {

/// What a partition of a hypergraph minimizes.
enum class hypergraph_objective : std::uint8_t {
  connectivity,  ///< λ - 1: a net costs its weight for each part beyond the first, as a value does that is
                 ///< sent once to each part that reads it
  cut_nets,      ///< a net with pins in several parts costs its weight, however many parts there are
};

/// Options of `partition_hypergraph`.
struct hypergraph_options {
  kway_preset preset = kway_preset::standard;
  hypergraph_objective objective = hypergraph_objective::connectivity;
  per_part<double> imbalance = 0.03;  ///< how far a part may exceed its share: 0.03 is 3 %
  per_part<double> share{};           ///< share of each part in the total node weight; empty: equal shares
  std::vector<part_id> fixed{};       ///< the part of each fixed node, `no_part` for free nodes; empty: all
                                      ///< nodes are free
  std::uint64_t seed = 1;
  std::uint32_t threads = 1;  ///< does not affect the result
};

}  // namespace cleave
