// SPDX-License-Identifier: MIT
// Splits a backward pass into two phases, for zero-bubble schedules. The input phase makes the gradients that
// another stage waits for; the weight phase can run later. A weight that is used twice, before and after
// another weight, still gets its gradient exactly once.
#include <cleave/backward.hpp>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

/// A record of automatic differentiation: operations, with a factor for the gradient of each operand.
struct operation {
  std::string name;
  std::vector<operation const*> operands;
  std::vector<double> slopes;
};

// [adapter]
struct recorded_pass {
  std::vector<operation const*> results, given, trained;

  auto const& outputs() const { return results; }
  auto const& inputs() const { return given; }
  auto const& parameters() const { return trained; }
  std::vector<cleave::next_gradient<operation const*>> next(operation const* n) const {
    std::vector<cleave::next_gradient<operation const*>> edges;
    for (auto const* operand : n->operands) edges.push_back({operand});
    return edges;
  }
  std::size_t bytes(operation const*) const { return sizeof(double); }
  std::string_view name(operation const* n) const { return n->name; }
};
// [adapter]

using snapshot = cleave::backward_snapshot<recorded_pass>;
using steps = std::vector<cleave::edge_step<std::uint32_t>>;

void run(snapshot const& s, steps const& list, std::vector<double>& arrived) {
  for (auto const& [node, operand] : list)
    arrived[s.next[node][operand].to] += arrived[node] * s.node[node]->slopes[operand];
}

int main() {
  // y = w * (v * (w * x)), with x = 2, w = 3, v = 5
  operation const x{"x", {}, {}}, w{"w", {}, {}}, v{"v", {}, {}};
  operation const first{"first", {&w, &x}, {2, 3}}, second{"second", {&v, &first}, {6, 5}};
  operation const third{"third", {&w, &second}, {30, 3}};

  // [phases]
  auto const s = cleave::backward_snapshot_of(recorded_pass{{&third}, {&x}, {&w, &v}});
  auto const cut = cleave::weight_cut_of(s);
  auto const phases = cleave::backward_phases_of(s);

  std::vector<double> arrived(s.nodes());
  arrived[s.outputs[0]] = 1;
  run(s, phases.input, arrived);  // now the stage before can go on
  for (auto const& unit : phases.weight) {
    std::vector<double> there(s.nodes());  // at any later time, unit by unit
    for (auto const n : unit.saved) there[n] = arrived[n];
    run(s, unit.steps, there);
    for (auto const p : unit.parameters) std::cout << s.label(p) << ' ' << there[p] << '\n';
  }
  // [phases]

  std::cout << "x " << arrived[s.inputs[0]] << '\n';
  for (auto const& group : cut.groups) {
    std::cout << "group of";
    for (auto const p : group.parameters) std::cout << ' ' << s.label(p);
    std::cout << ", which starts at";
    for (auto const n : group.intermediates) std::cout << ' ' << s.label(n);
    std::cout << " and keeps " << group.bytes << " bytes\n";
  }
  std::cout << "groups that lead into each other: " << (cut.joint[0] == cut.joint[1] ? "yes" : "no") << '\n';
}

// It prints:
//
//   v (#3) 18
//   w (#1) 60
//   x 45
//   group of w (#1), which starts at third (#0) first (#4) and keeps 16 bytes
//   group of v (#3), which starts at second (#2) and keeps 8 bytes
//   groups that lead into each other: yes
