// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/core/real.hpp"
#include "cleave/partition/kway/bisection.hpp"
#include "cleave/partition/kway/effort.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/team.hpp"

namespace cleave::detail {

/// A small graph cut into parts by cutting it in two, and the halves again. The slack that the limits leave
/// is dealt out over the bisections that are still to come, so that it lasts to the end.
class repeated_bisection {
 public:
  repeated_bisection(weighted_view const& g, std::vector<std::uint32_t> const& fixed,
                     std::vector<std::int64_t> const& limit, bisection_effort const& effort,
                     thread_team const& team = thread_team{})
      : limit_(limit), effort_(effort), team_(team), part_(g.nodes, 0) {
    piece whole;
    whole.parts = static_cast<std::uint32_t>(limit.size());
    whole.fixed = fixed;
    whole.node.resize(g.nodes);
    for (std::uint32_t n = 0; n < g.nodes; ++n) whole.node[n] = n;
    whole.view = g;
    if (g.nodes > 0) most_restarts_ = (std::max)(1u, effort.arcs / (std::max)(1u, g.arcs()));
    pieces_.push_back(std::move(whole));
  }

  std::vector<std::uint32_t> parts(splitmix& random) {
    pieces_[0].random = random;
    skip(random, pieces_[0].parts, 0);
    for (depth_ = 0; !pieces_.empty(); ++depth_) cut_all();
    return std::move(part_);
  }

 private:
  struct piece {
    std::uint32_t first_part = 0, parts = 1;
    std::vector<std::uint32_t> node;   // of the whole graph
    std::vector<std::uint32_t> fixed;  // to a part
    level_graph graph;
    weighted_view view;
    splitmix random{0};
  };

  /// Of so many parts, those in the first half.
  std::uint32_t left(std::uint32_t parts) const {
    auto const twice = rounded_product(2 * effort_.first_share, static_cast<double>(parts));
    auto const rounded = static_cast<std::uint32_t>(twice + 1) / 2;
    return std::clamp(rounded, 1u, parts - 1);
  }

  std::uint32_t restarts(std::uint32_t depth) const {
    auto const wanted = (std::max)(effort_.least_restarts, effort_.restarts >> (std::min)(depth, 31u));
    return (std::min)(wanted, most_restarts_);
  }

  /// Goes past the random numbers for a piece of so many parts and all that comes of it.
  void skip(splitmix& random, std::uint32_t parts, std::uint32_t depth) const {
    if (parts <= 1) return;
    for (std::uint32_t i = 0; i < restarts(depth); ++i) random.next();
    skip(random, parts - left(parts), depth + 1);
    skip(random, left(parts), depth + 1);
  }

  /// Cuts all pieces in two, which are of like depth.
  void cut_all() {
    std::vector<multilevel_bisection> bisections;
    std::vector<std::uint64_t> seeds;
    for (auto& p : pieces_) {
      if (p.parts > 1)
        for (std::uint32_t i = 0; i < restarts(depth_); ++i) seeds.push_back(p.random.next());
      else
        for (auto const n : p.node) part_[n] = p.first_part;
    }
    std::erase_if(pieces_, [](piece const& p) { return p.parts == 1; });
    for (auto const& p : pieces_) bisections.push_back(bisection_of(p));
    std::vector<two_sides> tried(seeds.size());
    team_.share(seeds.size(), [&](std::size_t i) {
      auto const restart = static_cast<std::uint32_t>(i % restarts(depth_));
      tried[i] = bisections[i / restarts(depth_)].sides(seeds[i], restart);
    });
    std::vector<piece> halves(2 * pieces_.size());
    team_.share(pieces_.size(), [&](std::size_t i) {
      auto best = i * restarts(depth_);
      for (auto at = best; at < (i + 1) * restarts(depth_); ++at)
        if (tried[at].better_than(tried[best])) best = at;
      auto& p = pieces_[i];
      // The half with more arcs is made of the arrays of the whole.
      auto const larger = larger_half(p, tried[best]);
      halves[2 * i + 1 - larger] = half(p, tried[best], 1 - larger, {});
      halves[2 * i + larger] = half(p, tried[best], larger, std::move(p.graph));
      halves[2 * i + 1].random = p.random;
      skip(p.random, p.parts - left(p.parts), depth_ + 1);
      halves[2 * i].random = p.random;
      p = {};
    });
    pieces_ = std::move(halves);
  }

