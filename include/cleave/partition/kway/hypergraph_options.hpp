// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/partition/kway/options.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::inline v0_2 {

/// The objective of `partition_hypergraph`.
enum class hypergraph_objective : std::uint8_t {
  connectivity,  ///< λ - 1: a net with pins in λ parts costs λ - 1 times its weight. A value that is sent
                 ///< once to each other part that reads it costs as much
  cut_nets,      ///< a net with pins in more than one part costs its weight
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
  /// Is told the steps that run on the thread of the caller; must outlive the call. The gain of a step is
  /// that of the objective, or of a cut while the hypergraph is cut as a graph.
  kway_observer* observer = nullptr;
};

}  // namespace cleave
