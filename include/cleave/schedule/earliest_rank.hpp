// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

namespace cleave {

/// Which rank is next in time, of equals the lowest: a tournament, in which each change is played up to the
/// final. Knuth, The Art of Computer Programming, volume 3, 5.4.1.
class earliest_rank {
 public:
  static constexpr double never = std::numeric_limits<double>::infinity();

  /// All ranks never. O(ranks).
  explicit earliest_rank(std::uint32_t ranks)
      : leaves_(std::bit_ceil(std::max(ranks, 1u))), time_(leaves_, never), winner_(2 * leaves_) {
    for (std::uint32_t r = 0; r < leaves_; ++r) winner_[leaves_ + r] = r;
    for (auto n = leaves_ - 1; n > 0; --n) winner_[n] = winner_[2 * n];
  }

  /// O(log ranks).
  void set(std::uint32_t r, double time) {
    time_[r] = time;
    for (auto n = (leaves_ + r) / 2; n > 0; n /= 2) {
      auto const low = winner_[2 * n], high = winner_[2 * n + 1];
      winner_[n] = time_[high] < time_[low] ? high : low;
    }
  }

  double time_of(std::uint32_t r) const { return time_[r]; }
  std::uint32_t rank() const { return winner_[1]; }
  double time() const { return time_[winner_[1]]; }

 private:
  std::uint32_t leaves_;
  std::vector<double> time_;
  std::vector<std::uint32_t> winner_;  ///< of node n those of 2n and 2n + 1 play; leaves are the ranks
};

}  // namespace cleave
