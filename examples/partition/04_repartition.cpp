// SPDX-License-Identifier: MIT
// Repartitions a graph after its costs have changed. The new parts are balanced, at the price of moved nodes.
#include <cleave/kway.hpp>
#include <cleave/repartition.hpp>
#include <cstdint>
#include <iostream>
#include <vector>

// [graph]
/// A rod of 32 cells. Each cell exchanges values with its neighbours; a hot cell costs twice as much.
struct rod {
  int hot = 0;  // how many cells, from the left

  std::vector<int> nodes() const {
    std::vector<int> cells;
    for (int i = 0; i < 32; ++i) cells.push_back(i);
    return cells;
  }
  std::vector<int> neighbours(int i) const {
    if (i == 0) return {1};
    if (i == 31) return {30};
    return {i - 1, i + 1};
  }
  std::int64_t weight(int i) const { return i < hot ? 2 : 1; }
};
static_assert(cleave::node_weighted_graph<rod>);
// [graph]

int main() {
  auto const before = cleave::partition_kway(rod{}, 4);
  std::cout << "cold: cut " << before.cut << '\n';

  // [again]
  auto const hot = cleave::neighbours_of(rod{.hot = 8});  // the first part is now too heavy
  for (double const cost : {0.1, 10.0}) {
    auto const after = cleave::repartition(hot.view(), before, 4, {.cost_per_byte = cost});
    std::cout << "moving a cell costs " << cost << ": " << after.moved_nodes << " move, cut " << after.cut
              << ", imbalance " << after.imbalance << '\n';
  }
  // [again]

  cleave::repartition_options options{.cost_per_byte = 0.1, .stays = std::vector<char>(32)};
  options.stays[0] = 1;  // its sensor is there
  auto const five = cleave::repartition(hot.view(), before, 5, options);
  std::cout << "on five: " << five.moved_nodes << " move, cut " << five.cut << ", the first cell "
            << (five.of[0] == before.of[0] ? "stays" : "moves") << '\n';
}

// It prints:
//
//   cold: cut 3
//   moving a cell costs 0.1: 9 move, cut 3, imbalance 0
//   moving a cell costs 10: 3 move, cut 5, imbalance 0
//   on five: 4 move, cut 4, the first cell stays
