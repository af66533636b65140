// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/edge_numbers.hpp"
#include "cleave/schedule/model/placement.hpp"

namespace cleave {

/// One direction between two ranks: what a communicator of an edge is for.
struct rank_edge {
  rank_id from, to;

  auto operator<=>(rank_edge const&) const = default;
};

/// Ranks that something can be set up between at the same time: no rank is in two edges of a round.
using edge_round = std::vector<rank_edge>;

}  // namespace cleave

namespace cleave::detail {

/// The pairs of ranks that have stages that feed each other, either way: lower rank first, ascending, each
/// once. O(edges log edges). \throws placement_error
inline std::vector<rank_edge> rank_pairs(placement const& p) {
  if (auto const f = find_placement_fault(p)) throw placement_error(*f);
  std::vector<rank_edge> pairs;
  for (auto const& e : p.edges) {
    auto const [low, high] = std::minmax(p.rank_of[index(e.from)], p.rank_of[index(e.to)]);
    if (low != high) pairs.push_back({low, high});
  }
  std::ranges::sort(pairs);
  pairs.erase(std::ranges::unique(pairs).begin(), pairs.end());
  return pairs;
}

/// The rounds in which each rank is, as bits.
class rounds_of_ranks {
 public:
  explicit rounds_of_ranks(std::uint32_t ranks) : taken_(ranks) {}

  /// The first round in which neither is; both are from now on. O(rounds / 64).
  std::size_t take(rank_edge e) {
    auto& one = taken_[index(e.from)];
    auto& other = taken_[index(e.to)];
    for (std::size_t word = 0;; ++word) {
      if (one.size() <= word) one.resize(word + 1);
      if (other.size() <= word) other.resize(word + 1);
      auto const both = one[word] | other[word];
      if (~both == 0) continue;
      auto const bit = static_cast<std::size_t>(std::countr_one(both));
      one[word] |= std::uint64_t{1} << bit;
      other[word] |= std::uint64_t{1} << bit;
      return 64 * word + bit;
    }
  }

 private:
  std::vector<std::vector<std::uint64_t>> taken_;  // by rank
};

/// All pairs of ranks in rounds, each in the first round in which neither of its ranks is yet: at most twice
/// as many rounds, less one, as a rank has others. To warm up connections in, or to set up communicators, one
/// round at a time on all ranks. O(edges log edges + pairs * rounds / 64). \throws placement_error
inline std::vector<edge_round> edge_matchings(placement const& p) {
  std::vector<edge_round> rounds;
  rounds_of_ranks taken(p.ranks);
  for (auto const pair : rank_pairs(p)) {
    auto const round = taken.take(pair);
    if (round == rounds.size()) rounds.emplace_back();
    rounds[round].push_back(pair);
  }
  return rounds;
}

}  // namespace cleave::detail

namespace cleave {

/// Rounds of both directions: each of `edge_matchings`, then the same the other way. PyTorch makes one
/// communicator for each edge of them. O(edges log edges + pairs * rounds / 64). \throws placement_error
inline std::vector<edge_round> directed_rounds(placement const& p) {
  std::vector<edge_round> rounds;
  for (auto& round : detail::edge_matchings(p)) {
    auto back = round;
    for (auto& e : back) std::swap(e.from, e.to);
    rounds.push_back(std::move(round));
    rounds.push_back(std::move(back));
  }
  return rounds;
}

}  // namespace cleave
