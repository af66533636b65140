// SPDX-License-Identifier: MIT
// Cuts a graph in CSR arrays, the format of SciPy and METIS, without copying it.
#include <cleave/graph.hpp>
#include <cleave/kway.hpp>
#include <cstdint>
#include <iostream>
#include <vector>

int main() {
  // [arrays]
  // Two squares, 0 1 2 3 and 4 5 6 7, and an edge from 3 to 4. The neighbours of node n are
  // targets[offsets[n]] to targets[offsets[n + 1] - 1]; each edge is stored at both of its ends.
  std::vector<std::int64_t> const offsets{0, 2, 4, 6, 9, 12, 14, 16, 18};  // SciPy: indptr, METIS: xadj
  std::vector<std::int32_t> const targets{1, 2, 0, 3, 0, 3, 1, 2, 4,
                                          3, 5, 6, 4, 7, 4, 7, 5, 6};                       // indices, adjncy
  std::vector<double> const weights{2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2};  // data, adjwgt

  cleave::adjacency_view const graph{offsets, targets, {}, weights};  // nodes have no weights
  auto const halves = cleave::partition_kway(graph, 2);
  std::cout << "cut " << halves.cut << ", parts of";
  for (auto const part : halves.of) std::cout << ' ' << index(part);
  std::cout << '\n';
  // [arrays]

  // [names]
  cleave::adjacency_view<std::int32_t, std::int64_t, double, std::int64_t> const same{
      .offsets = offsets, .targets = targets, .edge_weight = weights};
  std::cout << same.nodes() << " nodes, " << same.directed_edges() / 2 << " edges, node 3 has "
            << same.neighbours(3).size() << " neighbours\n";
  // [names]

  // [fault]
  auto one_sided = targets;
  one_sided[0] = 5;
  cleave::adjacency_view const wrong{offsets, one_sided};
  if (auto const fault = cleave::find_adjacency_fault(wrong)) std::cout << describe(*fault, wrong) << '\n';
  // [fault]
}

// It prints:
//
//   cut 1, parts of 1 1 1 1 0 0 0 0
//   8 nodes, 9 edges, node 3 has 3 neighbours
//   the edge from node #1 to node #0, of weight 1, is listed a different number of times at its other end: list each edge at both ends with the same weight
