// SPDX-License-Identifier: MIT
// Cuts a graph file row by row, as one does if the graph is larger than memory. It compares the rules for
// single nodes with buffers of nodes that are cut together.
#include <cleave/streaming.hpp>
#include <cstddef>
#include <iostream>
#include <sstream>
#include <string>

/// A grid of `side` by `side` cells as the text of a METIS file; an std::ifstream serves as well.
std::string grid_file(int side) {
  std::ostringstream out;
  out << side * side << ' ' << 2 * side * (side - 1) << '\n';
  for (int n = 1; n <= side * side; ++n) {
    if (n > side) out << n - side << ' ';
    if (n % side != 1) out << n - 1 << ' ';
    if (n % side != 0) out << n + 1 << ' ';
    if (n + side <= side * side) out << n + side;
    out << '\n';
  }
  return out.str();
}

int main() {
  // [stream]
  std::istringstream file(grid_file(64));
  cleave::metis_rows rows(file);
  auto const totals = rows.totals();  // reads a file with weights once, and rewinds it

  auto const cut = [&](cleave::stream_options const& options) {
    cleave::stream_partitioner stream(8, totals, options);
    for (rows.rewind(); rows.next();) stream.add(rows.neighbours(), rows.node_weight(), rows.edge_weights());
    return stream.finish();
  };
  auto const alone = cut({.buffer = 0});
  auto const fennel = cut({.rule = cleave::stream_rule::fennel, .buffer = 0});
  auto const together = cut({.buffer = 1024});
  std::cout << "LDG cuts " << alone.cut << " edges, Fennel " << fennel.cut << ", a buffer of 1024 nodes "
            << together.cut << '\n';
  std::cout << "node 0 is in part " << index(together.of[0]) << ", which weighs "
            << together.part_weights[index(together.of[0])] << '\n';
  // [stream]
}

// It prints:
//
//   LDG cuts 506 edges, Fennel 1305, a buffer of 1024 nodes 362
//   node 0 is in part 1, which weighs 504
