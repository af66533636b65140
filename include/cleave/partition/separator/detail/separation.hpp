// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/partition/separator/detail/plain_graph.hpp"

namespace cleave::inline v0_2::detail {

/// The sides of a graph, 0 and 1, and the separator between them, 2.
inline constexpr std::uint8_t in_separator = 2;

/// The side of each node, with the weights of both sides and of the separator. No edge joins the two sides.
struct separation {
  std::vector<std::uint8_t> of;
  std::array<std::int64_t, 3> weight{};

  std::int64_t difference() const {
    return weight[0] > weight[1] ? weight[0] - weight[1] : weight[1] - weight[0];
  }
};

/// The cost of a separation. It is compared in this order: weight above the limit of a side, weight of the
/// separator, difference of the sides.
using separation_cost = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

inline separation_cost cost_of(separation const& s, std::int64_t limit) {
  auto const excess = (std::max)(s.weight[0], s.weight[1]) - limit;
  return {std::max<std::int64_t>(0, excess), s.weight[2], s.difference()};
}

/// Returns the weight limit of a side: (1 + imbalance) times half of the total weight, which is rounded up.
inline std::int64_t side_limit_of(std::int64_t total, double imbalance) {
  auto const room = total / 2;
  auto const slack = static_cast<double>(total) / 2 * imbalance;
  if (slack >= static_cast<double>(room)) return total;
  return total - room + (std::min)(room, static_cast<std::int64_t>(slack));
}

/// Moves nodes of a side above the limit into the separator: the lightest one that suffices, or else the
/// heaviest ones. O(n log n).
inline void enforce_limit(plain_graph const& g, separation& s, std::int64_t limit) {
  for (std::uint8_t side = 0; side < 2; ++side) {
    if (s.weight[side] <= limit) continue;
    std::vector<std::pair<std::int64_t, std::uint32_t>> lightest_first;
    for (std::uint32_t n = 0; n < g.nodes(); ++n)
      if (s.of[n] == side) lightest_first.emplace_back(g.weight[n], n);
    std::sort(lightest_first.begin(), lightest_first.end());
    while (s.weight[side] > limit) {
      auto at = std::lower_bound(lightest_first.begin(), lightest_first.end(),
                                 std::pair(s.weight[side] - limit, std::uint32_t{0}));
      if (at == lightest_first.end()) --at;
      auto const [weight, n] = *at;
      lightest_first.erase(at);
      s.of[n] = in_separator;
      s.weight[side] -= weight;
      s.weight[2] += weight;
    }
  }
}

/// Refines separators by moving single nodes. A node that leaves the separator for one side pulls its
/// neighbours on the other side into the separator. A pass moves nodes to one side only, each at most once
/// and best gain first, and returns to the best state seen. Ashcraft, Liu, SIMAX 19(2), 1998; Hendrickson,
/// Rothberg, SISC 20(2), 1998.
class separator_refinement {
 public:
  separator_refinement(plain_graph const& g, std::int64_t limit)
      : g_(g), limit_(limit), opposite_weight_(g.nodes()), locked_(g.nodes(), 0) {}

  /// Refines a separation by at most `passes` pairs of passes, one to each side. A pass ends after
  /// `max_fruitless_moves` moves without improvement.
  void refine(separation& s, std::uint32_t passes, std::size_t max_fruitless_moves) {
    members_.clear();
    for (std::uint32_t n = 0; n < g_.nodes(); ++n)
      if (s.of[n] == in_separator) members_.push_back(n);
    std::uint8_t const first = s.weight[0] < s.weight[1] ? 0 : 1;
    for (std::uint32_t i = 0; i < passes; ++i) {
      bool const improved = improve(s, first, max_fruitless_moves);
      if (!improve(s, first == 0 ? 1 : 0, max_fruitless_moves) && !improved) break;
    }
  }

 private:
  static constexpr std::uint32_t none = 0xffffffff;

  struct candidate {
    std::int64_t gain;
    std::uint32_t age, node;
    bool operator<(candidate const& other) const {
      return std::tie(gain, age) < std::tie(other.gain, other.age);
    }
  };
  struct departure {
    std::uint32_t node;
    std::size_t first_pull;  // position in `pulled_` of the first node that it pulls
  };

