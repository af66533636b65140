// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/raw_array.hpp"

namespace cleave::detail {

/// Spreading over a graph, step by step: a node keeps a fifth of what it has and gets the rest from its
/// neighbours, each as much as its edge weighs among those of the node. In whole numbers, `one` for 1, so
/// that it is the same with every compiler.
class lazy_walk {
 public:
  static constexpr std::uint32_t one = 1u << 16;
  static constexpr std::uint32_t kept = one / 5;

  explicit lazy_walk(weighted_view const& g) : share_(g.arcs()) {
    for (std::uint32_t n = 0; n < g.nodes; ++n) {
      double sum = 0;
      for (auto arc = g.first[n]; arc < g.first[n + 1]; ++arc) sum += static_cast<double>(g.arc_weight(arc));
      auto const unit = sum > 0 ? (one - kept) / sum : 0;
      for (auto arc = g.first[n]; arc < g.first[n + 1]; ++arc)
        share_[arc] = static_cast<std::uint32_t>(unit * static_cast<double>(g.arc_weight(arc)));
    }
  }

  /// What comes along an arc, of what is at its head. Those of a node and `kept` are no more than `one`
  /// together.
  std::uint32_t share(std::uint32_t arc) const { return share_[arc]; }

 private:
  raw_array<std::uint32_t> share_;
};

}  // namespace cleave::detail
