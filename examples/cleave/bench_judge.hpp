// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench_algorithms.hpp"
#include "bench_row.hpp"
#include "bench_run.hpp"

namespace tool {

/// Bytes of a graph in 32-bit rows, as all algorithms could have it.
inline std::uint64_t row_bytes(bench_graph const& g) {
  return 4 * (g.first.size() + g.head.size() + g.node_weight.size() + g.edge_weight.size());
}

/// Counts a run's cut, balance and empty parts from the graph and the parts alone, and writes them into its
/// row. Sums may not pass 63 bits, as readers of files see to.
inline void judge(bench_row& row, bench_graph const& g, run_outcome const& run) {
  row.status = run.status;
  if (run.status != "ok") return;
  std::vector<std::int64_t> weight(row.parts), nodes(row.parts);
  std::int64_t total = 0, crossing = 0;
  for (std::size_t n = 0; n < g.nodes(); ++n) {
    auto const part = run.part_of[n];
    if (part >= row.parts) {
      row.status = "error: node #" + std::to_string(n) + " is in part " + std::to_string(part) + " of " +
                   std::to_string(row.parts);
      return;
    }
    weight[part] += g.weight(n);
    ++nodes[part];
    total += g.weight(n);
    for (auto arc = static_cast<std::size_t>(g.first[n]); arc < static_cast<std::size_t>(g.first[n + 1]);
         ++arc)
      if (run.part_of[static_cast<std::size_t>(g.head[arc])] != part) crossing += g.weight_of_arc(arc);
  }
  std::int64_t const cut = crossing / 2, parts = row.parts;
  auto const even = std::max<std::int64_t>(1, total / parts + (total % parts != 0));
  row.cut = static_cast<double>(cut);
  row.imbalance =
      total == 0 ? 0 : static_cast<double>(*std::ranges::max_element(weight)) / static_cast<double>(even) - 1;
  row.empty = static_cast<std::uint32_t>(std::ranges::count(nodes, 0));
  row.wall_s = run.wall_s;
  row.cpu_s = run.cpu_s;
  auto const bytes = row_bytes(g);
  row.memory_csr = bytes > 0 ? static_cast<double>(run.memory_bytes) / static_cast<double>(bytes) : 0;
  if (run.claimed_cut) {
    row.claimed_cut = static_cast<double>(*run.claimed_cut);
    if (*run.claimed_cut != cut) row.status = "cut reported wrongly";
  }
}

}  // namespace tool
