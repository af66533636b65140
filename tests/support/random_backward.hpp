// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "cleave/backward/backward_graph.hpp"
#include "cleave/backward/backward_phases.hpp"
#include "support/rng.hpp"

namespace cleave::testing {

using namespace detail;

/// Returns a random backward pass whose nodes are numbered in no particular order. Parameters may be shared,
/// may be inputs as well, and may send gradients on. Outputs may lead to each other; some edges lead nowhere.
inline backward_arrays random_backward(rng& r, std::size_t most_nodes, std::size_t most_edges = 3) {
  auto const count = 2 + r.below(most_nodes - 1);
  std::vector<std::uint32_t> name(count);
  std::iota(name.begin(), name.end(), 0u);
  r.shuffle(name);
  std::vector<std::vector<gradient_edge<std::uint32_t>>> rows(count);
  auto const inner = 1 + count / 2;
  for (std::size_t n = 0; n < count; ++n) {
    if (n >= inner && !r.one_in(8)) continue;  // most of the other nodes are leaves
    for (auto i = 1 + r.below(most_edges); i > 0 && n + 1 < count; --i) {
      auto const near =
          n + 1 + r.below(r.one_in(2) ? std::min<std::size_t>(3, count - n - 1) : count - n - 1);
      auto const slot = static_cast<std::uint32_t>(r.below(2));
      rows[name[n]].push_back({r.one_in(8) ? none<std::uint32_t> : name[near], slot});
    }
  }
  backward_arrays g;
  for (auto const& row : rows) {
    for (auto const& e : row) {
      g.next.add(e);
      g.cost.push_back(static_cast<double>(r.below(4)));
    }
    g.next.close();
    g.bytes.push_back(r.below(9));
  }
  auto const some = [&](std::vector<std::uint32_t>& list, std::size_t from, std::size_t to,
                        std::size_t most) {
    for (auto i = r.below(most + 1); i > 0 && from < to; --i) list.push_back(name[from + r.below(to - from)]);
  };
  g.outputs.push_back(name[0]);
  some(g.outputs, 0, inner, 2);
  some(g.inputs, r.one_in(8) ? 1 : inner, count, 3);
  some(g.parameters, r.one_in(8) ? 1 : inner, count, 6);
  return g;
}

/// Gradients as integers modulo 2^64, two slots per node. Each edge is a random linear function. Sums are
/// exact in any order.
class linear_pass {
 public:
  using number = std::uint64_t;
  using gradients = std::vector<std::array<number, 2>>;

  explicit linear_pass(backward_arrays const& g) : g_(&g), seeds_(g.nodes()) {
    rng r(7);
    for (auto const n : g.outputs) seeds_[n] = {r.next(), r.next()};
  }

  gradients const& seeds() const { return seeds_; }

  void run(edge_step<std::uint32_t> const& step, gradients& arrived) const {
    auto const& e = g_->next[step.node][step.operand];
    rng r((std::uint64_t{step.node} << 32) + step.operand);
    auto const a = r.next(), b = r.next();
    arrived[e.to][e.slot] += a * arrived[step.node][0] + b * arrived[step.node][1];
  }

  /// Runs all edges in topological order.
  gradients run_whole() const {
    auto arrived = seeds_;
    for (auto const n : gradient_order(*g_))
      for (std::uint32_t i = 0; i < g_->next[n].size(); ++i)
        if (g_->next[n][i].to != none<std::uint32_t>) run({n, i}, arrived);
    return arrived;
  }

  /// Returns the gradients that arrive in the input phase after its first `steps` steps.
  gradients run_input(backward_phases const& p, std::size_t steps) const {
    auto arrived = seeds_;
    for (std::size_t i = 0; i < steps; ++i) run(p.input[i], arrived);
    return arrived;
  }

  /// Returns the gradients that arrive in a unit if only its saved gradients are kept of `input`.
  gradients run_unit(weight_unit<std::uint32_t> const& u, gradients const& input) const {
    gradients arrived(g_->nodes());
    for (auto const n : u.saved) arrived[n] = input[n];
    for (auto const& step : u.steps) run(step, arrived);
    return arrived;
  }

 private:
  backward_arrays const* g_;
  gradients seeds_;
};

/// Returns true if both phases together give the same gradients as the whole pass. Each unit runs from its
/// own saved gradients, which must be complete when the unit is ready.
inline bool phases_are_whole(backward_arrays const& g, backward_phases const& p) {
  linear_pass const pass(g);
  auto const whole = pass.run_whole();
  auto const input = pass.run_input(p, p.input.size());
  for (auto const n : g.inputs)
    if (input[n] != whole[n]) return false;
  std::vector<int> given(g.nodes());
  for (auto const& u : p.weight) {
    auto const arrived = pass.run_unit(u, pass.run_input(p, u.ready));
    for (auto const n : u.parameters)
      if (arrived[n] != whole[n] || ++given[n] != 1) return false;
  }
  for (auto const n : p.unused)
    if (whole[n] != std::array<std::uint64_t, 2>{} || ++given[n] != 1) return false;
  for (auto const n : g.parameters)
    if (given[n] != 1) return false;
  return true;
}

}  // namespace cleave::testing
