// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/kway/boundary.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/move_buckets.hpp"
#include "cleave/partition/kway/move_gains.hpp"
#include "cleave/partition/kway/part_links.hpp"
#include "cleave/partition/kway/raw_array.hpp"

namespace cleave::detail {

/// Moves active nodes one by one to the part of best gain, each at most once a pass, downhill too, and
/// returns to the best state seen. Sanders, Schulz, ESA 2011, §4 (k-way local search); Karypis, Kumar, JPDC
/// 48, 1998.
template <class Level>
class kway_fm {
 public:
  kway_fm(Level const& g, level_parts& p)
      : g_(g),
        p_(p),
        links_(p.parts()),
        open_(g.nodes),
        gain_(g.nodes),
        locked_(raw_array<std::uint8_t>::zeros(g.nodes)) {}

  /// Returns by how much the cut fell.
  std::int64_t refine(active_nodes& active, move_gains<Level>& gains, std::uint32_t passes,
                      std::size_t patience) {
    std::int64_t gained = 0;
    for (std::uint32_t pass = 0; pass < passes; ++pass) {
      auto const gain = improve(active, gains, patience);
      gained += gain;
      if (gain == 0) break;
    }
    return gained;
  }

 private:
  struct step {
    std::uint32_t node, from;
  };

  std::int64_t improve(active_nodes& active, move_gains<Level>& gains, std::size_t patience) {
    gains.count(active);
    least_open_ = gains.bucket_above_which(8 * patience);  // few others are ever looked at
    open_between(least_open_, move_buckets::buckets, active, gains);
    std::int64_t now = 0, best = 0;
    std::size_t best_moves = 0;
    moves_.clear();
    while (any_open(active, gains) && moves_.size() - best_moves <= patience) {
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
      update_neighbours(n, own, to, active, gains);
    }
    open_.clear();
    for (auto const& m : moves_) locked_[m.node] = 0;
    while (moves_.size() > best_moves) {
      move_node(g_, p_, moves_.back().node, moves_.back().from);
      moves_.pop_back();
    }
    return best;
  }

  /// Opens nodes of gains in the buckets from `lo` up to `hi`, but not those that moves have touched.
  void open_between(std::uint32_t lo, std::uint32_t hi, active_nodes const& active,
                    move_gains<Level> const& gains) {
    for (auto at = gains.size(); at-- > 0;)
      if (std::uint32_t const b = move_buckets::bucket_of(gains.of(at)); b >= lo && b < hi)
        if (gains.knows(active, at)) offer(active.list[at], gains.of(at));
  }

  /// Whether a node is open, the best of all among them.
  bool any_open(active_nodes const& active, move_gains<Level> const& gains) {
    if (least_open_ > 0 && (open_.empty() || open_.highest() < least_open_))
      open_between(0, std::exchange(least_open_, 0), active, gains);
    return !open_.empty();
  }

  /// Opens a node for moving, or shuts it where it has nowhere to go.
  void offer(std::uint32_t n, std::int64_t gain) {
    if (gain == move_gains<Level>::nowhere) {
      if (open_.contains(n)) open_.remove(n);
      return;
    }
    gain_[n] = gain;
    open_.put(n, gain);
  }

  void update_neighbours(std::uint32_t n, std::uint32_t from, std::uint32_t to, active_nodes& active,
                         move_gains<Level> const& gains) {
    active.touch(n);
    for (auto arc = g_.first[n], stop = g_.first[n + 1]; arc < stop; ++arc) {
      auto const other = g_.head[arc];
      active.touch(other);
      if (locked_[other] || gains.is_fixed(other)) continue;
      if (g_.degree(other) <= counted_anew || !open_.contains(other)) {
        links_.count(g_, p_.of, other);
        offer(other, move_gains<Level>::best(links_, p_.of[other]));
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
  part_links links_;
  move_buckets open_;
  raw_array<std::int64_t> gain_;
  raw_array<std::uint8_t> locked_;
  std::vector<step> moves_;
  std::uint32_t least_open_ = 0;  // bucket, below which only what moves have touched is open
};

}  // namespace cleave::detail
