// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/partition/kway/boundary.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/move_buckets.hpp"
#include "cleave/partition/kway/part_links.hpp"

namespace cleave {

/// Moves active nodes one by one to the part of best gain, each at most once a pass, downhill too, and
/// returns to the best state seen. Sanders, Schulz, ESA 2011, §4 (k-way local search); Karypis, Kumar, JPDC
/// 48, 1998.
template <class Level>
class kway_fm {
 public:
  kway_fm(Level const& g, level_parts& p, std::vector<std::uint32_t> const& fixed)
      : g_(g), p_(p), fixed_(fixed), links_(p.parts()), open_(g.nodes), gain_(g.nodes), locked_(g.nodes, 0) {}

  /// Returns by how much the cut fell.
  std::int64_t refine(active_nodes& active, std::uint32_t passes, std::size_t patience) {
    std::int64_t gained = 0;
    for (std::uint32_t pass = 0; pass < passes; ++pass) {
      auto const gain = improve(active, patience);
      gained += gain;
      if (gain == 0) break;
    }
    return gained;
  }

 private:
  struct step {
    std::uint32_t node, from;
  };

  std::int64_t improve(active_nodes& active, std::size_t patience) {
    for (auto at = active.list.size(); at-- > 0;) consider(active.list[at]);
    std::int64_t now = 0, best = 0;
    std::size_t best_moves = 0;
    moves_.clear();
    while (!open_.empty() && moves_.size() - best_moves <= patience) {
      auto const n = open_.pop();
      links_.count(g_, p_.of, n);
      auto const own = p_.of[n];
      auto const to = links_.best_target(p_, own, g_.weight(n));
      if (to == free_node) continue;
      auto const gain = links_.to(to) - links_.to(own);
      if (!open_.empty() && move_buckets::bucket_of(gain) < open_.highest()) {
        gain_[n] = gain;
        open_.put(n, gain);
        continue;
      }
      moves_.push_back({n, own});
      locked_[n] = 1;
      move_node(g_, p_, n, to);
      now += gain;
      if (now > best) best = now, best_moves = moves_.size();
      update_neighbours(n, own, to, active);
    }
    open_.clear();
    for (auto const& m : moves_) locked_[m.node] = 0;
    while (moves_.size() > best_moves) {
      move_node(g_, p_, moves_.back().node, moves_.back().from);
      moves_.pop_back();
    }
    return best;
  }

  /// Opens a node for moving, or shuts it where it has no neighbour elsewhere.
  void consider(std::uint32_t n) {
    if (!fixed_.empty() && fixed_[n] != free_node) return;
    links_.count(g_, p_.of, n);
    auto const own = p_.of[n];
    std::int64_t most = -1;
    for (auto const part : links_.near())
      if (part != own && links_.to(part) > most) most = links_.to(part);
    if (most < 0) {
      if (open_.contains(n)) open_.remove(n);
      return;
    }
    gain_[n] = most - links_.to(own);
    open_.put(n, gain_[n]);
  }

  void update_neighbours(std::uint32_t n, std::uint32_t from, std::uint32_t to, active_nodes& active) {
    for (auto arc = g_.first[n], stop = g_.first[n + 1]; arc < stop; ++arc) {
      auto const other = g_.head[arc];
      active.add(other);
      if (locked_[other]) continue;
      if (g_.degree(other) <= counted_anew || !open_.contains(other)) {
        consider(other);
      } else {  // an estimate: the true gain is counted when its turn comes
        auto const w = static_cast<std::int64_t>(g_.arc_weight(arc));
        if (p_.of[other] == from) gain_[other] += w;
        if (p_.of[other] == to) gain_[other] -= w;
        open_.put(other, gain_[other]);
      }
    }
  }

  static constexpr std::uint32_t counted_anew = 40;  // arcs at most, to know the gain after each move nearby

  Level const& g_;
  level_parts& p_;
  std::vector<std::uint32_t> const& fixed_;
  part_links links_;
  move_buckets open_;
  raw_array<std::int64_t> gain_;
  std::vector<std::uint8_t> locked_;
  std::vector<step> moves_;
};

}  // namespace cleave
