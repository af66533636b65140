// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cleave/formats/graph_files/cost_dag.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/slices/balance.hpp"

/// Graphs with costs, for the benches of partition algorithms.
namespace bench {

/// A graph to balance, with its options.
struct instance {
  std::string name;
  cleave::snapshot_arrays graph;
  cleave::balance_options options;
  std::vector<std::size_t> position;  ///< position in the graph, for each node of the source
};

/// Makes a graph of operations with costs of transfers and no other limits.
inline instance instance_of(std::string name, cleave::cost_dag const& d) {
  auto s = cleave::snapshot_of_dag(d);
  return {
      std::move(name), std::move(s.graph), {.cost_per_byte = s.options.cost_per_byte}, std::move(s.position)};
}

}  // namespace bench
