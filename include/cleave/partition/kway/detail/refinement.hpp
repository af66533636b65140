// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "cleave/partition/kway/detail/boundary.hpp"
#include "cleave/partition/kway/detail/config.hpp"
#include "cleave/partition/kway/detail/further_balancing.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/team.hpp"

namespace cleave::inline v0_2::detail {

/// A bucket priority queue of nodes by gain, last in first out within a bucket. Gains of absolute value below
/// 32 have a bucket each; larger ones share one with gains within 6 %. Weights may therefore be arbitrary,
/// and every operation is O(1). Fiduccia, Mattheyses, DAC 1982.
class gain_buckets {
 public:
  static constexpr std::uint32_t buckets = 2048;

  explicit gain_buckets(std::uint32_t nodes)
      : next_(nodes), previous_(nodes), bucket_(uninitialized_array<std::uint16_t>::zeros(nodes)) {
    head_.fill(none);
    used_.fill(0);
  }

  bool empty() const { return size_ == 0; }
  bool contains(std::uint32_t n) const { return bucket_[n] != absent; }

  void put(std::uint32_t n, std::int64_t gain) {
    auto const b = bucket_of(gain);
    if (bucket_[n] == b) return;
    if (bucket_[n] != absent) remove(n);
    bucket_[n] = b;
    next_[n] = head_[b];
    previous_[n] = none;
    if (head_[b] != none) previous_[head_[b]] = n;
    head_[b] = n;
    used_[b >> 6] |= std::uint64_t{1} << (b & 63);
    ++size_;
  }

  void remove(std::uint32_t n) {
    auto const b = bucket_[n];
    if (next_[n] != none) previous_[next_[n]] = previous_[n];
    if (previous_[n] != none)
      next_[previous_[n]] = next_[n];
    else
      head_[b] = next_[n];
    if (head_[b] == none) used_[b >> 6] &= ~(std::uint64_t{1} << (b & 63));
    bucket_[n] = absent;
    --size_;
  }

  /// Returns the node in the highest bucket that was added last. \pre The queue is not empty.
  std::uint32_t top() const { return head_[highest()]; }
  std::uint16_t highest() const {
    auto word = used_.size() - 1;
    while (used_[word] == 0) --word;
    return static_cast<std::uint16_t>(word * 64 + 63 - static_cast<unsigned>(std::countl_zero(used_[word])));
  }
  std::uint32_t pop() {
    auto const n = top();
    remove(n);
    return n;
  }
  void clear() {
    while (!empty()) pop();
  }

  /// Returns the bucket of a gain; it does not decrease with the gain.
  static std::uint16_t bucket_of(std::int64_t gain) {
    auto const up = step(gain < 0 ? -gain : gain);
    return static_cast<std::uint16_t>(gain < 0 ? zero - up : zero + up);
  }

 private:
  static constexpr std::uint32_t none = 0xffffffff;
  static constexpr std::uint16_t absent = 0;  // no gain has this bucket
  static constexpr int zero = 1024;

  static int step(std::int64_t gain) {
    auto const g = static_cast<std::uint64_t>(gain);
    if (g < 32) return static_cast<int>(g);
    auto const shift = 59 - std::countl_zero(g);  // keeps the five leading bits
    return shift * 16 + static_cast<int>(g >> shift);
  }

  uninitialized_array<std::uint32_t> next_, previous_;
  uninitialized_array<std::uint16_t> bucket_;
  std::array<std::uint32_t, buckets> head_;
  std::array<std::uint64_t, buckets / 64> used_;
  std::size_t size_ = 0;
};

/// Caches, per active node, the gain of moving to its best other part, ignoring balance. An entry is
/// invalidated when the node or a neighbour moves. All threads fill the cache, so that the sequential moves
/// look at few nodes.
class gain_cache {
 public:
  gain_cache(weighted_view const& g, partitioned_level const& p, std::vector<std::uint32_t> const& fixed,
             thread_team const& team)
      : g_(g), p_(p), fixed_(fixed), team_(team) {}

