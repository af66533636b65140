// SPDX-License-Identifier: MIT
// Cuts layers with `balance` under limits: devices of different memory and speed, layers that must stay
// together, and a layer on a fixed device. Each result has a lower bound.
#include <algorithm>
#include <cleave/cleave.hpp>
#include <cstddef>
#include <iostream>
#include <string>
#include <vector>

using namespace cleave::literals;

/// A chain of sixteen layers. Layer n reads value n - 1, the result of the previous layer, and value 100 + n,
/// its weights.
struct layers {
  auto nodes() const {
    return cleave::counted(16, [](std::size_t n) { return static_cast<int>(n); });
  }
  std::vector<int> operands(int n) const { return {n - 1, 100 + n}; }
  std::vector<int> inputs() const { return {-1}; }
  std::vector<int> outputs() const { return {15}; }
  auto state() const {
    return cleave::counted(16, [](std::size_t n) { return 100 + static_cast<int>(n); });
  }
  double weight(int n) const { return n == 15 ? 10 : 2; }
  std::size_t bytes(int v) const { return v < 100 ? 1_MiB : v == 115 ? 5_GiB : 1_GiB; }
  std::string name(int n) const { return n == 15 ? "head" : "layer" + std::to_string(n); }
};

void show(std::string const& what, cleave::balance_options options) {
  layers const g;
  options.cost_per_byte = 1.0 / 1_MiB;  // moving a megabyte costs one unit of weight
  std::cout << what << '\n';
  try {
    auto const cut = cleave::balance(g, 4, options);
    auto const held = part_memory(cleave::snapshot_of(g), cut);
    for (std::uint32_t i = 0; i < cut.parts; ++i)
      std::cout << "  " << std::ranges::count(cut.of, cleave::part_id{i}) << " layers, load " << cut.loads[i]
                << ", " << cleave::format_bytes(held[i]) << '\n';
    std::cout << "  largest " << cut.bottleneck << ", and no cut is below " << cut.bound << '\n';
  } catch (cleave::infeasible_error const& e) {
    std::cout << "  " << e.what() << '\n';
  }
}

int main() {
  show("four equal devices", {});
  show("the second has room for three", {.memory = {8_GiB, 3_GiB, 8_GiB, 8_GiB}});
  show("the first is twice as fast", {.speed = {2, 1, 1, 1}});
  show("layers 3 to 8 together", {.together = {{3, 4, 5, 6, 7, 8}}});

  std::vector<cleave::part_id> fixed(16, cleave::no_part);
  fixed[1] = cleave::part_id{1};
  show("layer 1 on the second device", {.fixed = fixed});
  show("4 GiB each", {.memory = 4_GiB});
}

// It prints:
//
//   four equal devices
//     5 layers, load 11, 5 GiB
//     5 layers, load 12, 5 GiB
//     5 layers, load 12, 5 GiB
//     1 layers, load 11, 5 GiB
//     largest 12, and no cut is below 11
//   the second has room for three
//     6 layers, load 13, 6 GiB
//     3 layers, load 8, 3 GiB
//     5 layers, load 12, 5 GiB
//     2 layers, load 13, 6 GiB
//     largest 13, and no cut is below 11
//   the first is twice as fast
//     8 layers, load 9, 8 GiB
//     4 layers, load 10, 4 GiB
//     3 layers, load 8, 3 GiB
//     1 layers, load 11, 5 GiB
//     largest 11, and no cut is below 7
//   layers 3 to 8 together
//     3 layers, load 7, 3 GiB
//     6 layers, load 14, 6 GiB
//     5 layers, load 12, 5 GiB
//     2 layers, load 13, 6 GiB
//     largest 14, and no cut is below 14
//   layer 1 on the second device
//     1 layers, load 3, 1 GiB
//     6 layers, load 14, 6 GiB
//     6 layers, load 14, 6 GiB
//     3 layers, load 15, 7 GiB
//     largest 15, and no cut is below 11
//   4 GiB each
//     node head (#15) needs 5368709120 bytes, but the largest memory limit of a part is 4294967296 bytes
