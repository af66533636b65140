// SPDX-License-Identifier: MIT
// Adapts lazy arrays in the style of MLX: there is no list of operations. An array knows the primitive that
// makes it, and a primitive the arrays that it reads. producers_first lists the primitives.
#include <cleave/cleave.hpp>
#include <cstddef>
#include <iostream>
#include <string>
#include <vector>

struct primitive;
struct array {
  std::string name;
  std::size_t nbytes;
  primitive const* made_by = nullptr;  // none: it is data
};
struct primitive {
  std::string name;
  std::vector<array const*> inputs, outputs;
};

// [adapter]
struct array_graph {
  using primitives = std::vector<primitive const*>;
  using arrays = std::vector<array const*>;
  explicit array_graph(arrays const& roots)
      : list(cleave::producers_first(
            roots, [](array const* a) { return a->made_by; }, [](primitive const* p) { return p->inputs; })) {
  }

  primitives const& nodes() const { return list; }
  arrays const& operands(primitive const* p) const { return p->inputs; }
  arrays const& results(primitive const* p) const { return p->outputs; }
  double weight(primitive const*) const { return 1; }
  std::size_t bytes(array const* a) const { return a->nbytes; }
  std::string const& name(primitive const* p) const { return p->name; }

  primitives list;
};
// [adapter]
static_assert(cleave::multi_result<array_graph> && cleave::weighted_graph<array_graph>);

int main() {
  array x{"x", 8}, w{"w", 8}, h{"h", 8}, left{"left", 4}, right{"right", 4}, y{"y", 4};
  primitive const matmul{"matmul", {&x, &w}, {&h}}, split{"split", {&h}, {&left, &right}},
      add{"add", {&right, &left}, {&y}};
  h.made_by = &matmul;
  left.made_by = right.made_by = &split;
  y.made_by = &add;

  array_graph const g({&y});
  auto const stages = cleave::split(g, cleave::balance(g, 3));
  for (auto const id : stages.plan().order) {
    std::cout << "stage " << cleave::index(id) << ':';
    for (auto const* p : stages[id].nodes) std::cout << ' ' << p->name;
    std::cout << "; reads";
    for (auto const* a : stages[id].inputs) std::cout << ' ' << a->name;
    std::cout << '\n';
  }
}

// It prints:
//
//   stage 0: matmul; reads x w
//   stage 1: split; reads h
//   stage 2: add; reads right left
