// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::detail {

/// What a maximum flow is worth, for networks whose paths are long and many: flow is pushed towards the sink
/// from wherever most of it stands far away, and not back. Goldberg and Tarjan, J. ACM 35(4), 1988;
/// Cherkassky and Goldberg, Algorithmica 19, 1997. Its first phase alone: no arc's flow is known.
class pushed_flow {
 public:
  explicit pushed_flow(std::size_t nodes) : nodes_(static_cast<std::uint32_t>(nodes)) {}

  /// No arc leads from a node to itself. All capacities that leave the source have a sum below 2^61.
  void arc(std::uint32_t from, std::uint32_t to, std::int64_t capacity) {
    listed_.push_back({from, to, capacity});
  }

  /// What reaches the sink, all of it or as much as some `most_steps` steps bring there: never more than a
  /// cut. A step is a look at an arc. Once, after all arcs.
  std::int64_t most(std::uint32_t source, std::uint32_t sink, std::size_t most_steps) {
    source_ = source, sink_ = sink;
    make_rows();
    for (auto a = first_[source]; a < first_[source + 1]; ++a) push(a, arcs_[a].capacity);
    set_labels();
    std::size_t before = steps_;
    while (steps_ < most_steps && take_highest()) {
      discharge();
      if (steps_ - before < 8 * arcs_.size()) continue;
      set_labels();
      before = steps_;
    }
    return excess_[sink];
  }
  std::size_t steps() const { return steps_; }

 private:
  struct listed_arc {
    std::uint32_t from, to;
    std::int64_t capacity;
  };
  struct arc_end {
    std::uint32_t to, reverse;
    std::int64_t capacity;
  };

  void make_rows() {
    first_.assign(nodes_ + std::size_t{1}, 0);
    for (auto const& a : listed_) ++first_[a.from + 1], ++first_[a.to + 1];
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    arcs_.resize(2 * listed_.size());
    auto next = first_;
    for (auto const& a : listed_) {
      auto const there = next[a.from]++, back = next[a.to]++;
      arcs_[there] = {a.to, back, a.capacity};
      arcs_[back] = {a.from, there, 0};
    }
    excess_.assign(nodes_, 0);
    label_.assign(nodes_, nodes_);
    next_arc_.assign(nodes_, 0);
    below_.assign(nodes_, nobody);
  }

  void push(std::uint32_t a, std::int64_t amount) {
    auto& arc = arcs_[a];
    arc.capacity -= amount;
    arcs_[arc.reverse].capacity += amount;
    excess_[arc.to] += amount;
  }

  /// Labels each node with how many arcs it is from the sink, `nodes_` where no way is left.
  void set_labels() {
    label_.assign(nodes_, nodes_);
    top_.assign(nodes_, nobody);
    count_.assign(nodes_, 0);
    highest_ = 0;
    std::vector<std::uint32_t> queue{sink_};
    label_[sink_] = 0;
    for (std::size_t i = 0; i < queue.size(); ++i) {
      auto const node = queue[i];
      ++count_[label_[node]];
      next_arc_[node] = first_[node];
      if (node != sink_ && excess_[node] > 0) put(node);
      steps_ += first_[node + 1] - first_[node];
      for (auto a = first_[node]; a < first_[node + 1]; ++a)
        if (auto const from = arcs_[a].to;
            label_[from] == nodes_ && from != source_ && arcs_[arcs_[a].reverse].capacity > 0) {
          label_[from] = label_[node] + 1;
          queue.push_back(from);
        }
    }
  }

  /// Nodes with an excess stand in stacks, one for each label.
  void put(std::uint32_t node) {
    auto& top = top_[label_[node]];
    below_[node] = top;
    top = node;
    highest_ = (std::max)(highest_, label_[node]);
  }
  bool take_highest() {
    for (;; --highest_) {
      while (top_[highest_] != nobody) {
        at_ = top_[highest_];
        top_[highest_] = below_[at_];
        if (label_[at_] == highest_) return true;  // else it was found to have no way left
      }
      if (highest_ == 0) return false;
    }
  }

  /// Pushes what stands at `at_` to nodes one nearer to the sink, until nothing is left or no way is.
  void discharge() {
    while (label_[at_] < nodes_) {
      for (auto& a = next_arc_[at_]; a < first_[at_ + 1]; ++a, ++steps_) {
        auto const [to, reverse, capacity] = arcs_[a];
        if (capacity == 0 || label_[at_] != label_[to] + 1) continue;
        bool const first = excess_[to] == 0 && to != sink_;
        auto const amount = (std::min)(excess_[at_], capacity);
        excess_[at_] -= amount;
        push(a, amount);
        if (first) put(to);
        if (excess_[at_] == 0) return;
      }
      relabel();
    }
  }

  void relabel() {
    auto const old = label_[at_];
    auto least = nodes_;
    for (auto a = first_[at_]; a < first_[at_ + 1]; ++a, ++steps_)
      if (arcs_[a].capacity > 0) least = (std::min)(least, label_[arcs_[a].to] + 1);
    if (--count_[old] == 0) {  // nobody is between those above and the sink
      steps_ += nodes_;
      for (auto& label : label_)
        if (label > old) label = nodes_;
      least = nodes_;
    }
    label_[at_] = least;
    next_arc_[at_] = first_[at_];
    if (least < nodes_) ++count_[least];
  }

  static constexpr std::uint32_t nobody = static_cast<std::uint32_t>(-1);
  std::uint32_t nodes_, source_ = 0, sink_ = 0, at_ = 0, highest_ = 0;
  std::vector<listed_arc> listed_;
  std::vector<arc_end> arcs_;
  std::vector<std::uint32_t> first_, next_arc_;  // of a node: its arcs, and the next to push along
  std::vector<std::int64_t> excess_;             // of a node: what came and did not leave
  std::vector<std::uint32_t> label_, below_;     // of a node
  std::vector<std::uint32_t> top_, count_;       // of a label
  std::size_t steps_ = 0;
};

}  // namespace cleave::detail
