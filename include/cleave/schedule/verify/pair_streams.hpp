// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/placement.hpp"

namespace cleave::detail {

/// One stream for each pair of ranks with an edge between them. Groups of ends that a rank begins end in that
/// order: a group when each of its ends has met its other one, in the oldest group of the other rank.
class pair_streams {
 public:
  pair_streams() = default;
  /// `ends` is how many numbers of ends there may be. O(edges log edges + ends).
  pair_streams(placement const& p, std::size_t ends) : open_on_(ends) {
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

  /// Rank `r` begins an end of a message along an edge, in the same group as the one before if its `group` is
  /// the same. A group is complete when the stream is settled.
  void begin(std::uint32_t edge, rank_id r, std::uint32_t end, std::uint64_t group) {
    auto& between = streams_[of_edge_[edge]];
    between.sides[r == between.first_rank ? 0 : 1].ends.push_back({end, group});
  }
  /// `f(end)` for each that ends. The numbers of the two ends of a message differ in their last bit alone.
  template <class F>
  void settle(std::uint32_t edge, F f) {
    auto& sides = streams_[of_edge_[edge]].sides;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < 2; ++s) {
        auto& here = sides[s];
        if (here.left > 0) continue;
        for (; here.ended < here.opened; ++here.ended) f(here.ends[here.ended].end);
        if (here.opened == here.ends.size()) continue;
        open_group(sides, s);
        moved = true;
      }
    }
  }

 private:
  struct begun_end {
    std::uint32_t end;
    std::uint64_t group;
  };
  struct side {
    std::vector<begun_end> ends;
    std::size_t ended = 0, opened = 0;  ///< how many have ended; and how many with the oldest group
    std::size_t left = 0;               ///< of the oldest group, that have not met their other ends
  };
  struct stream {
    rank_id first_rank;
    std::array<side, 2> sides;
  };

  void open_group(std::array<side, 2>& sides, std::size_t s) {
    auto &here = sides[s], &there = sides[1 - s];
    auto const mark = [](std::size_t which) { return static_cast<char>(which + 1); };
    auto const group = here.ends[here.opened].group;
    for (; here.opened < here.ends.size() && here.ends[here.opened].group == group; ++here.opened) {
      auto const end = here.ends[here.opened].end;
      if (open_on_[end ^ 1] == mark(1 - s)) {
        open_on_[end ^ 1] = 0;
        --there.left;
      } else {
        open_on_[end] = mark(s);
        ++here.left;
      }
    }
  }

  std::vector<stream> streams_;
  std::vector<std::size_t> of_edge_;
  std::vector<char> open_on_;  // by end: the side, from 1, in whose oldest group it waits for its other end
};

}  // namespace cleave::detail
