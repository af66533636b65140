// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cleave/core/fixed_point.hpp"
#include "cleave/partition/acyclic/pass_moves.hpp"
#include "cleave/partition/acyclic/state.hpp"

namespace cleave::detail {

/// Moves of single units that lower the cut; `refine_cut` is its one use.
template <std::unsigned_integral Index>
class cut_refiner {
 public:
  explicit cut_refiner(acyclic_state<Index>& state)
      : state_(state), moves_(state), present_(state.limits().parts()) {}

  /// One pass: each unit moves once at most, the best first, for the worse too; then back to where the cut
  /// was least. Returns whether it fell.
  bool pass(std::size_t patience) {
    moves_.begin();
    heap_.clear();
    for (Index u = 0; u < state_.level().units(); ++u) consider(u);
    auto const before = state_.cut();
    auto least = before;
    std::size_t kept = 0;
    while (!heap_.empty() && moves_.size() - kept < patience) {
      auto const next = pop();
      if (moves_.has(next.unit)) continue;
      auto const best = best_move(next.unit);
      if (!best || best->gain != next.gain) {  // something near it has moved since
        if (best && best->gain < next.gain) push(*best);
        if (!best || best->gain < next.gain) continue;
      }
      apply(*best);
      if (state_.cut() < least) {
        least = state_.cut();
        kept = moves_.size();
      }
    }
    moves_.keep(kept);
    return least < before;
  }

 private:
  static constexpr std::size_t most_pins = 128;  // of values that change the gains of others worth a look

  struct candidate {
    std::int64_t gain;
    Index unit;
    std::uint32_t to;
    bool operator<(candidate const& other) const {
      return gain != other.gain ? gain < other.gain : unit > other.unit;
    }
  };

  /// Nothing if `u` touches no value of several parts, or may not move. O(parts that its values touch).
  std::optional<candidate> best_move(Index u) {
    auto const& level = state_.level();
    auto const here = state_.of()[u];
    std::int64_t all = 0, freed = 0;
    bool border = false;
    for (Index const v : level.touched[u]) border |= state_.pins().spread(v) > 1;
    if (!border || !state_.may_leave(u)) return std::nullopt;
    auto const [first, last] = state_.range(u);
    if (first == last) return std::nullopt;
    std::fill(present_.begin() + first, present_.begin() + last + 1, 0);
    for (Index const v : level.touched[u]) {
      auto const price = level.price[0][v];
      all += price;
      if (state_.pins().count(v, here) == 1) freed += price;
      state_.pins().each_part(v, [&](std::uint32_t p) { present_[p] += price; });
    }
    std::optional<candidate> best;
    for (auto to = first; to <= last; ++to)
      if (auto const gain = freed - all + present_[to];
          to != here && (!best || gain > best->gain || (gain == best->gain && lighter(to, best->to))) &&
          state_.fits(u, to))
        best = candidate{gain, u, to};
    return best;
  }
  bool lighter(std::uint32_t a, std::uint32_t b) const { return state_.time(a) < state_.time(b); }

  void consider(Index u) {
    if (auto const best = best_move(u)) push(*best);
  }
  void push(candidate const& c) {
    heap_.push_back(c);
    std::push_heap(heap_.begin(), heap_.end());
  }
  candidate pop() {
    std::pop_heap(heap_.begin(), heap_.end());
    auto const best = heap_.back();
    heap_.pop_back();
    return best;
  }

  void apply(candidate const& c) {
    moves_.make(c.unit, c.to);
    for (Index const v : state_.level().touched[c.unit]) {
      auto const pins = state_.level().touching[v];
      if (pins.size() > most_pins) continue;
      for (Index const other : pins)
        if (!moves_.has(other)) consider(other);
    }
  }

  acyclic_state<Index>& state_;
  pass_moves<Index> moves_;
  std::vector<std::int64_t> present_;  // of a part: what the values of a unit cost that it touches already
  std::vector<candidate> heap_;
};

/// Lowers the cut within the limits by passes until one does not. Fiduccia and Mattheyses, DAC 1982, with
/// moves that keep the order of the parts. A pass costs O(touches) and some log for what moves.
template <std::unsigned_integral Index>
void refine_cut(acyclic_state<Index>& state, std::size_t patience = 300, std::size_t passes = 8) {
  cut_refiner<Index> refiner(state);
  while (passes-- > 0 && refiner.pass(patience)) {
  }
}

}  // namespace cleave::detail
