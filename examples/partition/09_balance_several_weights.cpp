// SPDX-License-Identifier: MIT
// Cuts a grid whose cells differ in work and in memory into parts that balance both.
#include <algorithm>
#include <cleave/kway.hpp>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <vector>

int main() {
  cleave::adjacency<std::uint32_t> grid;  // 32 by 32 cells, row by row
  std::vector<double> memory;             // of each cell, in MB
  for (std::uint32_t n = 0; n < 1024; ++n) {
    if (n >= 32) grid.targets.push_back(n - 32);
    if (n % 32 > 0) grid.targets.push_back(n - 1);
    if (n % 32 < 31) grid.targets.push_back(n + 1);
    if (n < 992) grid.targets.push_back(n + 32);
    grid.offsets.push_back(static_cast<std::uint32_t>(grid.targets.size()));
    memory.push_back(n % 32 < 8 ? 10 : 1);  // the cells on the left hold particles
  }
  auto const heaviest = [&](cleave::partition const& p) {
    std::vector<double> sum(p.parts);
    for (std::size_t n = 0; n < memory.size(); ++n) sum[index(p.of[n])] += memory[n];
    return *std::max_element(sum.begin(), sum.end());
  };

  auto const by_work = cleave::partition_kway(grid.view(), 8);
  std::cout << "work alone: cut " << by_work.cut << ", up to " << heaviest(by_work) << " MB in a part\n";

  // [both]
  auto const both = cleave::partition_kway(grid.view(), 8, {.further_weights = {{memory, 0.05}}});
  std::cout << "both: cut " << both.cut << ", at most " << 100 * both.imbalance << " % more work and "
            << 100 * both.further[0].imbalance << " % more memory than a share\n";
  // [both]
  std::cout << "up to " << heaviest(both) << " MB in a part\n";
}

// It prints:
//
//   work alone: cut 128, up to 704 MB in a part
//   both: cut 176, at most 0 % more work and 0 % more memory than a share
//   up to 416 MB in a part
