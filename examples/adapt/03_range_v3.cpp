// SPDX-License-Identifier: MIT
// Uses range-v3 on both sides of a cut: the adapter returns operands as a lazy view, and views list the
// parts.
#include <array>
#include <cleave/cleave.hpp>
#include <cstddef>
#include <iostream>
#include <range/v3/view.hpp>

namespace views = ranges::views;

/// A graph as a matrix: row n has the bytes that node n reads from each earlier node.
struct matrix_graph {
  static constexpr std::array<std::array<std::size_t, 6>, 6> reads = {
      {{}, {8}, {8}, {0, 4, 4}, {0, 0, 0, 2}, {8, 0, 0, 0, 2}}};

  auto nodes() const { return views::iota(0u, 6u); }
  auto operands(unsigned n) const {
    return views::iota(0u, n) | views::filter([n](unsigned m) { return reads[n][m] > 0; });
  }
  double weight(unsigned n) const { return 10.0 * static_cast<double>(ranges::distance(operands(n))); }
  std::size_t bytes(unsigned n) const {
    return ranges::max(reads | views::transform([n](auto const& row) { return row[n]; }));
  }
};

int main() {
  matrix_graph const g;
  auto const cut = cleave::balance(g, 3);

  auto const part_of = [&](unsigned n) { return index(cut.of[n]); };
  for (auto const i : views::iota(0u, cut.parts)) {
    auto here = g.nodes() | views::filter([&](unsigned n) { return part_of(n) == i; });
    auto reads = here | views::for_each([&](unsigned n) { return g.operands(n); }) |
                 views::filter([&](unsigned m) { return part_of(m) != i; });
    std::cout << "part " << i << ' ' << views::all(here) << " reads " << views::all(reads) << '\n';
  }
}

// It prints:
//
//   part 0 [0,1,2] reads []
//   part 1 [3] reads [1,2]
//   part 2 [4,5] reads [3,0]