  /// Gain of nodes that are fixed or have no neighbour in another part.
  static constexpr std::int64_t nowhere = (std::numeric_limits<std::int64_t>::min)() / 2;

  /// Computes the gains that are not valid. O(directed edges of the nodes that moves have touched).
  void count(boundary_nodes& active) {
    auto const known = gain_.size();
    gain_.resize(active.list.size());
    id_ranges const ranges{static_cast<std::uint32_t>(gain_.size()), (std::max)(p_.parts(), 1u << 11)};
    team_.share(ranges.count(), [&](std::size_t r) {
      part_connectivity connectivity(p_.parts());
      for (auto at = ranges.begin(r); at < ranges.end(r); ++at) {
        auto const n = active.list[at];
        if (at < known && active.is[n] == boundary_nodes::counted) continue;
        active.is[n] = boundary_nodes::counted;
        gain_[at] = nowhere;
        if (is_fixed(n)) continue;
        connectivity.count(g_, p_.of, n);
        gain_[at] = best(connectivity, p_.of[n]);
      }
    });
  }

  /// Returns the highest bucket such that at least `nodes` gains are in it or above it, or 0 if there are
  /// fewer gains. \pre All gains are valid.
  std::uint32_t bucket_above_which(std::size_t nodes) const {
    using histogram = std::array<std::uint32_t, gain_buckets::buckets>;
    id_ranges const ranges{static_cast<std::uint32_t>(gain_.size()), 1u << 15};
    std::vector<histogram> found(ranges.count());
    team_.share(ranges.count(), [&](std::size_t r) {
      for (auto at = ranges.begin(r); at < ranges.end(r); ++at)
        ++found[r][gain_buckets::bucket_of(gain_[at])];
    });
    std::uint32_t bucket = gain_buckets::buckets;
    for (std::size_t above = 0; above < nodes && bucket > 0;) {
      --bucket;
      for (auto const& h : found) above += h[bucket];
    }
    return bucket;
  }

  std::size_t size() const { return gain_.size(); }
  bool knows(boundary_nodes const& active, std::size_t at) const {
    return at < gain_.size() && active.is[active.list[at]] == boundary_nodes::counted;
  }
  /// Returns the gain of the node at a position in the list. \pre The gain is valid.
  std::int64_t of(std::size_t at) const { return gain_[at]; }
  bool is_fixed(std::uint32_t n) const { return !fixed_.empty() && fixed_[n] != no_block; }

  /// Returns the gain of moving to the other part to which the node is most connected.
  static std::int64_t best(part_connectivity const& connectivity, std::uint32_t own) {
    std::int64_t most = -1;
    for (auto const part : connectivity.nearby())
      if (part != own && connectivity.to(part) > most) most = connectivity.to(part);
    return most < 0 ? nowhere : most - connectivity.to(own);
  }

 private:
  weighted_view const& g_;
  partitioned_level const& p_;
  std::vector<std::uint32_t> const& fixed_;
  thread_team const& team_;
  std::vector<std::int64_t> gain_;
};

/// Refines by label propagation. In each round, every active node moves to the part to which it is most
/// connected. It moves only if that reduces the cut, or improves the balance at the same cut. Returns the
/// decrease of the cut. O(rounds * directed edges of active nodes).
inline std::int64_t refine_by_label_propagation(weighted_view const& g, partitioned_level& p,
                                                boundary_nodes& active, gain_cache& gains,
                                                std::uint32_t rounds) {
  part_connectivity connectivity(p.parts());
  std::int64_t gained = 0;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    std::size_t moved = 0;
    gains.count(active);
    for (std::size_t at = 0; at < active.list.size(); ++at) {
      auto const n = active.list[at];
      if (gains.is_fixed(n) || (gains.knows(active, at) && gains.of(at) < 0)) continue;
      auto const own = p.of[n];
      connectivity.count(g, p.of, n);
      auto const w = g.weight(n);
      auto const to = connectivity.best_target(g, p, n);
      if (to == no_block) continue;
      auto const gain = connectivity.to(to) - connectivity.to(own);
      if (gain < 0 || (gain == 0 && p.room(to) - w <= p.room(own))) continue;
      move_node(g, p, n, to);
      gained += gain;
      ++moved;
      active.touch(n);
      for (auto e = g.offsets[n], stop = g.offsets[n + 1]; e < stop; ++e) active.touch(g.targets[e]);
    }
    if (moved * 200 <= active.list.size()) break;
  }
  return gained;
}

