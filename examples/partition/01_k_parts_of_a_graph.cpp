// SPDX-License-Identifier: MIT
// Cuts a graph into parts of equal weight with few edges between them, and then refines the parts.
#include <cleave/graph.hpp>
#include <cleave/kway.hpp>
#include <cstdint>
#include <iostream>

/// Makes a grid graph whose nodes are numbered row by row.
cleave::adjacency<std::uint32_t> grid(std::uint32_t rows, std::uint32_t columns) {
  cleave::adjacency<std::uint32_t> g;
  for (std::uint32_t n = 0; n < rows * columns; ++n) {
    if (n >= columns) g.targets.push_back(n - columns);
    if (n % columns > 0) g.targets.push_back(n - 1);
    if (n % columns + 1 < columns) g.targets.push_back(n + 1);
    if (n + columns < rows * columns) g.targets.push_back(n + columns);
    g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
  }
  return g;
}

int main() {
  // [parts]
  auto const graph = grid(40, 60);
  auto const fast = cleave::partition_kway(graph.view(), 6, {.preset = cleave::kway_preset::fast});
  std::cout << "cut " << fast.cut << ", parts at most " << 100 * fast.imbalance << " % above their share\n";
  std::cout << "node 0 is in part " << index(fast.of[0]) << ", which weighs "
            << fast.part_weights[index(fast.of[0])] << '\n';

  auto const better =
      cleave::refine_kway(graph.view(), fast, {.preset = cleave::kway_preset::quality, .imbalance = 0.03});
  std::cout << "refined: cut " << better.cut << '\n';
  // [parts]
}

// It prints:
//
//   cut 156, parts at most 2.75 % above their share
//   node 0 is in part 2, which weighs 390
//   refined: cut 154
