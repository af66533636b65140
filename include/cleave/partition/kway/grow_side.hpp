// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/move_buckets.hpp"
#include "cleave/partition/kway/two_sides.hpp"

namespace cleave::detail {

/// Where a side that grows takes its next node: among the neighbours of those it has, or wherever the gain is
/// best for the node's weight (which peels off nodes of low degree, where limits leave room).
enum class growth : std::uint8_t { around_a_node, anywhere };

/// Lets side 0 grow node by node out of nothing, best gain first, as far as the limits let it and at least as
/// far as they demand; of the states between, that of the least cut is taken. Karypis, Kumar, SISC 20(1),
/// 1998, §3.2 (greedy graph growing).
class side_growing {
 public:
  side_growing(weighted_view const& g, std::vector<std::uint32_t> const& fixed)
      : g_(g), fixed_(fixed), border_(g.nodes), gain_(g.nodes) {}

  /// Precondition: `s.limit` is set. `aim` is the weight that side 0 should have where the cut does not care.
  void grow(two_sides& s, growth how, std::int64_t aim, splitmix& random) {
    how_ = how;
    start(s);
    std::int64_t const total = s.weight[1];
    std::int64_t const least = total - s.limit[1];
    bool chosen = false;
    std::size_t best = 0;
    std::int64_t best_cut = 0, best_distance = 0;
    order_.clear();
    place_fixed(s);
    while (s.weight[0] < s.limit[0]) {
      auto const n = next(s, random);
      if (n == free_node) break;
      if (s.weight[0] + g_.weight(n) > s.limit[0]) {
        if (s.weight[0] >= least) break;
        continue;
      }
      take(n, s);
      if (s.weight[0] < least) continue;
      auto const distance = s.weight[0] > aim ? s.weight[0] - aim : aim - s.weight[0];
      if (!chosen || s.cut < best_cut || (s.cut == best_cut && distance < best_distance)) {
        chosen = true;
        best = order_.size();
        best_cut = s.cut, best_distance = distance;
      }
    }
    border_.clear();
    if (chosen) give_back(s, best);
  }

 private:
  void start(two_sides& s) {
    s.of.assign(g_.nodes, 1);
    s.weight = {};
    s.cut = 0;
    outside_.clear();
    for (std::uint32_t n = 0; n < g_.nodes; ++n) {
      s.weight[1] += g_.weight(n);
      gain_[n] = 0;
      for (auto arc = g_.first[n]; arc < g_.first[n + 1]; ++arc) gain_[n] -= g_.arc_weight(arc);
      if (!fixed_.empty() && fixed_[n] != free_node) continue;
      outside_.push_back(n);
    }
    mean_weight_ = (std::max)(1.0, static_cast<double>(s.weight[1]) / (std::max)(1u, g_.nodes));
    if (how_ == growth::anywhere)
      for (auto const n : outside_) border_.put(n, urgency(n));
  }

  /// The gain; where all nodes stand at the border, that for a mean node's weight.
  std::int64_t urgency(std::uint32_t n) const {
    if (how_ == growth::around_a_node) return gain_[n];
    auto const means = static_cast<double>(std::max<std::int64_t>(1, g_.weight(n))) / mean_weight_;
    return static_cast<std::int64_t>(std::clamp(static_cast<double>(gain_[n]) / means, -0x1p62, 0x1p62));
  }

  void place_fixed(two_sides& s) {
    if (fixed_.empty()) return;
    for (std::uint32_t n = 0; n < g_.nodes; ++n)
      if (fixed_[n] == 0) take(n, s);
    order_.clear();
  }

  std::uint32_t next(two_sides const& s, splitmix& random) {
    if (!border_.empty()) return border_.pop();
    while (!outside_.empty()) {
      auto const at = random.below(outside_.size());
      auto const n = outside_[at];
      outside_[at] = outside_.back();
      outside_.pop_back();
      if (s.of[n] == 1) return n;
    }
    return free_node;
  }

  void take(std::uint32_t n, two_sides& s) {
    s.of[n] = 0;
    s.weight[1] -= g_.weight(n);
    s.weight[0] += g_.weight(n);
    s.cut -= gain_[n];
    order_.push_back(n);
    for (auto arc = g_.first[n]; arc < g_.first[n + 1]; ++arc) {
      auto const other = g_.head[arc];
      for (int end = 0; end < 2; ++end) gain_[other] += g_.arc_weight(arc);  // twice that may not fit
      if (s.of[other] == 1 && (fixed_.empty() || fixed_[other] == free_node))
        border_.put(other, urgency(other));
    }
  }

  void give_back(two_sides& s, std::size_t keep) {
    while (order_.size() > keep) {
      s.of[order_.back()] = 1;
      order_.pop_back();
    }
    weigh(g_, s);
  }

  weighted_view const& g_;
  std::vector<std::uint32_t> const& fixed_;
  move_buckets border_;
  std::vector<std::int64_t> gain_;
  growth how_ = growth::anywhere;
  double mean_weight_ = 1;
  std::vector<std::uint32_t> outside_, order_;
};

}  // namespace cleave::detail
