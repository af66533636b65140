// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/language.hpp"
#include "cleave/graph/flow/residual_network.hpp"

namespace cleave::inline v0_2::detail {

/// Computes the value of a maximum flow, for networks with many long paths. This is the first phase of the
/// push-relabel method: nodes with the highest label push their excess towards the sink. The flow on each arc
/// is not known at the end. Goldberg and Tarjan, J. ACM 35(4), 1988; Cherkassky and Goldberg, Algorithmica
/// 19, 1997.
class pushed_flow {
 public:
  explicit pushed_flow(std::size_t nodes) : nodes_(static_cast<std::uint32_t>(nodes)), net_(nodes) {}

  /// Adds an arc. Preconditions: its ends differ, and the capacities of all arcs from the source add up to
  /// less than 2^61.
  void arc(std::uint32_t from, std::uint32_t to, std::int64_t capacity) { net_.edge(from, to, capacity, 0); }

  /// Returns the value of a maximum flow, or a lower bound on it if about `most_steps` steps do not suffice.
  /// A step is one look at an arc. Call it once, after all arcs are added.
  std::int64_t most(std::uint32_t source, std::uint32_t sink, std::size_t most_steps) {
    source_ = source, sink_ = sink;
    start();
    for (auto a = net_.first(source); a < net_.first(source + std::size_t{1}); ++a) push(a, net_[a].room);
    set_labels();
    std::size_t before = steps_;
    while (steps_ < most_steps && take_highest()) {
      discharge();
      if (steps_ - before < 8 * net_.arcs()) continue;
      set_labels();
      before = steps_;
    }
    return excess_[sink];
  }
  std::size_t steps() const { return steps_; }

 private:
  void start() {
    net_.build();
    excess_.assign(nodes_, 0);
    label_.assign(nodes_, nodes_);
    next_arc_.assign(nodes_, 0);
    below_.assign(nodes_, no_node);
  }

  void push(std::uint32_t a, std::int64_t amount) {
    net_.push(a, amount);
    excess_[net_[a].head] += amount;
  }

  /// Labels each node with its distance to the sink in arcs, or `nodes_` if no path is left (global
  /// relabelling).
  void set_labels() {
    label_.assign(nodes_, nodes_);
    top_.assign(nodes_, no_node);
    count_.assign(nodes_, 0);
    highest_ = 0;
    std::vector<std::uint32_t> queue{sink_};
    label_[sink_] = 0;
    for (std::size_t i = 0; i < queue.size(); ++i) {
      auto const node = queue[i];
      ++count_[label_[node]];
      next_arc_[node] = net_.first(node);
      if (node != sink_ && excess_[node] > 0) put(node);
      steps_ += net_.arcs_of(node).size();
      for (auto const& a : net_.arcs_of(node))
        if (label_[a.head] == nodes_ && a.head != source_ && a.back > 0) {
          label_[a.head] = label_[node] + 1;
          queue.push_back(a.head);
        }
    }
  }

  /// Puts a node with excess on the stack of its label.
  void put(std::uint32_t node) {
    auto& top = top_[label_[node]];
    below_[node] = top;
    top = node;
    highest_ = (std::max)(highest_, label_[node]);
  }
  /// Takes a node with the highest label off its stack into `at_`. Returns false if no node has excess.
  bool take_highest() {
    for (;; --highest_) {
      while (top_[highest_] != no_node) {
        at_ = top_[highest_];
        top_[highest_] = below_[at_];
        if (label_[at_] == highest_) return true;  // otherwise no path to the sink is left for it
      }
      if (highest_ == 0) return false;
    }
  }

  /// Pushes the excess of `at_` to nodes one step nearer to the sink, until no excess or no path is left.
  void discharge() {
    while (label_[at_] < nodes_) {
      for (auto& a = next_arc_[at_]; a < net_.first(at_ + std::size_t{1}); ++a, ++steps_) {
        auto const to = net_[a].head;
        auto const room = net_[a].room;
        if (room == 0 || label_[at_] != label_[to] + 1) continue;
        bool const first = excess_[to] == 0 && to != sink_;
        auto const amount = (std::min)(excess_[at_], room);
        excess_[at_] -= amount;
        push(a, amount);
        if (first) put(to);
        if (excess_[at_] == 0) return;
      }
      relabel();
    }
  }

  /// Raises the label of `at_` so that it can push again.
  void relabel() {
    auto const old = label_[at_];
    auto least = nodes_;
    for (auto const& a : net_.arcs_of(at_))
      if (a.room > 0) least = (std::min)(least, label_[a.head] + 1);
    steps_ += net_.arcs_of(at_).size();
    if (--count_[old] == 0) {  // a gap: no node is left between the higher labels and the sink
      steps_ += nodes_;
      for (auto& label : label_)
        if (label > old) label = nodes_;
      least = nodes_;
    }
    label_[at_] = least;
    next_arc_[at_] = net_.first(at_);
    if (least < nodes_) ++count_[least];
  }

  static constexpr std::uint32_t no_node = static_cast<std::uint32_t>(-1);
  std::uint32_t nodes_, source_ = 0, sink_ = 0, at_ = 0, highest_ = 0;
  residual_network net_;
  std::vector<std::uint32_t> next_arc_;       // of a node: the next arc to push along
  std::vector<std::int64_t> excess_;          // of a node: its inflow minus its outflow
  std::vector<std::uint32_t> label_, below_;  // of a node: its label, and the node below it on the stack
  std::vector<std::uint32_t> top_, count_;    // of a label: the top of its stack, and the number of its nodes
  std::size_t steps_ = 0;
};

}  // namespace cleave::detail
