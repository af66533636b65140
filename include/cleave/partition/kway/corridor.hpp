// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/partition/kway/flow_cutter.hpp"
#include "cleave/partition/kway/level_graph.hpp"

namespace cleave::detail {

/// How wide the strip along a cut is in which the cut may move.
struct corridor_width {
  std::uint32_t steps = 8;  ///< from the cut
  double slack = 16;        ///< times what a part may weigh above the mean of the two
};

/// Two parts, and nodes of either that have neighbours in the other.
struct part_pair {
  std::uint32_t a, b;
  std::span<std::uint32_t const> border;
};

/// The strip along the cut between two parts as a network, with the nodes beyond it drawn together. Nodes
/// that are fixed count as beyond. Sanders, Schulz, ESA 2011, §4.
class corridor {
 public:
  /// `position` has an entry for each node of the level, all of them `nowhere`, and so it leaves them; of
  /// nodes outside of the two parts it is not read.
  template <class Level>
  void make(Level const& g, level_parts const& p, std::span<std::uint32_t const> fixed, part_pair const& pair,
            corridor_width const& width, std::span<std::uint32_t> position) {
    node_.assign(2, 0);
    net.weight.assign(2, 0);
    net.depth.assign(2, 0);
    net.limit = {p.limit[pair.a], p.limit[pair.b]};
    collect(g, p, fixed, pair, pair.a, pair.b, width, position);
    collect(g, p, fixed, pair, pair.b, pair.a, width, position);
    for (std::size_t i = 2; i < node_.size(); ++i)
      net.depth[i] > 0 ? net.weight[0] -= net.weight[i] : net.weight[1] -= net.weight[i];
    net.weight[0] += p.weight[pair.a], net.weight[1] += p.weight[pair.b];
    connect(g, p, pair, position);
    for (std::size_t i = 2; i < node_.size(); ++i) position[node_[i]] = nowhere;
  }

  cut_network net;
  std::int64_t cut() const { return cut_; }  ///< what the edges of the network between the parts weigh
  std::size_t nodes() const { return node_.size() - 2; }
  std::uint32_t node(std::size_t i) const { return node_[i + 2]; }

  static constexpr std::uint32_t nowhere = 0xffffffff;

 private:
  template <class Level>
  void collect(Level const& g, level_parts const& p, std::span<std::uint32_t const> fixed,
               part_pair const& pair, std::uint32_t own, std::uint32_t other, corridor_width const& width,
               std::span<std::uint32_t> position) {
    auto const room = most(p, own, other, width.slack);
    std::int64_t taken = 0;
    auto const begin = node_.size();
    auto const sign = own == pair.a ? 1 : -1;
    auto const take = [&](std::uint32_t n, std::uint32_t steps) {
      if (p.of[n] != own || position[n] != nowhere || (!fixed.empty() && fixed[n] != free_node)) return;
      auto const weight = static_cast<std::int64_t>(g.weight(n));
      if (taken + weight > room) return;
      taken += weight;
      position[n] = static_cast<std::uint32_t>(node_.size());
      node_.push_back(n);
      net.weight.push_back(weight);
      net.depth.push_back(sign * static_cast<std::int32_t>(steps));
    };
    for (auto const n : pair.border)
      if (p.of[n] == own && touches(g, p, n, other)) take(n, 1);
    for (auto i = begin; i < node_.size(); ++i) {
      auto const steps = static_cast<std::uint32_t>(sign * net.depth[i]);
      if (steps >= width.steps) break;
      auto const n = node_[i];
      for (auto a = g.first[n]; a < g.first[n + 1]; ++a) take(g.head[a], steps + 1);
    }
  }

  /// What may be taken of part `own`: about what the other part could hold if it were allowed `slack` times
  /// as much above the mean.
  static std::int64_t most(level_parts const& p, std::uint32_t own, std::uint32_t other, double slack) {
    auto const mean = (p.weight[own] + p.weight[other]) / 2;
    auto const above =
        (std::max)(slack * static_cast<double>(p.limit[other] - mean), 0.1 * static_cast<double>(mean));
    auto const room = static_cast<double>(mean - p.weight[other]) + above;
    return room <= 0 ? 0 : static_cast<std::int64_t>((std::min)(room, static_cast<double>(p.weight[own])));
  }

  template <class Level>
  static bool touches(Level const& g, level_parts const& p, std::uint32_t n, std::uint32_t part) {
    for (auto a = g.first[n]; a < g.first[n + 1]; ++a)
      if (p.of[g.head[a]] == part) return true;
    return false;
  }

  template <class Level>
  void connect(Level const& g, level_parts const& p, part_pair const& pair,
               std::span<std::uint32_t const> position) {
    net.flow.clear(node_.size());
    cut_ = 0;
    for (std::uint32_t i = 2; i < node_.size(); ++i) {
      auto const n = node_[i];
      std::int64_t beyond[2] = {0, 0};
      for (auto a = g.first[n]; a < g.first[n + 1]; ++a) {
        auto const to = g.head[a];
        auto const part = p.of[to];
        if (part != pair.a && part != pair.b) continue;
        auto const weight = static_cast<std::int64_t>(g.arc_weight(a));
        auto const at = position[to];
        if (at == nowhere)
          beyond[part == pair.b] += weight;
        else if (at < i)
          net.flow.edge(at, i, weight);
        if (part != p.of[n] && (at == nowhere || at < i)) cut_ += weight;
      }
      for (std::uint32_t end = 0; end < 2; ++end)
        if (beyond[end] > 0) net.flow.edge(end, i, beyond[end]);
    }
    net.flow.build();
  }

  std::vector<std::uint32_t> node_;  // of the level, by number in the network; two without meaning in front
  std::int64_t cut_ = 0;
};

}  // namespace cleave::detail