  multilevel_bisection bisection_of(piece const& p) const {
    std::int64_t total = 0, room_left = 0, room = 0;
    for (std::uint32_t n = 0; n < p.view.nodes; ++n) total += p.view.weight(n);
    for (std::uint32_t i = 0; i < p.parts; ++i) {
      room = added(room, limit_[p.first_part + i]);
      if (i + 1 == left(p.parts)) room_left = room;
    }
    auto const depth = static_cast<int>(std::bit_width(p.parts - 1));
    std::array<std::int64_t, 2> const limit{side_limit(total, room_left, room, depth),
                                            side_limit(total, room - room_left, room, depth)};
    auto const aim = room == 0 ? 0 : scaled(total, room_left, room);
    return {p.view, sides_of(p), limit, aim, effort_};
  }

  /// No more than half of what fits: limits may be as large as the total.
  static std::int64_t added(std::int64_t a, std::int64_t b) {
    constexpr auto most = (std::numeric_limits<std::int64_t>::max)() / 2;
    return a > most - (std::min)(b, most) ? most : a + b;
  }

  static std::int64_t scaled(std::int64_t total, std::int64_t part, std::int64_t whole) {
    return static_cast<std::int64_t>(static_cast<double>(total) * static_cast<double>(part) /
                                     static_cast<double>(whole));
  }

  /// What a side may weigh: its share of the total, and of the slack as much as one of `depth` bisections
  /// gets.
  static std::int64_t side_limit(std::int64_t total, std::int64_t side, std::int64_t room, int depth) {
    if (depth <= 1 || room <= total || room - total > total / 8) return side;
    auto const share = scaled(total, side, room) + 1;
    return (std::min)(side, share + (side - share) / depth);
  }

  std::vector<std::uint32_t> sides_of(piece const& p) const {
    auto side = p.fixed;
    for (auto& s : side)
      if (s != free_node) s = s - p.first_part < left(p.parts) ? 0 : 1;
    return side;
  }

  static std::uint8_t larger_half(piece const& p, two_sides const& sides) {
    std::array<std::uint64_t, 2> arcs{};
    for (std::uint32_t n = 0; n < p.view.nodes; ++n) arcs[sides.of[n]] += p.view.degree(n);
    return arcs[1] > arcs[0];
  }

  /// One side of a piece. `into` is the graph of the piece, to be overwritten from the front as its rows are
  /// read, or empty.
  piece half(piece const& p, two_sides const& sides, std::uint8_t side, level_graph into) const {
    piece h;
    h.first_part = side == 0 ? p.first_part : p.first_part + left(p.parts);
    h.parts = side == 0 ? left(p.parts) : p.parts - left(p.parts);
    std::vector<std::uint32_t> renamed(p.view.nodes, free_node), kept;
    std::uint32_t arcs = 0;
    for (std::uint32_t n = 0; n < p.view.nodes; ++n) {
      if (sides.of[n] != side) continue;
      renamed[n] = static_cast<std::uint32_t>(kept.size());
      kept.push_back(n);
      h.node.push_back(p.node[n]);
      if (!p.fixed.empty()) h.fixed.push_back(p.fixed[n]);
      arcs += p.view.degree(n);
    }
    if (h.parts == 1) return h;
    auto& g = h.graph;
    g = into.first.empty() ? room_for(kept.size(), arcs, p.view) : std::move(into);
    g.nodes = static_cast<std::uint32_t>(kept.size());
    std::uint32_t end = 0;
    for (std::uint32_t i = 0; i < g.nodes; ++i) {
      auto const n = kept[i];
      auto const row = p.view.first[n], stop = p.view.first[n + 1];
      g.first[i] = end;
      g.node_weights.set(i, p.view.weight(n));
      for (auto arc = row; arc < stop; ++arc) {
        auto const other = renamed[p.view.head[arc]];
        if (other == free_node) continue;
        g.arc_weights.set(end, p.view.arc_weight(arc));
        g.head[end++] = other;
      }
    }
    g.first[g.nodes] = end;
    g.first.shrink(g.nodes + std::size_t{1});
    g.node_weights.shrink(g.nodes);
    g.head.shrink(end);
    g.arc_weights.shrink(end);
    h.view = g.view();
    return h;
  }

  static level_graph room_for(std::size_t nodes, std::uint32_t arcs, weighted_view const& like) {
    level_graph g;
    g.first = raw_array<std::uint32_t>(nodes + 1);
    g.head = raw_array<std::uint32_t>(arcs);
    if (!like.node_weights.all_one()) g.node_weights = level_weights(nodes, like.width());
    if (!like.arc_weights.all_one()) g.arc_weights = level_weights(arcs, like.width());
    return g;
  }

  std::vector<std::int64_t> const& limit_;
  bisection_effort effort_;
  thread_team team_;
  std::vector<std::uint32_t> part_;
  std::uint32_t depth_ = 0, most_restarts_ = 1;
  std::vector<piece> pieces_;
};

}  // namespace cleave::detail
