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
#include "cleave/graph/flow/local_flow.hpp"
#include "cleave/partition/separator/detail/plain_graph.hpp"
#include "cleave/partition/separator/detail/separation.hpp"

namespace cleave::inline v0_2::detail {

/// Two sides of a graph, and the number of edges between them.
struct edge_bisection {
  std::vector<std::uint8_t> of;
  std::array<std::int64_t, 2> weight{};
  std::int64_t cut = 0;

  /// Returns the cost, compared in this order: weight above the limit, cut, weight of the heavier side.
  std::tuple<std::int64_t, std::int64_t, std::int64_t> cost(std::int64_t limit) const {
    auto const heavier = (std::max)(weight[0], weight[1]);
    return {std::max<std::int64_t>(0, heavier - limit), cut, heavier};
  }
};

/// Grows and refines bisections with few edges between the sides: Fiduccia, Mattheyses, DAC 1982.
class bisection_refinement {
 public:
  bisection_refinement(plain_graph const& g, std::int64_t limit)
      : g_(g), limit_(limit), gain_(g.nodes()), locked_(g.nodes()) {}

  /// Improves a bisection by at most `passes` passes. A pass ends after `max_fruitless_moves` moves without
  /// improvement.
  void refine(edge_bisection& s, std::uint32_t passes, std::size_t max_fruitless_moves) {
    for (std::uint32_t pass = 0; pass < passes; ++pass) {
      start(s, false);
      auto best = s.cost(limit_);
      auto const first = best;
      std::size_t best_moves = 0;
      while (moves_.size() - best_moves <= max_fruitless_moves) {
        auto const n = choose(s);
        if (n == none) break;
        move(s, n);
        if (auto const now = s.cost(limit_); now < best) best = now, best_moves = moves_.size();
      }
      roll_back(s, best_moves);
      s.cut = std::get<1>(best);
      if (std::pair(std::get<0>(best), std::get<1>(best)) >=
          std::pair(std::get<0>(first), std::get<1>(first)))
        break;
    }
  }

  /// Grows side 0 from a random node, best gain first, until it reaches the limit. Returns the best bisection
  /// on the way.
  edge_bisection grown(splitmix& random) {
    edge_bisection s;
    s.of.assign(g_.nodes(), 1);
    s.weight = {0, g_.total()};
    start(s, true);
    bool found = false;
    auto best = s.cost(limit_);
    std::size_t best_moves = 0;
    while (s.weight[0] < limit_) {
      clean(s, 1);
      auto n = none;
      if (heap_[1].empty()) {
        auto const from = random.below(g_.nodes());
        for (std::size_t i = 0; i < g_.nodes() && n == none; ++i)
          if (auto const at = static_cast<std::uint32_t>((from + i) % g_.nodes()); s.of[at] == 1) n = at;
        if (n == none) break;
      } else {
        n = pop(1);
      }
      if (s.weight[0] + g_.weight[n] > limit_) break;
      move(s, n);
      if (auto const now = s.cost(limit_); !found || now < best)
        found = true, best = now, best_moves = moves_.size();
    }
    roll_back(s, best_moves);
    if (found) s.cut = std::get<1>(best);
    return s;
  }

 private:
  static constexpr std::uint32_t none = 0xffffffff;
  struct candidate {
    std::int64_t gain;
    std::uint32_t tie, node;
    bool operator<(candidate const& other) const {
      return std::tie(gain, tie) < std::tie(other.gain, other.tie);
    }
  };

  void start(edge_bisection const& s, bool grows) {
    heap_[0].clear(), heap_[1].clear();
    moves_.clear();
    clock_ = 0;
    std::fill(locked_.begin(), locked_.end(), std::uint8_t{0});
    for (std::uint32_t n = 0; n < g_.nodes(); ++n) {
      std::int64_t inside = 0, outside = 0;
      for (auto e = g_.offsets[n]; e < g_.offsets[n + 1]; ++e)
        (s.of[g_.targets[e]] == s.of[n] ? inside : outside) += g_.edge_count(e);
      gain_[n] = outside - inside;
      if (!grows && (outside > 0 || s.weight[s.of[n]] > limit_)) push(s, n);
    }
  }

  void push(edge_bisection const& s, std::uint32_t n) {
    auto& heap = heap_[s.of[n]];
    heap.push_back({gain_[n], clock_++, n});
    std::push_heap(heap.begin(), heap.end());
  }
  std::uint32_t pop(std::uint8_t from) {
    auto& heap = heap_[from];
    auto const n = heap.front().node;
    std::pop_heap(heap.begin(), heap.end());
    heap.pop_back();
    return n;
  }
  /// Removes outdated candidates from the front of a heap.
  void clean(edge_bisection const& s, std::uint8_t from) {
    while (!heap_[from].empty()) {
      auto const& c = heap_[from].front();
      if (!locked_[c.node] && s.of[c.node] == from && c.gain == gain_[c.node]) return;
      pop(from);
    }
  }

