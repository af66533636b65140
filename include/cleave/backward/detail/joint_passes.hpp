// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <utility>
#include <vector>

#include "cleave/backward/joint_cut.hpp"
#include "cleave/backward/joint_graph.hpp"

namespace cleave::inline v0_2::detail {

/// For each node of a joint graph, whether a later pass that needs its value runs it again.
struct joint_choice {
  std::vector<char> in_backward, in_weight;
  bool operator==(joint_choice const&) const = default;
};

/// The passes of a joint graph for any choice of what runs again.
template <std::unsigned_integral Index>
class joint_passes {
 public:
  using cut = basic_joint_cut<Index>;

  joint_passes(basic_joint_graph<Index> const& g, joint_cut_options const& o)
      : g_(g),
        in_flight_(static_cast<double>(o.in_flight)),
        weights_in_flight_(static_cast<double>(o.weights_in_flight)),
        late_(depends_on_gradients(g)) {
    find_passes();
    find_needs();
  }

  bool is_operation(std::size_t n) const { return g_.source[n] == joint_source::operation; }
  bool is_parameter(std::size_t n) const { return g_.source[n] == joint_source::parameter; }
  bool is_unsavable(std::size_t n) const { return !g_.unsavable.empty() && g_.unsavable[n] != 0; }
  bool runs_once(std::size_t n) const { return !g_.run_once.empty() && g_.run_once[n] != 0; }
  double cost(std::size_t n) const { return !is_operation(n) ? 0 : g_.cost.empty() ? 1 : g_.cost[n]; }
  double bytes(std::size_t n) const { return is_parameter(n) ? 0 : static_cast<double>(g_.bytes[n]); }
  double in_flight() const { return in_flight_; }
  double weights_in_flight() const { return weights_in_flight_; }

  /// For each node, whether it depends on a gradient.
  std::vector<char> const& late() const { return late_; }
  /// For each node, whether the weight pass runs it in any case.
  std::vector<char> const& in_weight() const { return in_weight_; }
  /// For each node, whether the backward or the weight pass reads its value and does not make it.
  std::vector<char> const& needed_backward() const { return needed_backward_; }
  std::vector<char> const& needed_weight() const { return needed_weight_; }

  bool in_forward(std::size_t n) const { return in_forward_[n] != 0; }
  bool in_backward(std::size_t n) const { return in_backward_[n] != 0; }
  /// Returns true if the backward or the weight pass may run the node where it needs its value.
  bool may_repeat(std::size_t n) const { return may_repeat_[n] != 0; }
  bool may_repeat_weight(std::size_t n) const { return may_repeat_weight_[n] != 0; }

  /// The figures by which a search compares cuts.
  struct score {
    double saved_bytes = 0, kept_bytes = 0;  ///< of one microbatch
    std::size_t bytes = 0;                   ///< of all microbatches in flight
    double cost = 0;                         ///< of additional runs
    bool is_valid = true;                    ///< false if an operation that may run only once runs again
  };

  /// For each node, whether a pass runs it or needs its value from another one. A search keeps this between
  /// calls of `walk`, so that they allocate nothing.
  struct pass_marks {
    std::vector<char> forward, backward, weight, needed, needed_weight;
  };

  /// Finds the passes that a choice leads to, and returns the score of their cut. Calls `on_kept(n)` and
  /// `on_saved(n)` for values that wait, the last one first, and `on_run(n, runs)` for operations with the
  /// number of passes that run them. O(V + E).
  template <class Kept, class Saved, class Run>
  score walk(joint_choice const& c, pass_marks& at, Kept on_kept, Saved on_saved, Run on_run) const {
    auto const n = g_.nodes();
    score s;
    at.forward = in_forward_, at.backward = in_backward_, at.weight = in_weight_;
    at.needed = needed_backward_, at.needed_weight = needed_weight_;
    for (std::size_t m = n; m-- > 0;) {
      if (!at.needed_weight[m] || at.weight[m]) continue;
      if (may_repeat_weight_[m] && (c.in_weight[m] || is_unsavable(m))) {
        at.weight[m] = 1;
        for (Index const u : g_.reads[m]) at.needed_weight[u] = 1;
        continue;
      }
      at.needed[m] |= static_cast<char>(!late_[m]);
      if (!is_parameter(m)) s.kept_bytes += bytes(m), on_kept(m);
    }
    for (std::size_t m = n; m-- > 0;) {
      if (!at.needed[m]) continue;
      if (may_repeat_[m] && (c.in_backward[m] || is_unsavable(m))) {
        at.backward[m] = 1;
        for (Index const u : g_.reads[m]) at.needed[u] = 1;
      } else {
        at.forward[m] = 1;
        if (!is_parameter(m)) s.saved_bytes += bytes(m), on_saved(m);
      }
    }
    close(at.forward);
    for (std::size_t m = 0; m < n; ++m) {
      if (!is_operation(m)) continue;
      int const runs = at.forward[m] + at.backward[m] + at.weight[m];
      if (runs > 1) s.cost += (runs - 1) * cost(m), s.is_valid = s.is_valid && !runs_once(m);
      on_run(m, runs);
    }
    auto const all = in_flight_ * s.saved_bytes + weights_in_flight_ * s.kept_bytes;
    s.bytes = static_cast<std::size_t>((std::min)(all, 0x1p63));
    return s;
  }

