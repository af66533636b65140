// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/graph/costed_module_graph.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/io/graph_files/cost_dag.hpp"
#include "cleave/partition/unpriced.hpp"

namespace cleave {

/// What has no price among the calls of `g`: those without a cost (0 is one), and where bytes cost something
/// the results without bytes that other calls read. \throws cost_error
inline unpriced unpriced_calls(module_graph const& g, double cost_per_byte) {
  unpriced u;
  std::vector<char> is_read(g.list().size());
  for (auto const n : g.nodes())
    for (auto const m : g.operands(n)) is_read[m] = 1;
  for (auto const n : g.nodes()) {
    auto const known = cost_of(g, n);
    ++u.of_nodes;
    u.nodes += !known.cost.has_value();
    if (is_read[n] == 0) continue;
    ++u.of_values;
    u.values += cost_per_byte > 0 && known.bytes == 0;
  }
  return u;
}

}  // namespace cleave
