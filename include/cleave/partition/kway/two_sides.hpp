// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/move_buckets.hpp"

namespace cleave::detail {

/// Nodes on two sides, what the sides weigh and may weigh.
struct two_sides {
  std::vector<std::uint8_t> of;
  std::array<std::int64_t, 2> weight{};
  std::array<std::int64_t, 2> limit{};
  std::int64_t cut = 0;

  /// By how much the sides break their limits.
  std::int64_t excess() const {
    return std::max<std::int64_t>(0, weight[0] - limit[0]) + std::max<std::int64_t>(0, weight[1] - limit[1]);
  }
  bool better_than(two_sides const& other) const {
    if (excess() != other.excess()) return excess() < other.excess();
    if (cut != other.cut) return cut < other.cut;
    return (std::max)(weight[0], weight[1]) < (std::max)(other.weight[0], other.weight[1]);
  }
};

/// Weights and cut from `of`.
inline void weigh(weighted_view const& g, two_sides& s) {
  s.weight = {};
  s.cut = 0;
  for (std::uint32_t n = 0; n < g.nodes; ++n) {
    s.weight[s.of[n]] += g.weight(n);
    for (auto arc = g.first[n]; arc < g.first[n + 1]; ++arc)
      if (s.of[g.head[arc]] != s.of[n]) s.cut += g.arc_weight(arc);
  }
  s.cut /= 2;
}

/// Moves nodes one by one from side to side, best gain first, each at most once, downhill too, and returns to
/// the best state seen; again until a pass gains nothing. Fiduccia, Mattheyses, DAC 1982.
class two_way_fm {
 public:
  two_way_fm(weighted_view const& g, std::vector<std::uint32_t> const& fixed)
      : g_(g), fixed_(fixed), leaving_{move_buckets(g.nodes), move_buckets(g.nodes)}, gain_(g.nodes) {
    for (std::uint32_t n = 0; n < g.nodes; ++n) heaviest_ = (std::max)(heaviest_, g.weight(n));
  }

  void refine(two_sides& s, std::uint32_t passes, std::uint32_t patience) {
    for (std::uint32_t pass = 0; pass < passes; ++pass)
      if (!improve(s, patience)) break;
  }

 private:
  bool improve(two_sides& s, std::uint32_t patience) {
    start(s);
    moves_.clear();
    auto best_cut = s.cut, best_excess = s.excess();
    auto best_spread = spread(s);
    std::size_t best_moves = 0;
    bool improved = false;
    while (moves_.size() - best_moves <= patience) {
      auto const n = next(s);
      if (n == free_node) break;
      move(n, s);
      moves_.push_back(n);
      auto const excess = s.excess();
      bool const better = excess != best_excess ? excess < best_excess : s.cut < best_cut;
      if (better || (excess == best_excess && s.cut == best_cut && spread(s) < best_spread)) {
        improved |= better;
        best_cut = s.cut, best_excess = excess, best_spread = spread(s);
        best_moves = moves_.size();
      }
    }
    leaving_[0].clear();
    leaving_[1].clear();
    while (moves_.size() > best_moves) {
      put_back(moves_.back(), s);
      moves_.pop_back();
    }
    s.cut = best_cut;
    return improved;
  }

  static std::int64_t spread(two_sides const& s) {
    return (std::max)(s.weight[0] - s.limit[0], s.weight[1] - s.limit[1]);
  }

  void start(two_sides const& s) {
    locked_.assign(g_.nodes, 0);
    for (std::uint32_t n = 0; n < g_.nodes; ++n) {
      std::int64_t inside = 0, outside = 0;
      for (auto arc = g_.first[n]; arc < g_.first[n + 1]; ++arc)
        (s.of[g_.head[arc]] == s.of[n] ? inside : outside) += g_.arc_weight(arc);
      gain_[n] = outside - inside;
      if (!fixed_.empty() && fixed_[n] != free_node) {
        locked_[n] = 1;
      } else if (outside > 0 || s.excess() > 0 || g_.degree(n) == 0) {
        leaving_[s.of[n]].put(n, gain_[n]);
      }
    }
  }

  /// The node to move: from the side that is too heavy, otherwise of the better gain.
  std::uint32_t next(two_sides const& s) {
    for (;;) {
      std::size_t from = 2;
      for (std::size_t side = 0; side < 2; ++side)
        if (s.weight[side] > s.limit[side] && !leaving_[side].empty()) from = side;
      if (from == 2) {
        if (leaving_[0].empty() && leaving_[1].empty()) return free_node;
        if (leaving_[0].empty())
          from = 1;
        else if (leaving_[1].empty())
          from = 0;
        else if (leaving_[0].highest() != leaving_[1].highest())
          from = leaving_[0].highest() > leaving_[1].highest() ? 0 : 1;
        else
          from = s.weight[0] - s.limit[0] >= s.weight[1] - s.limit[1] ? 0 : 1;
      }
      auto const n = leaving_[from].pop();
      locked_[n] = 1;
      // One node too much is let pass for a while, lest tight limits stop every exchange.
      if (s.weight[1 - from] + g_.weight(n) <= s.limit[1 - from] + heaviest_ ||
          s.weight[from] > s.limit[from]) {
        if (s.weight[1 - from] <= s.limit[1 - from] || s.weight[from] > s.limit[from]) return n;
      }
    }
  }

  void move(std::uint32_t n, two_sides& s) {
    auto const from = s.of[n];
    s.cut -= gain_[n];
    shift(n, s);
    for (auto arc = g_.first[n]; arc < g_.first[n + 1]; ++arc) {
      auto const other = g_.head[arc];
      auto const w = g_.arc_weight(arc);
      for (int end = 0; end < 2; ++end) gain_[other] += s.of[other] == from ? w : -w;  // 2 * w may not fit
      if (!locked_[other]) leaving_[s.of[other]].put(other, gain_[other]);
    }
  }

  void put_back(std::uint32_t n, two_sides& s) const { shift(n, s); }

  void shift(std::uint32_t n, two_sides& s) const {
    auto const from = s.of[n];
    s.of[n] = 1 - from;
    s.weight[from] -= g_.weight(n);
    s.weight[1 - from] += g_.weight(n);
  }

  weighted_view const& g_;
  std::vector<std::uint32_t> const& fixed_;
  std::array<move_buckets, 2> leaving_;
  std::vector<std::int64_t> gain_;
  std::vector<std::uint8_t> locked_;
  std::vector<std::uint32_t> moves_;
  std::int64_t heaviest_ = 0;
};

}  // namespace cleave::detail
