// SPDX-License-Identifier: MIT
// Adapts an IR that has registers, operations with several results, and weights. The program is cut, and each
// stage is written as a program in the same IR.
#include <cleave/cleave.hpp>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

// [ir]
struct instruction {
  std::string name;
  std::vector<int> reads, writes;  // registers
  double cycles;
};
struct routine {
  std::vector<int> arguments, weights, returns;
  std::vector<instruction> body;
  std::vector<std::size_t> size;  // bytes of each register
};
// [ir]

struct routine_graph {
  routine const* r;

  // [nodes]
  auto nodes() const {
    return cleave::counted(r->body.size(), [first = r->body.data()](std::size_t i) { return first + i; });
  }
  std::vector<int> const& operands(instruction const* i) const { return i->reads; }
  // [nodes]
  // [values]
  std::vector<int> const& results(instruction const* i) const { return i->writes; }
  // [values]
  // [function]
  std::vector<int> const& inputs() const { return r->arguments; }
  std::vector<int> const& outputs() const { return r->returns; }
  std::vector<int> const& state() const { return r->weights; }
  // [function]
  // [costs]
  double weight(instruction const* i) const { return i->cycles; }
  std::size_t bytes(int reg) const { return r->size.at(static_cast<std::size_t>(reg)); }
  // [costs]
  // [name]
  std::string const& name(instruction const* i) const { return i->name; }
  // [name]
};
// [rungs]
static_assert(cleave::multi_result<routine_graph> && cleave::stateful_graph<routine_graph> &&
              cleave::weighted_graph<routine_graph> && cleave::sized_graph<routine_graph> &&
              cleave::named_graph<routine_graph>);
// [rungs]

// [builder]
struct routine_builder {
  routine const& from;
  routine made{};

  int argument(int reg, cleave::source source) {
    return (is_held(source) ? made.weights : made.arguments).emplace_back(fresh(reg));
  }
  std::vector<int> clone(instruction const* i, auto lookup) {
    instruction copy{i->name, {}, {}, i->cycles};
    for (int const reg : i->reads) copy.reads.push_back(lookup(reg));
    for (int const reg : i->writes) copy.writes.push_back(fresh(reg));
    return made.body.emplace_back(std::move(copy)).writes;
  }
  void result(int, int reg) { made.returns.push_back(reg); }

 private:
  int fresh(int reg) {
    made.size.push_back(from.size.at(static_cast<std::size_t>(reg)));
    return static_cast<int>(made.size.size()) - 1;
  }
};
// [builder]

void print(routine const& r) {
  auto const list = [](char const* what, std::vector<int> const& registers) {
    std::cout << what;
    for (int const reg : registers) std::cout << " r" << reg;
  };
  list("  takes", r.arguments), list(", holds", r.weights), list(", gives", r.returns);
  for (auto const& i : r.body) list(("\n    " + i.name).c_str(), i.reads), list(" ->", i.writes);
  std::cout << '\n';
}

int main() {
  routine r{.arguments = {0},
            .weights = {1, 2},
            .returns = {7},
            .body = {},
            .size = {64, 512, 512, 64, 8, 8, 64, 64}};
  r.body = {{"matmul", {0, 1}, {3}, 900},
            {"halves", {3}, {4, 5}, 10},
            {"gate", {4, 5}, {6}, 50},
            {"matmul", {6, 2}, {7}, 900}};

  // [first]
  routine_graph const g{&r};
  if (auto const fault = cleave::find_adapter_fault(g)) {
    std::cout << describe(*fault) << '\n';
    return 1;
  }
  // [first]

  // [cut]
  auto const stages = cleave::split(g, cleave::balance(g, 2));
  for (auto const id : stages.plan().order) {
    routine_builder b{r};
    cleave::emit(stages, id, b);
    std::cout << "stage " << index(id) << '\n';
    print(b.made);
  }
  // [cut]

  // [wrong]
  std::swap(r.body[0], r.body[1]);
  try {
    cleave::split(g, cleave::balance(g, 2));
  } catch (cleave::error const& e) {
    std::cout << e.what() << '\n';
  }
  // [wrong]
}

// It prints:
//
//   stage 0
//     takes r0, holds r1, gives r3 r4
//       matmul r0 r1 -> r2
//       halves r2 -> r3 r4
//   stage 1
//     takes r0 r1, holds r2, gives r4
//       gate r0 r1 -> r3
//       matmul r3 r2 -> r4
//   adapter: node matmul (#1) is listed after a user of its result; list the nodes in topological_order(g), each after all nodes that it needs
