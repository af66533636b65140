// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cleave/formats/graph_files/cost_dag.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/slices/balance.hpp"

/// Graphs with costs, as the benches of partition algorithms use them.
namespace bench {

/// What is to be balanced, and how.
struct instance {
  std::string name;
  cleave::snapshot_arrays graph;
  cleave::balance_options options;
  std::vector<std::size_t> position;  ///< of a node of the source: its position in the graph
};

/// Operations whose transfers cost, and that nothing else restricts.
inline instance instance_of(std::string name, cleave::cost_dag const& d) {
  auto s = cleave::snapshot_of_dag(d);
  return {
      std::move(name), std::move(s.graph), {.cost_per_byte = s.options.cost_per_byte}, std::move(s.position)};
}

}  // namespace bench
