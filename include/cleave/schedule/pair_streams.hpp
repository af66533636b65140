// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/placement.hpp"

namespace cleave {

/// One stream for each pair of ranks with an edge between them: what either rank begins ends in that order,
/// when the other rank's oldest that has not ended is its other end.
class pair_streams {
 public:
  pair_streams() = default;
  /// O(edges log edges).
  explicit pair_streams(placement const& p) {
    std::vector<std::pair<rank_id, rank_id>> pairs;
    for (auto const& e : p.edges)
      pairs.push_back(std::minmax({p.rank_of[index(e.from)], p.rank_of[index(e.to)]}));
    auto all = pairs;
    std::ranges::sort(all);
    all.erase(std::ranges::unique(all).begin(), all.end());
    for (auto const& pair : pairs)
      of_edge_.push_back(static_cast<std::size_t>(std::ranges::lower_bound(all, pair) - all.begin()));
    for (auto const& pair : all) streams_.push_back({pair.first, {}});
  }

  /// Rank `r` begins an end of a message along an edge; `f(one end, the other)` for each message that ends.
  /// The numbers of the two ends of a message differ in their last bit alone.
  template <class F>
  void begin(std::uint32_t edge, rank_id r, std::uint32_t end, F f) {
    auto& [first_rank, sides] = streams_[of_edge_[edge]];
    sides[r == first_rank ? 0 : 1].ends.push_back(end);
    auto& [one, other] = sides;
    while (one.ended < one.ends.size() && other.ended < other.ends.size()) {
      auto const a = one.ends[one.ended], b = other.ends[other.ended];
      if ((a ^ b) != 1) return;
      ++one.ended, ++other.ended;
      f(a, b);
    }
  }

 private:
  struct side {
    std::vector<std::uint32_t> ends;
    std::size_t ended = 0;
  };
  struct stream {
    rank_id first_rank;
    std::array<side, 2> sides;
  };
  std::vector<stream> streams_;
  std::vector<std::size_t> of_edge_;
};

}  // namespace cleave
