// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/slices/balance.hpp"

namespace cleave::testing {

using namespace detail;

/// Cost and memory of all 2^n sets of nodes, computed from the definitions. Replicable nodes belong to no
/// set.
class small_graph {
 public:
  using set = std::uint32_t;
  static constexpr double impossible = std::numeric_limits<double>::infinity();

  small_graph(snapshot_arrays const& g, balance_options const& o) : g_(g), o_(o) {
    for (std::size_t n = 0; n < g.nodes(); ++n)
      if (!g.replicable[n]) all |= set{1} << n;
    needed_before_.resize(g.nodes());
    for (std::size_t n = 0; n < g.nodes(); ++n) {
      auto const need = [&](std::uint32_t m) {
        if (m != none<std::uint32_t> && !g.replicable[m] && !is_backward(m) && !is_backward(n))
          needed_before_[n] |= set{1} << m;
      };
      for (auto const v : g.operands[n]) need(g.producer[v]);
      for (auto const m : g.after[n]) need(m);
    }
    held_by_.resize(g.nodes());
    for (std::size_t n = 0; n < g.nodes(); ++n)
      for (auto const v : g.operands[n]) {
        if (g.from[v] == source::state || g.from[v] == source::constant) held_by_[n] |= std::uint64_t{1} << v;
        if (g.from[v] == source::node && g.replicable[g.producer[v]]) held_by_[n] |= held_by_[g.producer[v]];
      }
    auto const sets = std::size_t{1} << g.nodes();
    for (set s = 0; s < sets; ++s) {
      weight_.push_back(sum_of_weights(s));
      transfer_.push_back(sum_of_transfers(s));
      memory_.push_back(sum_of_memory(s));
    }
  }

  /// Returns the load of stage `i` if it has exactly the nodes `s`; `impossible` if constraints forbid that.
  double load(std::size_t i, set s) const {
    if (!o_.memory.empty() && memory_[s] > o_.memory[i]) return impossible;
    for (std::size_t n = 0; n < o_.fixed.size(); ++n)
      if (o_.fixed[n] != no_part && has(all, n) && has(s, n) != (index(o_.fixed[n]) == i)) return impossible;
    return weight_[s] / (o_.speed.empty() ? 1 : o_.speed[i]) +
           (o_.link.empty() ? 1 : o_.link[i]) * o_.cost_per_byte * transfer_[s];
  }

  /// Returns the minimal bottleneck load over all partitions into `k` stages without backward edges.
  double best_ascending(std::size_t k) const {
    return best(k, [&](set s, set done) { return is_whole(s) && follows(s, done); });
  }
  /// Returns the minimal bottleneck load over all partitions that split none of the sets `whole`.
  double best_of_any(std::size_t k, std::vector<set> const& whole) const {
    return best(k, [&](set s, set) {
      return std::ranges::all_of(whole, [&](set unit) { return (s & unit) == 0 || (s & unit) == unit; });
    });
  }
  /// Returns the minimal bottleneck load over all partitions into slices of `order`, a sequence of sets.
  double best_slices(std::size_t k, std::vector<set> const& order) const {
    std::vector<double> least(order.size() + 1, impossible), next;
    least[0] = 0;
    for (std::size_t i = 0; i < k; ++i) {
      next.assign(least.size(), impossible);
      for (std::size_t begin = 0; begin <= order.size(); ++begin) {
        set s = 0;
        for (std::size_t end = begin; end <= order.size(); s |= end < order.size() ? order[end] : 0, ++end)
          if (s != 0 || o_.empty == empty_parts::allowed)
            next[end] = std::min(next[end], std::max(least[begin], load(i, s)));
      }
      least.swap(next);
    }
    return least.back();
  }

  set all = 0;

 private:
  double best(std::size_t k, auto allowed) const {
    std::vector<double> least(std::size_t{1} << g_.nodes(), impossible), next;
    least[0] = 0;
    for (std::size_t i = 0; i < k; ++i) {
      next.assign(least.size(), impossible);
      for (set done = 0; done < least.size(); ++done) {
        if (least[done] == impossible) continue;
        set const rest = all & ~done;
        for (set s = rest;; s = (s - 1) & rest) {
          if ((s != 0 || o_.empty == empty_parts::allowed) && allowed(s, done))
            next[done | s] = std::min(next[done | s], std::max(least[done], load(i, s)));
          if (s == 0) break;
        }
      }
      least.swap(next);
    }
    return least[all];
  }

  static bool has(set s, std::size_t n) { return (s >> n & 1) != 0; }
  bool is_backward(std::size_t n) const { return !o_.backward.empty() && o_.backward[n] != 0; }

  bool is_whole(set s) const {
    for (std::size_t n = 0; n < g_.nodes(); ++n)
      if (has(all, n) && has(all, g_.group[n]) && has(s, n) != has(s, g_.group[n])) return false;
    for (auto const& group : o_.together)
      for (auto const n : group)
        if (has(s, n) != has(s, group.front())) return false;
    return true;
  }
  bool follows(set s, set done) const {
    for (std::size_t n = 0; n < g_.nodes(); ++n)
      if (has(s, n) && (needed_before_[n] & ~(done | s)) != 0) return false;
    return true;
  }
  double sum_of_weights(set s) const {
    double sum = 0;
    for (std::size_t n = 0; n < g_.nodes(); ++n)
      if (has(s, n)) sum += g_.weight[n];
    return sum;
  }
  double sum_of_transfers(set s) const {
    double sum = 0;
    for (std::size_t v = 0; v < g_.values(); ++v) {
      if (g_.producer[v] == none<std::uint32_t> || g_.replicable[g_.producer[v]]) continue;
      bool const made_here = has(s, g_.producer[v]);
      bool read_here = false, read_elsewhere = false;
      for (auto const n : g_.users[v]) (has(s, n) ? read_here : read_elsewhere) = true;
      if (made_here ? read_elsewhere : read_here) sum += static_cast<double>(g_.bytes[v]);
    }
    return sum;
  }
  std::size_t sum_of_memory(set s) const {
    std::size_t sum = 0;
    std::uint64_t held = 0;
    for (std::size_t n = 0; n < g_.nodes(); ++n)
      if (has(s, n)) {
        held |= held_by_[n];
        sum += o_.node_memory.empty() ? 0 : o_.node_memory[n];
      }
    for (std::size_t v = 0; v < g_.values(); ++v)
      if (held >> v & 1) sum += g_.bytes[v];
    return sum;
  }

  snapshot_arrays const& g_;
  balance_options const& o_;
  std::vector<set> needed_before_;      // by node: the predecessors that are not replicable
  std::vector<std::uint64_t> held_by_;  // by node: bit set of the state and constants it needs
  std::vector<double> weight_, transfer_;
  std::vector<std::size_t> memory_;
};

}  // namespace cleave::testing
