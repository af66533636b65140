// SPDX-License-Identifier: MIT
// Maps a grid of cells to a machine of two boards with four processors each, where messages between boards
// cost ten times as much as on a board.
#include <cleave/mapping.hpp>
#include <cstdint>
#include <iostream>

int main() {
  cleave::adjacency<std::uint32_t> grid;  // 32 by 32 cells, row by row
  for (std::uint32_t n = 0; n < 1024; ++n) {
    if (n >= 32) grid.targets.push_back(n - 32);
    if (n % 32 > 0) grid.targets.push_back(n - 1);
    if (n % 32 < 31) grid.targets.push_back(n + 1);
    if (n < 992) grid.targets.push_back(n + 32);
    grid.offsets.push_back(static_cast<std::uint32_t>(grid.targets.size()));
  }

  // [map]
  auto const boards = cleave::machine::hierarchy({4, 2}, {1, 10});  // 2 boards of 4 processors
  auto const mapped = cleave::map_kway(grid.view(), boards);
  std::cout << "cut " << mapped.cut << ", cost " << mapped.cost << '\n';
  std::cout << "cell 0 is on processor " << index(mapped.of[0]) % 4 << " of board " << index(mapped.of[0]) / 4
            << '\n';

  auto const ring = cleave::machine::of_distances(4, {0, 1, 2, 1, 1, 0, 1, 2, 2, 1, 0, 1, 1, 2, 1, 0});
  std::cout << "cost on a ring of four " << cleave::map_kway(grid.view(), ring).cost << '\n';
  // [map]
}

// It prints:
//
//   cut 128, cost 416
//   cell 0 is on processor 3 of board 1
//   cost on a ring of four 64