  /// Makes one pass to side `to`. Returns whether the separator is lighter or the excess is smaller.
  bool improve(separation& s, std::uint8_t to, std::size_t max_fruitless_moves) {
    to_ = to, from_ = to == 0 ? 1 : 0;
    moves_.clear(), pulled_.clear(), heap_.clear();
    clock_ = 0;
    for (auto const n : members_) enter(s, n);
    auto const first = cost_of(s, limit_);
    auto best = first;
    std::size_t best_moves = 0;
    while (moves_.size() - best_moves <= max_fruitless_moves) {
      auto const n = next(s);
      if (n == none) break;
      move(s, n);
      if (auto const now = cost_of(s, limit_); now < best) best = now, best_moves = moves_.size();
    }
    for (auto const& m : moves_) locked_[m.node] = 0;
    roll_back(s, best_moves);
    for (auto const n : pulled_) members_.push_back(n);
    std::erase_if(members_, [&](std::uint32_t n) { return s.of[n] != in_separator; });
    return std::pair(std::get<0>(best), std::get<1>(best)) <
           std::pair(std::get<0>(first), std::get<1>(first));
  }

  /// Returns the separator node with the highest gain among those for which the side has room.
  std::uint32_t next(separation const& s) {
    while (!heap_.empty()) {
      auto const c = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.pop_back();
      bool const outdated = s.of[c.node] != in_separator || locked_[c.node] || c.gain != gain(c.node);
      if (!outdated && s.weight[to_] + g_.weight[c.node] <= limit_) return c.node;
    }
    return none;
  }

  std::int64_t gain(std::uint32_t n) const { return g_.weight[n] - opposite_weight_[n]; }

  void push(std::uint32_t n) {
    heap_.push_back({gain(n), clock_++, n});
    std::push_heap(heap_.begin(), heap_.end());
  }

  /// Makes a node of the separator a candidate.
  void enter(separation const& s, std::uint32_t n) {
    std::int64_t opposite = 0;
    for (auto e = g_.offsets[n]; e < g_.offsets[n + 1]; ++e)
      if (s.of[g_.targets[e]] == from_) opposite += g_.weight[g_.targets[e]];
    opposite_weight_[n] = opposite;
    push(n);
  }

  void change_side(separation& s, std::uint32_t n, std::uint8_t side) const {
    s.weight[s.of[n]] -= g_.weight[n];
    s.weight[side] += g_.weight[n];
    s.of[n] = side;
  }

  void move(separation& s, std::uint32_t n) {
    moves_.push_back({n, pulled_.size()});
    locked_[n] = 1;
    change_side(s, n, to_);
    for (auto e = g_.offsets[n]; e < g_.offsets[n + 1]; ++e)
      if (s.of[g_.targets[e]] == from_) pull(s, g_.targets[e]);
  }

  void pull(separation& s, std::uint32_t n) {
    pulled_.push_back(n);
    change_side(s, n, in_separator);
    for (auto e = g_.offsets[n]; e < g_.offsets[n + 1]; ++e) {
      auto const other = g_.targets[e];
      if (s.of[other] != in_separator) continue;
      opposite_weight_[other] -= g_.weight[n];
      if (g_.weight[n] > 0) push(other);
    }
    enter(s, n);
  }

  /// Undoes all moves but the first `moves`.
  void roll_back(separation& s, std::size_t moves) {
    for (; moves_.size() > moves; moves_.pop_back()) {
      for (; pulled_.size() > moves_.back().first_pull; pulled_.pop_back())
        change_side(s, pulled_.back(), from_);
      change_side(s, moves_.back().node, in_separator);
    }
  }

  plain_graph const& g_;
  std::int64_t limit_;
  std::uint8_t to_ = 0, from_ = 1;             // the sides that nodes join and that pulled nodes leave
  std::vector<std::int64_t> opposite_weight_;  // of the neighbours of a separator node on side `from_`
  std::vector<std::uint8_t> locked_;           // whether a node has left the separator in this pass
  std::vector<candidate> heap_;
  std::vector<std::uint32_t> members_;  // of the separator at the start of a pass
  std::vector<departure> moves_;
  std::vector<std::uint32_t> pulled_;
  std::uint32_t clock_ = 0;
};

}  // namespace cleave::detail
