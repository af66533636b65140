// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/graph/hypergraph.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::inline v0_2 {

/// The cost of a partition of a hypergraph, by each objective.
template <class Sum>
struct hypergraph_cut {
  Sum connectivity = 0;      ///< for each net: its weight, times the number of its parts minus 1 (λ - 1)
  Sum cut_net_weight = 0;    ///< weight of the nets with pins in several parts
  std::size_t cut_nets = 0;  ///< number of these nets

  bool operator==(hypergraph_cut const&) const = default;
};

/// Computes the cost of a partition from its parts and the pins. It shares no code with the partitioner.
/// O(pins).
/// \pre Every pin has a part below `p.parts`.
template <std::integral Index, weight_number NodeWeight, weight_number NetWeight, std::integral Offset>
hypergraph_cut<weight_total<NetWeight>> measure_cut(hypergraph_view<Index, NodeWeight, NetWeight, Offset> h,
                                                    partition const& p) {
  hypergraph_cut<weight_total<NetWeight>> cut;
  std::vector<std::size_t> seen(p.parts, 0);  // the last net with a pin in the part, plus 1
  for (std::size_t e = 0; e < h.nets(); ++e) {
    std::size_t parts = 0;
    for (auto const pin : h.pins_of(e)) {
      auto& last = seen[index(p.of[static_cast<std::size_t>(pin)])];
      parts += last != e + 1;
      last = e + 1;
    }
    if (parts <= 1) continue;
    auto const weight = static_cast<weight_total<NetWeight>>(h.weight_of_net(e));
    cut.connectivity += weight * static_cast<weight_total<NetWeight>>(parts - 1);
    cut.cut_net_weight += weight;
    ++cut.cut_nets;
  }
  return cut;
}

}  // namespace cleave
