// SPDX-License-Identifier: MIT
#pragma once
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::torch {

using tensors = std::vector<::torch::Tensor>;

/// A backward pass of libtorch in two halves: first the gradients of inputs, later those of parameters. The
/// graph must live until then. At each branch from the inputs' path to parameters, the first half keeps the
/// gradient, and the second half starts there. Nothing is computed twice (Qi et al. 2023, "Zero Bubble").
class split_backward {
 public:
  using edges = ::torch::autograd::edge_list;

  split_backward() = default;
  /// `at_roots` are the gradients of the results `roots`.
  split_backward(tensors const& roots, tensors at_roots, tensors const& inputs, tensors const& parameters)
      : roots_(edges_of(roots)),
        inputs_(edges_of(inputs)),
        parameters_(edges_of(parameters)),
        at_roots_(std::move(at_roots)) {
    for (auto const& e : inputs_) leads_to_input_.insert(e.function.get());
    for (std::size_t i = 0; i < parameters_.size(); ++i) number_.emplace(parameters_[i].function.get(), i);
    find_branches();
  }

  /// Returns the gradients of the inputs; undefined if an input has none.
  tensors input_gradients() {
    auto wanted = inputs_;
    for (auto const& b : branches_)
      if (b.arrived.empty()) wanted.insert(wanted.end(), b.at.begin(), b.at.end());
    auto found = run(roots_, at_roots_, wanted);
    auto next = found.begin() + static_cast<std::ptrdiff_t>(inputs_.size());
    for (auto& b : branches_)
      if (b.arrived.empty())
        for (std::size_t i = 0; i < b.at.size(); ++i) b.arrived.push_back(*next++);
    found.resize(inputs_.size());
    return found;
  }

  /// Calls `add(i, gradient)` for each parameter with a gradient, once each.
  template <class Add>
  void each_weight_gradient(Add add) const {
    for (auto const& b : branches_) {
      edges at, wanted;
      tensors arrived;
      for (std::size_t i = 0; i < b.at.size(); ++i)
        if (b.arrived[i].defined()) at.push_back(b.at[i]), arrived.push_back(b.arrived[i]);
      if (at.empty()) continue;
      for (auto const p : b.parameters) wanted.push_back(parameters_[p]);
      auto const found = run(at, arrived, wanted);
      for (std::size_t i = 0; i < found.size(); ++i)
        if (found[i].defined()) add(b.parameters[i], found[i]);
    }
  }

 private:
  using node = ::torch::autograd::Node;

  /// A point where the gradients of some parameters branch off.
  struct branch {
    edges at;
    std::vector<std::size_t> parameters;
    tensors arrived;  ///< empty until the first half ends, except at the results
  };

  static edges edges_of(tensors const& list) {
    edges all;
    for (auto const& t : list) all.push_back(::torch::autograd::impl::gradient_edge(t));
    return all;
  }

  static tensors run(edges const& from, tensors const& gradients, edges const& wanted) {
    if (wanted.empty()) return {};
    return ::torch::autograd::Engine::get_default_engine().execute(from, gradients, true, false, false,
                                                                   wanted);
  }

  /// Returns an edge to each reachable node, in reverse topological order.
  edges ordered() const {
    edges order;
    std::vector<std::pair<::torch::autograd::Edge, std::size_t>> path;
    std::unordered_set<node*> seen;
    auto const enter = [&](::torch::autograd::Edge const& e) {
      if (e.is_valid() && seen.insert(e.function.get()).second) path.emplace_back(e, 0);
    };
    for (auto const& root : roots_) {
      enter(root);
      while (!path.empty()) {
        auto const& further = path.back().first.function->next_edges();
        if (auto& next = path.back().second; next < further.size()) {
          enter(further[next++]);
        } else {
          order.push_back(std::move(path.back().first));
          path.pop_back();
        }
      }
    }
    return order;
  }

  bool leads_to_input(::torch::autograd::Edge const& e) const {
    return e.is_valid() && leads_to_input_.contains(e.function.get());
  }

  void find_branches() {
    auto const order = ordered();
    for (auto const& n : order)
      if (std::ranges::any_of(n.function->next_edges(), [&](auto const& e) { return leads_to_input(e); }))
        leads_to_input_.insert(n.function.get());
    std::vector<char> taken(parameters_.size());
    bool shared = false;
    auto const add = [&](edges at, edges const& aside, tensors const& arrived) {
      branch b{std::move(at), parameters_behind(aside), arrived};
      for (auto const p : b.parameters) shared = shared || std::exchange(taken[p], 1);
      if (!b.parameters.empty()) branches_.push_back(std::move(b));
    };
    add(roots_, roots_, at_roots_);
    for (auto const& n : order) {
      if (!leads_to_input(n)) continue;
      edges at;
      for (std::uint32_t i = 0; i < n.function->num_inputs(); ++i) at.emplace_back(n.function, i);
      add(std::move(at), n.function->next_edges(), {});
    }
    if (!shared) return;
    // A parameter that is read on the path from its other read: one branch, at the results.
    branches_ = {{roots_, {}, at_roots_}};
    for (std::size_t p = 0; p < parameters_.size(); ++p) branches_[0].parameters.push_back(p);
  }

  /// Returns the parameters reached from the edges without passing an input's path.
  std::vector<std::size_t> parameters_behind(edges const& aside) const {
    std::vector<std::size_t> found;
    std::vector<node*> open;
    std::unordered_set<node*> seen;
    auto const enter = [&](edges const& list) {
      for (auto const& e : list)
        if (e.is_valid() && !leads_to_input(e) && seen.insert(e.function.get()).second)
          open.push_back(e.function.get());
    };
    enter(aside);
    while (!open.empty()) {
      auto* const n = open.back();
      open.pop_back();
      if (auto const p = number_.find(n); p != number_.end()) found.push_back(p->second);
      enter(n->next_edges());
    }
    return found;
  }

  edges roots_, inputs_, parameters_;
  tensors at_roots_;
  std::unordered_set<node*> leads_to_input_;
  std::unordered_map<node*, std::size_t> number_;
  std::vector<branch> branches_;
};

}  // namespace cleave::torch
