// SPDX-License-Identifier: MIT
// Cuts a chain of six nodes into two stages: the program with which packages are tried.
#include <cleave/cleave.hpp>
#include <cleave/version.hpp>
#include <cstddef>
#include <iostream>
#include <ranges>
#include <vector>

struct chain {
  auto nodes() const { return std::views::iota(0, 6); }
  std::vector<int> operands(int n) const { return n == 0 ? std::vector<int>{} : std::vector<int>{n - 1}; }
  double weight(int) const { return 1; }
  std::size_t bytes(int) const { return 0; }
};

int main() {
  auto const cut = cleave::balance(chain{}, 2);
  std::cout << "cleave " << CLEAVE_VERSION << ": the largest of two stages has " << cut.bottleneck
            << " of 6 nodes\n";
  return cut.bottleneck == 3 ? 0 : 1;
}