  /// Returns the score of the cut that a choice leads to. O(V + E).
  score score_of(joint_choice const& c, pass_marks& marks) const {
    auto const ignored = [](auto...) {};
    return walk(c, marks, ignored, ignored, ignored);
  }

  /// Returns the cut that a choice leads to. O(V + E).
  cut cut_of(joint_choice const& c) const {
    cut r;
    pass_marks marks;
    auto const s = walk(
        c, marks, [&](std::size_t m) { r.kept.push_back(static_cast<Index>(m)); },
        [&](std::size_t m) { r.saved.push_back(static_cast<Index>(m)); },
        [&](std::size_t m, int runs) {
          if (marks.forward[m]) r.forward.push_back(static_cast<Index>(m));
          if (marks.backward[m]) r.backward.push_back(static_cast<Index>(m));
          if (marks.weight[m]) r.weight.push_back(static_cast<Index>(m));
          if (runs > 1) r.again.push_back(static_cast<Index>(m));
        });
    std::ranges::reverse(r.saved);
    std::ranges::reverse(r.kept);
    r.saved_bytes = static_cast<std::size_t>(s.saved_bytes);
    r.kept_bytes = static_cast<std::size_t>(s.kept_bytes);
    r.bytes = s.bytes, r.cost = s.cost;
    return r;
  }

 private:
  void close(std::vector<char>& set) const {
    for (std::size_t n = g_.nodes(); n-- > 0;)
      if (set[n])
        for (Index const m : g_.reads[n]) set[m] = 1;
  }
  void close_late(std::vector<char>& set) const {
    for (std::size_t n = g_.nodes(); n-- > 0;)
      if (set[n])
        for (Index const m : g_.reads[n]) set[m] |= late_[m];
  }

  /// Finds the nodes that each pass must run, and those that it may run again.
  void find_passes() {
    auto const n = g_.nodes();
    in_forward_.assign(n, 0), in_backward_.assign(n, 0), in_weight_.assign(n, 0);
    for (Index const m : g_.results) in_forward_[m] = 1;
    close(in_forward_);
    for (Index const m : g_.input_gradients) in_backward_[m] = late_[m];
    for (Index const m : g_.weight_gradients)
      (weights_in_flight_ == 0 ? in_backward_ : in_weight_)[m] |= late_[m];
    close_late(in_backward_);
    close_late(in_weight_);

    // A node cannot run again if it reads a value that can neither be saved nor be made again.
    may_repeat_.assign(n, 0), may_repeat_weight_.assign(n, 0);
    for (std::size_t m = 0; m < n; ++m) {
      if (!is_operation(m)) continue;
      may_repeat_[m] = !late_[m] && (!runs_once(m) || !in_forward_[m]);
      may_repeat_weight_[m] = !runs_once(m) || may_repeat_[m];
      for (Index const u : g_.reads[m])
        if (is_unsavable(u)) may_repeat_[m] &= may_repeat_[u], may_repeat_weight_[m] &= may_repeat_weight_[u];
    }
    move_to_backward();
    for (std::size_t m = 0; m < n; ++m)
      in_weight_[m] &= static_cast<char>(!in_backward_[m] && is_operation(m));
  }

  /// A node of the weight pass that reads a value of the backward pass that can neither be saved nor be made
  /// again runs in the backward pass, and so do the nodes that it depends on.
  void move_to_backward() {
    for (bool moved = !g_.unsavable.empty(); std::exchange(moved, false);) {
      for (std::size_t n = 0; n < g_.nodes(); ++n)
        if (in_weight_[n] && !in_backward_[n])
          for (Index const m : g_.reads[n])
            if (in_backward_[m] && is_unsavable(m) && !may_repeat_weight_[m])
              in_backward_[n] = 1, moved = true;
      close_late(in_backward_);
    }
  }

  /// Finds the values that the backward and the weight pass read and do not make.
  void find_needs() {
    needed_backward_.assign(g_.nodes(), 0), needed_weight_.assign(g_.nodes(), 0);
    for (std::size_t n = 0; n < g_.nodes(); ++n)
      for (Index const m : g_.reads[n]) {
        if (in_backward_[n]) needed_backward_[m] |= static_cast<char>(!late_[m]);
        if (in_weight_[n]) needed_weight_[m] |= static_cast<char>(!in_weight_[m]);
      }
    for (auto const* list : {&g_.input_gradients, &g_.weight_gradients})
      for (Index const m : *list) needed_backward_[m] |= static_cast<char>(!late_[m]);
  }

  basic_joint_graph<Index> const& g_;
  double in_flight_, weights_in_flight_;
  // For each node:
  std::vector<char> late_;                                  // it depends on a gradient
  std::vector<char> in_forward_, in_backward_, in_weight_;  // the pass must run it
  std::vector<char> may_repeat_, may_repeat_weight_;        // the pass may run it where it needs its value
  std::vector<char> needed_backward_, needed_weight_;       // the pass reads it and does not make it
};

}  // namespace cleave::detail