/// Refines by k-way FM. A pass moves each active node at most once, best gain first, even if the gain is
/// negative, and returns to the best state seen. Sanders, Schulz, ESA 2011, section 4 (k-way local search);
/// Karypis, Kumar, JPDC 48, 1998.
class kway_fm {
 public:
  kway_fm(weighted_view const& g, partitioned_level& p)
      : g_(g),
        p_(p),
        connectivity_(p.parts()),
        open_(g.nodes),
        gain_(g.nodes),
        locked_(uninitialized_array<std::uint8_t>::zeros(g.nodes)),
        counted_in_(uninitialized_array<std::uint32_t>::zeros(g.nodes)) {}

  /// Returns the decrease of the cut.
  std::int64_t refine(boundary_nodes& active, gain_cache& gains, std::uint32_t passes,
                      std::size_t max_fruitless_moves) {
    std::int64_t gained = 0;
    for (std::uint32_t pass = 0; pass < passes; ++pass) {
      auto const gain = improve(active, gains, max_fruitless_moves);
      gained += gain;
      if (gain == 0) break;
    }
    return gained;
  }

 private:
  struct step {
    std::uint32_t node, from;
  };

  std::int64_t improve(boundary_nodes& active, gain_cache& gains, std::size_t max_fruitless_moves) {
    gains.count(active);
    least_open_ = gains.bucket_above_which(8 * max_fruitless_moves);  // few nodes below are ever reached
    open_between(least_open_, gain_buckets::buckets, active, gains);
    std::int64_t now = 0, best = 0;
    std::size_t best_moves = 0;
    moves_.clear();
    while (any_open(active, gains) && moves_.size() - best_moves <= max_fruitless_moves) {
      auto const n = open_.pop();
      connectivity_.count(g_, p_.of, n);
      auto const own = p_.of[n];
      auto const to = connectivity_.best_target(g_, p_, n);
      if (to == no_block) continue;
      auto const gain = connectivity_.to(to) - connectivity_.to(own);
      if (!open_.empty() && gain_buckets::bucket_of(gain) < open_.highest()) {
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

  /// Queues the nodes with gains in the buckets [lo, hi), except nodes that moves have touched.
  void open_between(std::uint32_t lo, std::uint32_t hi, boundary_nodes const& active,
                    gain_cache const& gains) {
    for (auto at = gains.size(); at-- > 0;)
      if (std::uint32_t const b = gain_buckets::bucket_of(gains.of(at)); b >= lo && b < hi)
        if (gains.knows(active, at)) push_candidate(active.list[at], gains.of(at));
  }

  /// Returns true if the queue is not empty. Ensures that its first node is the best of all.
  bool any_open(boundary_nodes const& active, gain_cache const& gains) {
    if (least_open_ > 0 && (open_.empty() || open_.highest() < least_open_))
      open_between(0, std::exchange(least_open_, 0), active, gains);
    return !open_.empty();
  }

  /// Queues a node, or removes it from the queue if it cannot move.
  void push_candidate(std::uint32_t n, std::int64_t gain) {
    if (gain == gain_cache::nowhere) {
      if (open_.contains(n)) open_.remove(n);
      return;
    }
    gain_[n] = gain;
    open_.put(n, gain);
  }

  void update_neighbours(std::uint32_t n, std::uint32_t from, std::uint32_t to, boundary_nodes& active,
                         gain_cache const& gains) {
    active.touch(n);
    ++move_;
    for (auto e = g_.offsets[n], stop = g_.offsets[n + 1]; e < stop; ++e) {
      auto const other = g_.targets[e];
      active.touch(other);
      // Without the check of the move, many parallel edges would take quadratic time.
      if (locked_[other] || counted_in_[other] == move_ || gains.is_fixed(other)) continue;
      if (g_.degree(other) <= counted_anew || !open_.contains(other)) {
        counted_in_[other] = move_;
        connectivity_.count(g_, p_.of, other);
        push_candidate(other, gain_cache::best(connectivity_, p_.of[other]));
      } else {  // an estimate; the exact gain is computed when the node is popped
        auto const w = g_.edge_weight(e);
        if (p_.of[other] == from) gain_[other] += w;
        if (p_.of[other] == to) gain_[other] -= w;
        open_.put(other, gain_[other]);
      }
    }
  }

  static constexpr std::uint32_t counted_anew = 40;  // nodes of larger degree get estimated gains

  weighted_view const& g_;
  partitioned_level& p_;
  part_connectivity connectivity_;
  gain_buckets open_;
  uninitialized_array<std::int64_t> gain_;
  uninitialized_array<std::uint8_t> locked_;
  uninitialized_array<std::uint32_t> counted_in_;  // the last move after which the node's gain was counted
  std::uint32_t move_ = 0;
  std::vector<step> moves_;
  std::uint32_t least_open_ = 0;  // below this bucket, only touched nodes are queued
};

/// Returns the part with the most room.
inline std::uint32_t roomiest(partitioned_level const& p) {
  std::uint32_t best = 0;
  for (std::uint32_t part = 1; part < p.parts(); ++part)
    if (p.room(part) > p.room(best)) best = part;
  return best;
}

/// Moves nodes from parts above their limits to parts with room, smallest loss first, if node weights allow
/// it. If all nodes weigh 1 and the limits hold all of them, no part exceeds its limit afterwards. Returns
/// the decrease of the cut, which is rarely positive.
inline std::int64_t rebalance(weighted_view const& g, partitioned_level& p,
                              std::vector<std::uint32_t> const& fixed, boundary_nodes& active) {
  if (excess_weight(p) == 0) return 0;
  if (p.further.limits) return further_balancing(g, p, fixed, active).move_nodes();
  std::int64_t gained = 0;
  part_connectivity connectivity(p.parts());
  gain_buckets open(g.nodes);
  auto const free_to_go = [&](std::uint32_t n) { return fixed.empty() || fixed[n] == no_block; };
  auto const gain_of = [&](std::uint32_t n, std::uint32_t& to) {
    connectivity.count(g, p.of, n);
    auto const own = p.of[n];
    to = connectivity.best_target(g, p, n);
    if (to == no_block) {
      auto const away = roomiest(p);
      if (away != own && p.room(away) >= g.weight(n)) to = away;
    }
    return (to == no_block ? 0 : connectivity.to(to)) - connectivity.to(own);
  };
  for (std::uint32_t n = 0; n < g.nodes; ++n) {
    std::uint32_t to = no_block;
    if (p.room(p.of[n]) < 0 && free_to_go(n) && g.weight(n) > 0) open.put(n, gain_of(n, to));
  }
  while (!open.empty()) {
    auto const n = open.pop();
    if (p.room(p.of[n]) >= 0) continue;
    std::uint32_t to = no_block;
    auto const gain = gain_of(n, to);
    if (to == no_block) continue;
    if (!open.empty() && gain_buckets::bucket_of(gain) < open.highest()) {
      open.put(n, gain);
      continue;
    }
    move_node(g, p, n, to);
    gained += gain;
    active.add(n);
    for (auto e = g.offsets[n], stop = g.offsets[n + 1]; e < stop; ++e) active.add(g.targets[e]);
  }
  return gained;
}

/// Refines by swaps: a node enters a full part while another leaves it. This improves full parts, which
/// single moves cannot. Kernighan, Lin, Bell Syst. Tech. J. 49, 1970.
class swap_refinement {
 public:
  swap_refinement(weighted_view const& g, partitioned_level& p, std::span<std::uint32_t const> fixed)
      : g_(g), p_(p), fixed_(fixed), connectivity_(p.parts()) {}

  /// Returns the decrease of the cut. Limits that were met stay met.
  std::int64_t refine(std::uint32_t rounds) {
    std::int64_t gained = 0;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      list_wishes();
      std::int64_t gain = 0;
      for (std::uint32_t part = 0; part < p_.parts(); ++part) gain += swap_into(part);
      gained += gain;
      if (gain == 0) break;
    }
    return gained;
  }

 private:
  struct wish {
    std::int64_t loss;
    std::uint32_t node;
    bool operator<(wish const& o) const { return std::pair(loss, node) < std::pair(o.loss, o.node); }
  };

  /// Lists the nodes that would gain by entering each full part, and the nodes that could leave each part,
  /// with their loss.
  void list_wishes() {
    in_.assign(p_.parts(), {});
    out_.assign(p_.parts(), {});
    for (std::uint32_t n = 0; n < g_.nodes; ++n) {
      if (!fixed_.empty() && fixed_[n] != no_block) continue;
      connectivity_.count(g_, p_.of, n);
      auto const own = p_.of[n];
      for (auto const part : connectivity_.nearby())
        if (part != own && !p_.fits(g_, n, part) && connectivity_.to(part) > connectivity_.to(own))
          in_[part].push_back({connectivity_.to(own) - connectivity_.to(part), n});
      if (auto const to = connectivity_.best_target(g_, p_, n); to != no_block)
        out_[own].push_back({connectivity_.to(own) - connectivity_.to(to), n});
    }
    for (auto& list : in_) std::sort(list.begin(), list.end());
    for (auto& list : out_) std::sort(list.begin(), list.end());
  }

  std::int64_t swap_into(std::uint32_t part) {
    std::int64_t gained = 0;
    auto leaver = out_[part].begin();
    for (auto const& comer : in_[part]) {
      if (leaver == out_[part].end() || comer.loss + leaver->loss >= 0) break;
      if (auto const gain = swap(comer.node, leaver->node, part); gain > 0) gained += gain, ++leaver;
    }
    return gained;
  }

  /// Swaps `comer` and `leaver` if that reduces the cut. Returns the decrease.
  std::int64_t swap(std::uint32_t comer, std::uint32_t leaver, std::uint32_t part) {
    auto const from = p_.of[comer];
    if (from == part || p_.of[leaver] != part) return 0;
    if (p_.room(part) + g_.weight(leaver) < g_.weight(comer)) return 0;
    connectivity_.count(g_, p_.of, leaver);
    auto const to = connectivity_.best_target(g_, p_, leaver);
    if (to == no_block) return 0;
    auto const left = connectivity_.to(to) - connectivity_.to(part);
    move_node(g_, p_, leaver, to);
    connectivity_.count(g_, p_.of, comer);
    auto const gain = left + connectivity_.to(part) - connectivity_.to(from);
    if (gain <= 0 || !p_.fits(g_, comer, part)) {
      move_node(g_, p_, leaver, part);
      return 0;
    }
    move_node(g_, p_, comer, part);
    return gain;
  }

  weighted_view const& g_;
  partitioned_level& p_;
  std::span<std::uint32_t const> fixed_;
  part_connectivity connectivity_;
  std::vector<std::vector<wish>> in_, out_;
};

/// Refines by swaps and returns the decrease of the cut.
inline std::int64_t refine_by_swaps(weighted_view const& g, partitioned_level& p,
                                    std::span<std::uint32_t const> fixed, std::uint32_t rounds) {
  return swap_refinement(g, p, fixed).refine(rounds);
}

/// Gives each empty part the node whose move increases the cut least, as long as there are nodes. It never
/// empties another part. O(n + m) if a part weighs nothing, O(parts) otherwise.
inline void fill_empty_parts(weighted_view const& g, partitioned_level& p,
                             std::vector<std::uint32_t> const& fixed) {
  if (std::find(p.weight.begin(), p.weight.end(), 0) == p.weight.end()) return;
  std::vector<std::uint32_t> nodes_in(p.parts(), 0), empty;
  for (std::uint32_t n = 0; n < g.nodes; ++n) ++nodes_in[p.of[n]];
  for (std::uint32_t part = 0; part < p.parts(); ++part)
    if (nodes_in[part] == 0) empty.push_back(part);
  if (empty.empty()) return;
  gain_buckets open(g.nodes);
  part_connectivity connectivity(p.parts());
  auto const gain_of = [&](std::uint32_t n) {
    connectivity.count(g, p.of, n);
    return -connectivity.to(p.of[n]);
  };
  for (std::uint32_t n = 0; n < g.nodes; ++n)
    if (nodes_in[p.of[n]] > 1 && (fixed.empty() || fixed[n] == no_block)) open.put(n, gain_of(n));
  for (auto const part : empty) {
    while (!open.empty()) {
      auto const n = open.pop();
      if (nodes_in[p.of[n]] <= 1 || !p.fits(g, n, part)) continue;
      auto const gain = gain_of(n);
      if (!open.empty() && gain_buckets::bucket_of(gain) < open.highest()) {
        open.put(n, gain);
        continue;
      }
      --nodes_in[p.of[n]];
      move_node(g, p, n, part);
      break;
    }
  }
}

/// If parts exceed their limits, packs all nodes again, heaviest first, into the part with the most room.
/// Keeps the packing if it exceeds the limits less or, if nodes have several weights, if it keeps them. This
/// is meant for few heavy nodes, where balance leaves no choice of cut.
inline void pack_if_over(weighted_view const& g, partitioned_level& p,
                         std::vector<std::uint32_t> const& fixed) {
  if (excess_weight(p) == 0) return;
  auto packed = p;
  std::fill(packed.weight.begin(), packed.weight.end(), 0);
  packed.further.clear(packed.parts());
  std::vector<std::uint32_t> nodes(g.nodes);
  for (std::uint32_t n = 0; n < g.nodes; ++n) nodes[n] = n;
  place_isolated_nodes(g, packed, fixed, nodes);
  auto const worst = [](partitioned_level const& parts) {
    std::int64_t over = 0;
    for (std::uint32_t part = 0; part < parts.parts(); ++part) over = (std::max)(over, parts.excess(part));
    return over;
  };
  if (p.further.limits && excess_weight(packed) > 0) return;
  if (worst(packed) < worst(p)) p = std::move(packed);
}

/// Brings parts within their limits and reduces the cut. Returns the decrease of the cut, which is negative
/// if balancing costs more than moves gain.
inline std::int64_t refine_level(weighted_view const& g, partitioned_level& p,
                                 std::vector<std::uint32_t> const& fixed, boundary_nodes& active,
                                 kway_config const& config, thread_team const& team = thread_team{}) {
  auto gained = rebalance(g, p, fixed, active);
  gain_cache gains(g, p, fixed, team);
  gained += refine_by_label_propagation(g, p, active, gains, config.label_refine_rounds);
  if (config.passes > 0)
    gained += kway_fm(g, p).refine(active, gains, config.passes, config.max_fruitless_moves);
  return gained;
}

}  // namespace cleave::detail