  std::uint32_t choose(edge_bisection const& s) {
    for (;;) {
      clean(s, 0), clean(s, 1);
      if (heap_[0].empty() && heap_[1].empty()) return none;
      std::uint8_t from = heap_[0].empty() ? 1 : 0;
      for (std::uint8_t side = 0; side < 2; ++side)
        if (s.weight[side] > limit_ && !heap_[side].empty()) from = side;
      if (s.weight[0] <= limit_ && s.weight[1] <= limit_ && !heap_[0].empty() && !heap_[1].empty()) {
        auto const a = heap_[0].front().gain, b = heap_[1].front().gain;
        from = a != b ? a < b : s.weight[0] < s.weight[1];
      }
      auto const n = pop(from);
      auto const to = from == 0 ? 1u : 0u;
      if (s.weight[from] > limit_ || s.weight[to] + g_.weight[n] <= limit_) return n;
    }
  }

  void move(edge_bisection& s, std::uint32_t n) {
    auto const from = s.of[n];
    s.cut -= gain_[n];
    moves_.push_back(n);
    locked_[n] = 1;
    shift(s, n);
    for (auto e = g_.offsets[n]; e < g_.offsets[n + 1]; ++e) {
      auto const other = g_.targets[e];
      auto const change = 2 * std::int64_t{g_.edge_count(e)};
      gain_[other] += s.of[other] == from ? change : -change;
      if (!locked_[other]) push(s, other);
    }
  }

  void shift(edge_bisection& s, std::uint32_t n) const {
    auto const from = s.of[n];
    s.of[n] = from == 0 ? 1 : 0;
    s.weight[from] -= g_.weight[n];
    s.weight[s.of[n]] += g_.weight[n];
  }

  void roll_back(edge_bisection& s, std::size_t moves) {
    while (moves_.size() > moves) {
      shift(s, moves_.back());
      moves_.pop_back();
    }
  }

  plain_graph const& g_;
  std::int64_t limit_;
  std::vector<std::int64_t> gain_;
  std::vector<std::uint8_t> locked_;
  std::array<std::vector<candidate>, 2> heap_;  // by the side that a node leaves
  std::vector<std::uint32_t> moves_;
  std::uint32_t clock_ = 0;
};

/// Finds the lightest set of nodes that touches all edges between two sides, by a maximum flow: Kőnig's
/// theorem with weights.
class lightest_cover {
 public:
  explicit lightest_cover(plain_graph const& g) : g_(g) {}

  /// Returns the separation whose separator is the cover.
  separation separated(edge_bisection const& s) const {
    std::vector<std::uint32_t> border;
    std::vector<std::uint32_t> number(g_.nodes(), 0);
    for (std::uint32_t n = 0; n < g_.nodes(); ++n)
      for (auto e = g_.offsets[n]; e < g_.offsets[n + 1]; ++e)
        if (s.of[g_.targets[e]] != s.of[n]) {
          number[n] = static_cast<std::uint32_t>(border.size()) + 2;
          border.push_back(n);
          break;
        }
    local_flow flow(border.size() + 2);
    auto const unlimited = std::max<std::int64_t>(1, s.weight[0] + s.weight[1]);
    for (std::uint32_t i = 0; i < border.size(); ++i) {
      auto const n = border[i];
      if (s.of[n] == 0)
        flow.arc(source, i + 2, g_.weight[n]);
      else
        flow.arc(i + 2, sink, g_.weight[n]);
      for (auto e = g_.offsets[n]; s.of[n] == 0 && e < g_.offsets[n + 1]; ++e)
        if (s.of[g_.targets[e]] == 1) flow.arc(i + 2, number[g_.targets[e]], unlimited);
    }
    flow.most(source, sink, static_cast<std::size_t>(-1));
    separation result;
    result.of = s.of;
    result.weight = {s.weight[0], s.weight[1], 0};
    for (std::uint32_t i = 0; i < border.size(); ++i) {
      auto const n = border[i];
      if (flow.reached(i + 2) != (s.of[n] == 1)) continue;
      result.of[n] = in_separator;
      result.weight[s.of[n]] -= g_.weight[n];
      result.weight[2] += g_.weight[n];
    }
    return result;
  }

 private:
  static constexpr std::uint32_t source = 0, sink = 1;

  plain_graph const& g_;
};

}  // namespace cleave::detail
