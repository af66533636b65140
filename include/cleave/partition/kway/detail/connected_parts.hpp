// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/partition/kway/detail/level.hpp"

namespace cleave::inline v0_2::detail {

/// Makes parts connected: in each component of the graph, the nodes of a part become one piece. Fixed nodes
/// stay, so a part may keep the pieces that they are in. Weight limits are kept where that is possible with
/// connected parts.
///
/// The lighter pieces of a part join other parts, by the weight of the edges between them. Single nodes then
/// leave parts above their limits, towards parts with room, and those whose move reduces the cut follow. A
/// node moves only if the rest of its piece stays connected.
class connected_parts {
 public:
  connected_parts(weighted_view const& g, partitioned_level& p, std::vector<std::uint32_t> const& fixed)
      : g_(g),
        p_(p),
        fixed_(fixed),
        size_(p.parts(), 0),
        edges_to_(p.parts(), 0),
        is_near_(p.parts(), 0),
        seen_(g.nodes, 0) {
    for (std::uint32_t n = 0; n < g.nodes; ++n) ++size_[p.of[n]];
    lightest_ = (std::numeric_limits<std::int64_t>::max)();
    for (std::uint32_t n = 0; n < g.nodes; ++n) lightest_ = (std::min)(lightest_, g.weight(n));
  }

  void repair() {
    join_pieces();
    for (int round = 0; round < 3; ++round) {
      balance();
      if (!reduce_cut()) break;
    }
    balance();
  }

 private:
  static constexpr std::uint32_t none = 0xffffffff;
  static constexpr std::uint32_t most_rounds = 100;
  static constexpr std::uint32_t longest_search = 2000;  // nodes visited to find a way around a node

  bool is_fixed(std::uint32_t n) const { return !fixed_.empty() && fixed_[n] != no_block; }

  /// A connected piece of a part.
  struct piece {
    std::uint32_t part, component;
    std::int64_t weight = 0;
    bool has_fixed = false;
    std::vector<std::uint32_t> nodes{};
  };

  /// Calls `visit(n)` for `from` and each node that can be reached from it. Paths use only nodes for which
  /// `may(n)` returns true.
  template <class May, class Visit>
  void reach(std::uint32_t from, May may, Visit visit) {
    queue_.assign(1, from);
    for (std::size_t i = 0; i < queue_.size(); ++i) {
      visit(queue_[i]);
      for (auto e = g_.offsets[queue_[i]], stop = g_.offsets[queue_[i] + 1]; e < stop; ++e)
        if (auto const to = g_.targets[e]; may(to)) {
          seen_[to] = stamp_;
          queue_.push_back(to);
        }
    }
  }

  std::vector<std::uint32_t> components() {
    std::vector<std::uint32_t> of(g_.nodes, none);
    ++stamp_;
    for (std::uint32_t n = 0, next = 0; n < g_.nodes; ++n) {
      if (seen_[n] == stamp_) continue;
      seen_[n] = stamp_;
      reach(
          n, [&](std::uint32_t to) { return seen_[to] != stamp_; }, [&](std::uint32_t at) { of[at] = next; });
      ++next;
    }
    return of;
  }

  std::vector<piece> pieces() {
    auto const component = components();
    std::vector<piece> all;
    ++stamp_;
    for (std::uint32_t n = 0; n < g_.nodes; ++n) {
      if (seen_[n] == stamp_) continue;
      seen_[n] = stamp_;
      auto& made = all.emplace_back(piece{p_.of[n], component[n]});
      reach(
          n, [&](std::uint32_t to) { return seen_[to] != stamp_ && p_.of[to] == made.part; },
          [&](std::uint32_t at) {
            made.weight += g_.weight(at);
            made.has_fixed = made.has_fixed || is_fixed(at);
            made.nodes.push_back(at);
          });
    }
    return all;
  }

