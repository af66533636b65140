// SPDX-License-Identifier: MIT
// Cuts a chain of operations, stored in your own structs, into three stages of about equal load.
#include <cleave/cleave.hpp>
#include <iostream>
#include <span>
#include <string>
#include <vector>

// [ir]
struct op {  // your IR, unchanged
  std::string name;
  std::vector<op const*> inputs;
  double flops;
  std::size_t result_bytes;
};
// [ir]

// [adapter]
struct op_graph {
  std::vector<op const*> ops;

  std::span<op const* const> nodes() const { return ops; }
  std::span<op const* const> operands(op const* o) const { return o->inputs; }
  double weight(op const* o) const { return o->flops; }
  std::size_t bytes(op const* o) const { return o->result_bytes; }
};
static_assert(cleave::weighted_graph<op_graph> && cleave::sized_graph<op_graph>);
// [adapter]

int main() {
  op const embed{"embed", {}, 10, 2}, attend{"attend", {&embed}, 60, 2}, add{"add", {&embed, &attend}, 5, 2},
      expand{"expand", {&add}, 50, 8}, gelu{"gelu", {&expand}, 20, 8}, reduce{"reduce", {&gelu}, 50, 2},
      head{"head", {&reduce}, 25, 1};

  // [cut]
  op_graph const g{{&embed, &attend, &add, &expand, &gelu, &reduce, &head}};
  auto const cut = cleave::balance(g, 3);
  auto const stages = cleave::split(g, cut);

  for (auto const id : stages.plan().order) {
    auto const stage = stages[id];
    std::cout << "stage " << cleave::index(id) << ':';
    for (op const* o : stage.nodes) std::cout << ' ' << o->name;
    std::cout << ", load " << cut.loads[cleave::index(id)] << '\n';
  }
  std::cout << "the largest load of any 3 stages is at least " << cut.bound << '\n';
  // [cut]
}

// It prints:
//
//   stage 0: embed attend add, load 77
//   stage 1: expand gelu, load 80
//   stage 2: reduce head, load 83
//   the largest load of any 3 stages is at least 75
