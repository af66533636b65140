// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/partition/kway/level_graph.hpp"

namespace cleave::detail {

/// How strongly one node at a time is tied to each part.
class part_links {
 public:
  explicit part_links(std::uint32_t parts) : weight_(parts, 0) { near_.reserve(64); }

  /// Counts the links of a node, forgetting those of the last one.
  template <class Level>
  void count(Level const& g, std::vector<std::uint32_t> const& of, std::uint32_t n) {
    for (auto const part : near_) weight_[part] = 0;
    near_.clear();
    for (auto arc = g.first[n], stop = g.first[n + 1]; arc < stop; ++arc) {
      auto const part = of[g.head[arc]];
      if (weight_[part] == 0) near_.push_back(part);
      weight_[part] += g.arc_weight(arc);
    }
  }

  std::int64_t to(std::uint32_t part) const { return weight_[part]; }
  /// Parts that have neighbours of the node.
  std::vector<std::uint32_t> const& nearby() const { return near_; }

  /// The part beside `own` with room for `w` that the node is tied to most, of those the one with most room;
  /// `free_node` if there is none.
  std::uint32_t best_target(level_parts const& p, std::uint32_t own, std::int64_t w) const {
    auto best = free_node;
    std::int64_t most = 0;
    for (auto const part : near_) {
      if (part == own || weight_[part] < most || p.weight[part] + w > p.limit[part]) continue;
      if (weight_[part] == most && best != free_node && p.room(part) <= p.room(best)) continue;
      best = part;
      most = weight_[part];
    }
    return best;
  }

 private:
  std::vector<std::int64_t> weight_;
  std::vector<std::uint32_t> near_;
};

/// Puts a node into another part.
template <class Level>
void move_node(Level const& g, level_parts& p, std::uint32_t n, std::uint32_t to) {
  auto const w = static_cast<std::int64_t>(g.weight(n));
  p.weight[p.of[n]] -= w;
  p.weight[to] += w;
  p.of[n] = to;
}

}  // namespace cleave::detail