  /// Keeps one piece of each part in each component: one with fixed nodes, else the heaviest. The others join
  /// parts next to them.
  void join_pieces() {
    auto all = pieces();
    std::vector<std::uint32_t> order(all.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::tuple(all[a].part, all[a].component, !all[a].has_fixed, -all[a].weight, a) <
             std::tuple(all[b].part, all[b].component, !all[b].has_fixed, -all[b].weight, b);
    });
    std::vector<std::uint32_t> piece_of(g_.nodes, none);  // of nodes whose piece must move
    std::vector<std::uint32_t> loose;
    for (std::size_t i = 1; i < order.size(); ++i) {
      auto const &a = all[order[i - 1]], &b = all[order[i]];
      if (a.part != b.part || a.component != b.component || b.has_fixed) continue;
      loose.push_back(order[i]);
      for (auto const n : b.nodes) piece_of[n] = order[i];
    }
    // Pieces next to parts that stay join them first; then those next to these pieces.
    std::sort(loose.begin(), loose.end());
    std::vector<std::uint32_t> next;
    while (!loose.empty()) {
      next.clear();
      for (auto const i : loose) {
        auto const part = best_part_for(all[i].nodes, all[i].weight, piece_of);
        if (part == none) {
          next.push_back(i);
          continue;
        }
        for (auto const n : all[i].nodes) {
          piece_of[n] = none;
          change_part(n, part);
        }
      }
      if (next.size() == loose.size()) break;
      std::swap(loose, next);
    }
  }

  /// Returns the part with the heaviest edges to `nodes`, among those with room if there are any, or `none`
  /// if all neighbours are in pieces that must move.
  std::uint32_t best_part_for(std::vector<std::uint32_t> const& nodes, std::int64_t weight,
                              std::vector<std::uint32_t> const& piece_of) {
    for (auto const n : nodes)
      for (auto e = g_.offsets[n], stop = g_.offsets[n + 1]; e < stop; ++e)
        if (piece_of[g_.targets[e]] == none) add_edge(e);
    auto best = none;
    std::tuple<bool, std::int64_t, std::uint32_t> most{};
    for (auto const part : near_) {
      std::tuple const now{p_.room(part) >= weight, edges_to_[part], ~part};
      if (best == none || now > most) best = part, most = now;
    }
    forget_edges();
    return best;
  }

  void change_part(std::uint32_t n, std::uint32_t part) {
    p_.add_weight(g_, n, p_.of[n], -1);
    --size_[p_.of[n]];
    p_.of[n] = part;
    p_.add_weight(g_, n, part);
    ++size_[part];
  }

  /// Returns true if the neighbours of `n` in its part stay connected without it, as far as a short search
  /// can tell.
  bool may_leave(std::uint32_t n) {
    auto const part = p_.of[n];
    if (is_fixed(n) || size_[part] < 2) return false;
    ++stamp_;
    std::uint32_t left = 0, first = none;
    for (auto e = g_.offsets[n], stop = g_.offsets[n + 1]; e < stop; ++e)
      if (auto const to = g_.targets[e]; p_.of[to] == part && wanted(to)) ++left, first = to;
    if (left <= 1) return true;
    auto const found = stamp_ + 1;  // `stamp_` marks neighbours that have not been reached yet
    ++stamp_;
    seen_[n] = seen_[first] = found;
    --left;
    queue_.assign(1, first);
    for (std::size_t i = 0; i < queue_.size() && i < longest_search && left > 0; ++i)
      for (auto e = g_.offsets[queue_[i]], stop = g_.offsets[queue_[i] + 1]; e < stop; ++e) {
        auto const to = g_.targets[e];
        if (p_.of[to] != part || seen_[to] == found) continue;
        if (seen_[to] == found - 1) --left;
        seen_[to] = found;
        queue_.push_back(to);
      }
    return left == 0;
  }
  /// Marks a neighbour, and returns true if it was not marked before.
  bool wanted(std::uint32_t n) { return std::exchange(seen_[n], stamp_) != stamp_; }

  /// Adds an edge to the sum of its part, and lists the part in `near_`. `forget_edges` undoes it.
  void add_edge(std::uint64_t e) {
    auto const part = p_.of[g_.targets[e]];
    if (!std::exchange(is_near_[part], std::uint8_t{1})) near_.push_back(part);
    edges_to_[part] += g_.edge_weight(e);
  }
  void add_edges(std::uint32_t n) {
    for (auto e = g_.offsets[n], stop = g_.offsets[n + 1]; e < stop; ++e) add_edge(e);
  }
  void forget_edges() {
    for (auto const part : near_) edges_to_[part] = 0, is_near_[part] = 0;
    near_.clear();
  }

