// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/core/fixed_point.hpp"
#include "cleave/partition/acyclic/pass_moves.hpp"
#include "cleave/partition/acyclic/state.hpp"

namespace cleave::detail {

/// Moves of single units that lower the largest load; `refine_load` is its one use.
template <std::unsigned_integral Index>
class load_refiner {
 public:
  explicit load_refiner(acyclic_state<Index>& state)
      : state_(state), moves_(state), listed_(state.level().units()) {
    for (Index u = 0; u < state.level().units(); ++u)
      if (on_border(u)) list(u);
  }

  /// One pass: the heaviest part gives a unit away or takes one, whichever leaves both parts lightest, each
  /// unit once at most; then back to where the largest load was least. Returns whether it fell.
  bool pass(std::size_t patience) {
    moves_.begin();
    auto const before = quality();
    auto best = before;
    std::size_t kept = 0;
    while (moves_.size() - kept < patience) {
      auto const next = best_move(heaviest());
      if (!next) break;
      apply(*next);
      if (auto const now = quality(); now < best) {
        best = now;
        kept = moves_.size();
      }
    }
    moves_.keep(kept);
    return best < before;
  }

 private:
  struct candidate {
    std::int64_t most, sum;  // of the loads of both parts
    Index unit;
    std::uint32_t to;
    bool operator<(candidate const& o) const {
      return std::pair(most, sum) != std::pair(o.most, o.sum)
                 ? std::pair(most, sum) < std::pair(o.most, o.sum)
                 : std::pair(unit, to) < std::pair(o.unit, o.to);
    }
  };

  /// The largest load, then how many parts have it.
  std::pair<std::int64_t, std::uint32_t> quality() const {
    std::pair<std::int64_t, std::uint32_t> q{0, 0};
    for (std::uint32_t p = 0; p < state_.limits().parts(); ++p) {
      auto const load = state_.load(p);
      if (load > q.first) q = {load, 0};
      if (load == q.first) ++q.second;
    }
    return q;
  }
  std::uint32_t heaviest() const {
    std::uint32_t most = 0;
    for (std::uint32_t p = 1; p < state_.limits().parts(); ++p)
      if (state_.load(p) > state_.load(most)) most = p;
    return most;
  }
  bool on_border(Index u) const {
    for (Index const v : state_.level().touched[u])
      if (state_.pins().spread(v) > 1) return true;
    auto const [first, last] = state_.range(u);
    return first != last;
  }
  void list(Index u) {
    if (std::exchange(listed_[u], 1) == 0) border_.push_back(u);
  }

  std::optional<candidate> best_move(std::uint32_t part) const {
    std::optional<candidate> best;
    auto const look = [&](Index u, std::uint32_t to) {
      if (to == state_.of()[u] || !state_.fits(u, to)) return;
      auto const [left, entered] = state_.loads_after(u, to);
      candidate const c{(std::max)(left, entered), left + entered, u, to};
      if (!best || c < *best) best = c;
    };
    for (Index const u : border_) {
      if (moves_.has(u) || !state_.may_leave(u)) continue;
      auto const here = state_.of()[u];
      if (here != part && (here > part ? here - part : part - here) > 1 && !shares(u, part)) continue;
      auto const [first, last] = state_.range(u);
      if (here != part) {
        if (part >= first && part <= last) look(u, part);
        continue;
      }
      for (auto to = first; to <= last; ++to) look(u, to);
    }
    return best;
  }
  bool shares(Index u, std::uint32_t part) const {
    for (Index const v : state_.level().touched[u])
      if (state_.pins().count(v, part) != 0) return true;
    return false;
  }

  void apply(candidate const& c) {
    moves_.make(c.unit, c.to);
    for (Index const other : state_.level().needs[c.unit]) list(other);
    auto const users = state_.level().needed_by[c.unit];
    for (Index const other : users.first(std::min<std::size_t>(users.size(), 256))) list(other);
  }

  acyclic_state<Index>& state_;
  pass_moves<Index> moves_;
  std::vector<char> listed_;
  std::vector<Index> border_;
};

/// Lowers the largest load within the limits by passes until one does not. As long as the border between
/// parts, times the moves that a pass tries.
template <std::unsigned_integral Index>
void refine_load(acyclic_state<Index>& state, std::size_t patience = 30, std::size_t passes = 8) {
  load_refiner<Index> refiner(state);
  while (passes-- > 0 && refiner.pass(patience)) {
  }
}

}  // namespace cleave::detail
