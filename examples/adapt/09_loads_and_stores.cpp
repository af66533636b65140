// SPDX-License-Identifier: MIT
// Adapts a basic block of a compiler. Loads and stores have an order that no value implies; order_effects
// derives it from the memory that they access.
#include <cleave/cleave.hpp>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

struct instruction {
  std::string name;
  std::vector<instruction const*> operands;
  std::vector<std::string> loads{}, stores{};  // what alias analysis tells apart
  double cycles = 1;
};
using block = std::vector<instruction const*>;

// [adapter]
struct block_graph {
  explicit block_graph(block const& b)
      : list(b),
        order(cleave::order_effects(b, [](auto i) { return i->loads; }, [](auto i) { return i->stores; })) {}

  block const& nodes() const { return list; }
  block const& operands(instruction const* i) const { return i->operands; }
  auto after(instruction const* i) const { return order[i]; }
  double weight(instruction const* i) const { return i->cycles; }
  std::size_t bytes(instruction const*) const { return 8; }
  std::string const& name(instruction const* i) const { return i->name; }

  block const& list;
  cleave::effect_order<instruction const*> order;
};
// [adapter]
static_assert(cleave::effectful_graph<block_graph> && cleave::weighted_graph<block_graph>);

int main() {
  instruction const a{"a", {}, {"heap"}, {}, 4}, b{"b", {&a}, {"stack"}, {}, 4}, s{"s", {&b}, {}, {"heap"}},
      t{"t", {&a}, {}, {"stack"}}, c{"c", {}, {"heap", "stack"}, {}, 4}, u{"u", {&c}, {}, {"heap"}};
  block const list{&a, &b, &s, &t, &c, &u};
  block_graph const g(list);
  for (auto const* i : g.nodes()) {
    std::cout << i->name << " after";
    for (auto const* earlier : g.after(i)) std::cout << ' ' << earlier->name;
    std::cout << '\n';
  }
  auto const stages = cleave::split(g, cleave::balance(g, 2));
  for (auto const id : stages.plan().order) {
    std::cout << "stage " << cleave::index(id) << ':';
    for (auto const* i : stages[id].nodes) std::cout << ' ' << i->name;
    std::cout << '\n';
  }
  try {
    cleave::split(g, cleave::assign(g, [&](auto i) { return i == &s; }));
  } catch (cleave::partition_error const& e) {
    std::cout << e.what() << '\n';
  }
}

// It prints:
//
//   a after
//   b after
//   s after a
//   t after b
//   c after s t
//   u after c
//   stage 0: a b s t
//   stage 1: c u
//   parts depend on each other in a cycle: b (#1) in part 0 -> s (#2) in part 1; s (#2) in part 1 -> c (#4) in part 0
