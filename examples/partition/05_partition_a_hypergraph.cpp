// SPDX-License-Identifier: MIT
// Cuts eight operations into two parts that send few bytes. A value with many readers is sent to a part once.
#include <cleave/hypergraph.hpp>
#include <cstdint>
#include <iostream>
#include <vector>

int main() {
  // [nets]
  // A net is a value: the operation that makes it, and those that read it. The pins of net e are
  // pins[offsets[e]] to pins[offsets[e + 1] - 1].
  std::vector<std::uint32_t> const offsets{0, 4, 6, 8, 10, 14, 16, 18, 20};
  std::vector<std::uint32_t> const pins{0, 1, 2, 3, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 5, 6, 6, 7, 0, 7};
  std::vector<double> const bytes{8, 1, 1, 2, 8, 1, 1, 3};

  cleave::hypergraph_view const values{8, offsets, pins, {}, bytes};  // operations have no weights
  auto const halves = cleave::partition_hypergraph(values, 2);
  std::cout << "sends " << halves.cut.connectivity << " bytes, of " << halves.cut.cut_nets << " values\n";
  std::cout << "parts of";
  for (auto const part : halves.of) std::cout << ' ' << index(part);
  std::cout << '\n';
  // [nets]
}

// It prints:
//
//   sends 5 bytes, of 2 values
//   parts of 1 1 1 1 0 0 0 0