  /// Returns the distance of each part to the nearest part with room, in steps between adjacent parts.
  std::vector<std::uint32_t> distances_to_room() {
    std::vector<std::uint64_t> pairs;
    for (std::uint32_t n = 0; n < g_.nodes; ++n)
      for (auto e = g_.offsets[n], stop = g_.offsets[n + 1]; e < stop; ++e)
        if (auto const a = p_.of[n], b = p_.of[g_.targets[e]]; a != b)
          if (auto const pair = std::uint64_t{a} << 32 | b; pairs.empty() || pairs.back() != pair)
            pairs.push_back(pair);
    std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    std::vector<std::uint32_t> distance(p_.parts(), none);
    std::vector<std::uint32_t> open;
    for (std::uint32_t part = 0; part < p_.parts(); ++part)
      if (p_.room(part) >= (std::max)(lightest_, std::int64_t{1}) && !p_.is_over(part))
        distance[part] = 0, open.push_back(part);
    for (std::size_t i = 0; i < open.size(); ++i) {
      auto at = std::lower_bound(pairs.begin(), pairs.end(), std::uint64_t{open[i]} << 32);
      for (; at != pairs.end() && *at >> 32 == open[i]; ++at)
        if (auto const to = static_cast<std::uint32_t>(*at); distance[to] == none) {
          distance[to] = distance[open[i]] + 1;
          open.push_back(to);
        }
    }
    return distance;
  }

  /// Moves nodes out of parts above their limits, each towards a part with room.
  void balance() {
    std::vector<std::vector<std::uint32_t>> nodes(p_.parts());
    for (std::uint32_t round = 0; round < most_rounds && excess_weight(p_) > 0; ++round) {
      auto const distance = distances_to_room();
      for (auto& list : nodes) list.clear();
      for (std::uint32_t n = 0; n < g_.nodes; ++n)
        if (p_.is_over(p_.of[n])) nodes[p_.of[n]].push_back(n);
      bool moved = false;
      for (std::uint32_t part = 0; part < p_.parts(); ++part)
        if (!nodes[part].empty() && distance[part] != none)
          moved = unload(part, nodes[part], distance) || moved;
      for (std::uint32_t part = 0; part < p_.parts() && !moved; ++part)
        if (!nodes[part].empty() && distance[part] != none)
          moved = shed_branches(part, nodes[part], distance);
      if (!moved) return;
    }
  }

  /// Moves nodes of a part above its limit to parts nearer to room, those that raise the cut least first.
  bool unload(std::uint32_t part, std::vector<std::uint32_t> const& nodes,
              std::vector<std::uint32_t> const& distance) {
    heap_.clear();
    for (auto const n : nodes) push(n, distance);
    bool moved = false;
    while (p_.is_over(part) && !heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      auto const c = heap_.back();
      heap_.pop_back();
      if (p_.of[c.node] != part) continue;
      auto const now = best_move(c.node, distance);
      if (now.to == none) continue;
      if (now.gain < c.gain) {
        heap_.push_back(now);
        std::push_heap(heap_.begin(), heap_.end());
        continue;
      }
      if (!may_leave(c.node)) continue;
      change_part(c.node, now.to);
      moved = true;
      for (auto e = g_.offsets[c.node], stop = g_.offsets[c.node + 1]; e < stop; ++e)
        if (p_.of[g_.targets[e]] == part) push(g_.targets[e], distance);
    }
    return moved;
  }

  /// Moves branches of a spanning tree of the part to parts nearer to room. The rest of the tree still
  /// connects the part. Used if no single node may leave.
  bool shed_branches(std::uint32_t part, std::vector<std::uint32_t> const& nodes,
                     std::vector<std::uint32_t> const& distance) {
    bool moved = false;
    if (p_.further.limits) return false;
    for (int branch = 0; branch < 100 && p_.room(part) < 0; ++branch) {
      if (!shed_branch(part, nodes, distance)) break;
      moved = true;
    }
    return moved;
  }

