// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/backward/backward_graph.hpp"
#include "cleave/backward/backward_phases.hpp"
#include "support/toy_tape.hpp"

namespace cleave::testing {

using namespace detail;

/// A tape as a backward pass. Each node is one result, so every slot is 0. An element counts as one byte.
class tape_pass {
 public:
  using node = std::uint32_t;

  tape_pass(tape const& t, std::vector<node> outputs, std::vector<node> inputs, std::vector<node> parameters)
      : tape_(&t),
        outputs_(std::move(outputs)),
        inputs_(std::move(inputs)),
        parameters_(std::move(parameters)) {}

  std::vector<node> const& outputs() const { return outputs_; }
  std::vector<node> const& inputs() const { return inputs_; }
  std::vector<node> const& parameters() const { return parameters_; }
  std::vector<next_gradient<node>> next(node n) const {
    std::vector<next_gradient<node>> edges;
    for (auto const& to : (*tape_).nodes()[n].next) edges.push_back({to, 0});
    return edges;
  }
  std::size_t bytes(node n) const { return elements_of(tape_->nodes()[n].shape); }
  std::string_view name(node n) const { return tape_->nodes()[n].kind; }

 private:
  tape const* tape_;
  std::vector<node> outputs_, inputs_, parameters_;
};
static_assert(sized_backward_pass<tape_pass> && named_backward_pass<tape_pass>);

/// Runs steps of backward phases on a tape. Arrived gradients are indexed by the snapshot's node numbers.
class phase_runner {
 public:
  using arrived_gradients = std::vector<std::optional<tensor>>;

  phase_runner(tape const& t, backward_snapshot<tape_pass> const& s)
      : tape_(&t), snapshot_(&s), arrived_(s.nodes()) {}

  void seed(std::uint32_t node, tensor const& g) { add(arrived_, node, g); }

  /// Afterwards `arrived` returns the gradients of the inputs.
  void run_input_phase(backward_phases const& p) { run(p.input, arrived_); }
  arrived_gradients const& arrived() const { return arrived_; }

  /// Returns the arrived gradients of a unit, among them those of its parameters. Reads only its saved
  /// gradients.
  arrived_gradients run_unit(weight_unit<std::uint32_t> const& u) const {
    arrived_gradients there(arrived_.size());
    for (auto const n : u.saved) there[n] = arrived_[n];
    run(u.steps, there);
    return there;
  }

 private:
  static void add(arrived_gradients& to, std::uint32_t node, tensor const& g) {
    to[node] = to[node] ? *to[node] + g : g;
  }

  void run(std::vector<edge_step<std::uint32_t>> const& steps, arrived_gradients& arrived) const {
    for (auto const& [n, operand] : steps) {
      if (!arrived[n]) continue;  // the caller gave no gradient for an output
      auto const& node = tape_->nodes()[snapshot_->node[n]];
      auto const to = snapshot_->next[n][operand].to;
      auto const& shape = tape_->nodes()[snapshot_->node[to]].shape;
      add(arrived, to, summed_to(node.pass(*arrived[n])[operand], shape));
    }
  }

  tape const* tape_;
  backward_snapshot<tape_pass> const* snapshot_;
  arrived_gradients arrived_;
};

}  // namespace cleave::testing
