// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::detail {

/// Which rank is next in time, of equals the lowest: a tournament, in which each change is played up to the
/// final. Knuth, The Art of Computer Programming, volume 3, 5.4.1.
class earliest_rank {
 public:
  static constexpr double never = std::numeric_limits<double>::infinity();

  /// All ranks never. O(ranks).
  explicit earliest_rank(std::uint32_t ranks)
      : leaves_(std::bit_ceil((std::max)(ranks, 1u))), players_(std::size_t{2} * leaves_) {
    for (std::uint32_t r = 0; r < leaves_; ++r) players_[leaves_ + r].rank = r;
    for (auto n = leaves_ - 1; n > 0; --n) players_[n] = players_[std::size_t{2} * n];
  }

  /// O(log ranks), less where it changes the first rounds alone.
  void set(std::uint32_t r, double time) {
    players_[leaves_ + r].time = time;
    for (auto n = (leaves_ + r) / 2; n > 0; n /= 2) {
      auto const& winner = winner_of(n);
      if (winner.rank != r && winner.rank == players_[n].rank) return;
      players_[n] = winner;
    }
  }

  /// `f(rank)` for each rank whose time is the earliest, ascending; from then on they are never.
  /// Precondition: not all are never. O(log ranks) for each, less where there are many.
  template <class F>
  void take_earliest(F f) {
    take_below(1, time(), f);
  }

  double time_of(std::uint32_t r) const { return players_[leaves_ + r].time; }
  std::uint32_t rank() const { return players_[1].rank; }
  double time() const { return players_[1].time; }

 private:
  struct player {
    double time = never;
    std::uint32_t rank = 0;
  };

  player const& winner_of(std::uint32_t n) const {
    auto const& low = players_[std::size_t{2} * n];
    auto const& high = players_[std::size_t{2} * n + 1];
    return high.time < low.time ? high : low;
  }

  template <class F>
  void take_below(std::uint32_t n, double time, F& f) {
    if (n >= leaves_) {
      players_[n].time = never;
      return f(n - leaves_);
    }
    for (auto const child : {2 * n, 2 * n + 1})
      if (players_[child].time == time) take_below(child, time, f);
    players_[n] = winner_of(n);
  }

  std::uint32_t leaves_;
  std::vector<player> players_;  ///< of node n those of 2n and 2n + 1 play; leaves are the ranks
};

}  // namespace cleave::detail