  bool shed_branch(std::uint32_t part, std::vector<std::uint32_t> const& nodes,
                   std::vector<std::uint32_t> const& distance) {
    parent_.resize(g_.nodes);
    branch_.resize(g_.nodes);
    // a tree per piece, from the nodes with most neighbours, parents first
    std::vector<std::uint32_t> roots, order;
    for (auto const n : nodes)
      if (p_.of[n] == part) roots.push_back(n);
    std::sort(roots.begin(), roots.end(), [&](std::uint32_t a, std::uint32_t b) {
      return g_.degree(a) != g_.degree(b) ? g_.degree(a) > g_.degree(b) : a < b;
    });
    ++stamp_;
    for (auto const root : roots) {
      if (!wanted(root)) continue;
      parent_[root] = none;
      auto const first = order.size();
      order.push_back(root);
      for (auto i = first; i < order.size(); ++i)
        for (auto e = g_.offsets[order[i]], stop = g_.offsets[order[i] + 1]; e < stop; ++e)
          if (auto const to = g_.targets[e]; p_.of[to] == part && wanted(to)) {
            parent_[to] = order[i];
            order.push_back(to);
          }
    }
    constexpr std::int64_t stays = -1;  // a branch with a fixed node
    for (auto const n : order) branch_[n] = is_fixed(n) ? stays : g_.weight(n);
    for (auto i = order.size(); i-- > 0;)
      if (auto const up = parent_[order[i]]; up != none)
        branch_[up] =
            branch_[up] == stays || branch_[order[i]] == stays ? stays : branch_[up] + branch_[order[i]];
    auto const fits = [&](std::uint32_t n, std::int64_t most) {
      return parent_[n] != none && branch_[n] != stays && branch_[n] <= most;
    };
    // the heaviest branch that fits, of those that begin at or above a node next to the other part
    std::uint32_t top = none, to = none;
    for (auto const n : order)
      for (auto e = g_.offsets[n], stop = g_.offsets[n + 1]; e < stop; ++e) {
        auto const other = p_.of[g_.targets[e]];
        if (distance[other] >= distance[part]) continue;
        auto const most = distance[other] == 0 ? (std::min)(p_.room(other), -p_.room(part)) : -p_.room(part);
        auto at = n;
        if (!fits(at, most)) continue;
        while (fits(parent_[at], most)) at = parent_[at];
        if (top == none || branch_[at] > branch_[top]) top = at, to = other;
      }
    if (top == none || branch_[top] == 0) return false;
    ++stamp_;
    seen_[top] = stamp_;
    for (auto const n : order) {
      if (parent_[n] != none && seen_[parent_[n]] == stamp_) seen_[n] = stamp_;
      if (seen_[n] == stamp_) change_part(n, to);
    }
    return true;
  }

  struct candidate {
    std::int64_t gain;
    std::uint32_t node, to;
    bool operator<(candidate const& other) const {
      return std::pair(gain, other.node) < std::pair(other.gain, node);
    }
  };

  void push(std::uint32_t n, std::vector<std::uint32_t> const& distance) {
    if (is_fixed(n)) return;
    if (auto const c = best_move(n, distance); c.to != none) {
      heap_.push_back(c);
      std::push_heap(heap_.begin(), heap_.end());
    }
  }

  /// Returns the best move of `n` to a part that is nearer to room. A part with room must have enough of it.
  candidate best_move(std::uint32_t n, std::vector<std::uint32_t> const& distance) {
    add_edges(n);
    candidate best{0, n, none};
    auto const own = p_.of[n];
    for (auto const part : near_) {
      if (part == own || distance[part] >= distance[own]) continue;
      if (distance[part] == 0 && !p_.fits(g_, n, part)) continue;
      auto const gain = edges_to_[part] - edges_to_[own];
      if (best.to == none || std::pair(gain, best.to) > std::pair(best.gain, part))
        best.gain = gain, best.to = part;
    }
    forget_edges();
    return best;
  }

  /// Moves nodes that reduce the cut, and returns true if there was one.
  bool reduce_cut() {
    bool moved = false;
    for (std::uint32_t n = 0; n < g_.nodes; ++n) {
      if (is_fixed(n)) continue;
      add_edges(n);
      auto to = none;
      auto most = edges_to_[p_.of[n]];
      for (auto const part : near_)
        if (edges_to_[part] > most && p_.fits(g_, n, part)) to = part, most = edges_to_[part];
      forget_edges();
      if (to == none || !may_leave(n)) continue;
      change_part(n, to);
      moved = true;
    }
    return moved;
  }

  weighted_view const& g_;
  partitioned_level& p_;
  std::vector<std::uint32_t> const& fixed_;
  std::vector<std::uint32_t> size_;     // nodes of each part
  std::vector<std::int64_t> edges_to_;  // weight of the current node's edges to each part
  std::vector<std::uint32_t> near_;     // the parts that they lead to
  std::vector<std::uint8_t> is_near_;
  std::vector<std::uint64_t> seen_;
  std::uint64_t stamp_ = 0;
  std::vector<std::uint32_t> queue_, parent_;
  std::vector<std::int64_t> branch_;  // weight of each branch of the trees
  std::vector<candidate> heap_;
  std::int64_t lightest_;
};

}  // namespace cleave::detail
