// SPDX-License-Identifier: MIT
// Chooses which values the forward pass of a stage saves for its backward pass, and which operations run
// again instead, so that the microbatches in flight fit into memory at the least cost.
#include <cleave/backward.hpp>
#include <cstddef>
#include <iomanip>
#include <iostream>
#include <string>
#include <vector>

/// A stage of `count` layers `x + product(gelu(product(x, w1)), w2)`. Values are numbers: 0 is the input, 1
/// to 4 are the results of the first layer, and so on; weights have negative numbers.
struct layers {
  int count = 8;

  std::vector<int> nodes() const {
    std::vector<int> list;
    for (int n = 1; n <= 4 * count; ++n) list.push_back(n);
    return list;
  }
  std::vector<int> operands(int n) const {
    int const x = (n - 1) / 4 * 4;  // the input of the layer
    if (n - x == 1) return {x, -n};
    if (n - x == 3) return {x + 2, -n};
    return n - x == 2 ? std::vector{x + 1} : std::vector{x, x + 3};
  }
  std::vector<int> inputs() const { return {0}; }
  std::vector<int> outputs() const { return {4 * count}; }
  std::vector<int> state() const {
    std::vector<int> list;
    for (int n = 1; n <= 4 * count; n += 2) list.push_back(-n);
    return list;
  }
  std::size_t bytes(int v) const {
    return v < 0 ? 4'000'000 : v % 4 == 1 || v % 4 == 2 ? 8'000'000 : 2'000'000;
  }
  double weight(int n) const { return n % 2 == 1 ? 8 : 1; }  // products cost more
  std::string name(int n) const {
    char const* const kind[] = {"sum", "first", "gelu", "second"};
    return kind[n % 4] + std::to_string((n - 1) / 4);
  }
};

// [cut]
/// Returns both passes of the layers. The backward pass of a product reads both factors, that of gelu reads
/// its operand, and that of a sum reads no value of the forward pass.
auto joint_graph_of_layers() {
  cleave::joint_backward_options options;
  for (int const n : layers{}.nodes())
    options.reads.push_back(n % 4 == 0 ? cleave::backward_reads::nothing : cleave::backward_reads::operands);
  return cleave::joint_graph_with_backward(layers{}, options);
}

void print(char const* name, cleave::joint_cut const& c) {
  std::cout << std::left << std::setw(22) << name << std::right << std::setw(5) << c.bytes / 1'000'000
            << " MB, " << c.again.size() << " operations again at a cost of " << c.cost
            << (c.least ? ", the least" : "") << '\n';
}

int main() {
  auto const joint = joint_graph_of_layers();
  // Four microbatches are in flight.
  auto const all = cleave::cut_joint_graph(joint, {.bytes_per_cost = 1e9, .in_flight = 4});
  print("nothing again", all);
  print("at 1 MB per cost", cleave::cut_joint_graph(joint, {.bytes_per_cost = 1e6, .in_flight = 4}));
  print("within half", cleave::cut_joint_graph(joint, {.most_bytes = all.bytes / 2, .in_flight = 4}));
  print("fewest bytes", cleave::cut_joint_graph(joint, {.in_flight = 4}));

  // A weight pass of its own, for schedules without bubbles: two microbatches wait for theirs.
  auto const split =
      cleave::cut_joint_graph(joint, {.bytes_per_cost = 1e6, .in_flight = 4, .weights_in_flight = 2});
  print("with a weight pass", split);
  std::cout << "saved:";
  for (auto const n : split.saved) std::cout << ' ' << joint.label(n);
  std::cout << "\nthe passes run " << split.forward.size() << ", " << split.backward.size() << " and "
            << split.weight.size() << " operations\n";
}
// [cut]

// It prints:
//
//   nothing again           576 MB, 0 operations again at a cost of 0, the least
//   at 1 MB per cost         64 MB, 16 operations again at a cost of 72, the least
//   within half             288 MB, 9 operations again at a cost of 16, the least
//   fewest bytes              8 MB, 30 operations again at a cost of 135, the least
//   with a weight pass      128 MB, 40 operations again at a cost of 224
//   saved: #0 sum0 (#6) sum1 (#12) sum2 (#18) sum3 (#24) sum4 (#30) sum5 (#36) sum6 (#42)
//   the passes run 32, 48 and 56 operations
