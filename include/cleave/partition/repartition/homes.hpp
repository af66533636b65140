// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/repartition/assignment.hpp"

namespace cleave::detail {

/// Where nodes are, and what moves with them.
struct home_table {
  std::vector<part_id> of;           ///< of a node; `no_part` for one that is new
  std::vector<std::uint64_t> bytes;  ///< of a node
  double cost_per_byte;              ///< in the unit of edge weights

  double cost(std::size_t node) const { return cost_per_byte * static_cast<double>(bytes[node]); }
  bool has_moved(std::size_t node, part_id to) const { return of[node] != no_part && of[node] != to; }
};

/// A graph with a node for each part, of no weight and tied to whoever is at home there by the cost of
/// leaving: its cut is that of the graph and the cost of what moved, if the added nodes are fixed to their
/// parts. Catalyurek et al., IPDPS 2007 (repartitioning with fixed vertices).
template <weight_number NodeWeight>
struct graph_with_homes {
  adjacency<std::uint32_t, NodeWeight, std::int64_t> graph;
  std::vector<part_id> fixed;
};

/// What edge weights and costs are multiplied by to become integers: 1 where they all are, 1024 for costs
/// that are not, and for floating edge weights as much as keeps their sum below 2^40.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
double integer_scale(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g, home_table const& home) {
  if constexpr (std::floating_point<EdgeWeight>) {
    double total = 0;
    for (std::size_t arc = 0; arc < g.arcs(); ++arc) total += static_cast<double>(g.weight_of_arc(arc));
    for (std::size_t n = 0; n < g.nodes(); ++n) total += home.cost(n);
    return total > 0 ? power_of_two((std::min)(39 - binary_exponent(total), 1022)) : 1;
  } else {
    auto const whole = [](double cost) {
      return cost < 0x1p53 && cost == static_cast<double>(static_cast<std::int64_t>(cost));
    };
    bool all = true;
    for (std::size_t n = 0; n < g.nodes(); ++n) all &= whole(home.cost(n));
    return all ? 1 : 1024;
  }
}

/// Adds the nodes of `k` parts to `g`; `fixed` are its own. O(n + m + k).
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
graph_with_homes<NodeWeight> add_homes(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                       std::uint32_t k, home_table const& home,
                                       std::span<part_id const> fixed) {
  graph_with_homes<NodeWeight> made;
  auto const scale = integer_scale(g, home);
  auto const scaled = [&](double cost) { return rounded((std::min)(cost * scale, 0x1p61)); };
  auto const n = g.nodes();
  auto const anchor = [&](part_id part) { return static_cast<std::uint32_t>(n + index(part)); };
  std::vector<std::uint32_t> residents(k, 0);
  auto& a = made.graph;
  auto const close = [&] { a.offsets.push_back(narrow<std::uint32_t>(a.targets.size())); };
  auto const tie_of = [&](std::size_t node) -> std::int64_t {
    auto const part = home.of[node];
    return part == no_part || index(part) >= k ? 0 : scaled(home.cost(node));
  };
  for (std::size_t node = 0; node < n; ++node) {
    a.node_weight.push_back(g.weight(node));
    auto const last = static_cast<std::size_t>(g.offsets[node + 1]);
    for (auto arc = static_cast<std::size_t>(g.offsets[node]); arc < last; ++arc) {
      a.targets.push_back(static_cast<std::uint32_t>(g.targets[arc]));
      a.edge_weight.push_back(scaled(static_cast<double>(g.weight_of_arc(arc))));
    }
    if (auto const tie = tie_of(node); tie > 0) {
      a.targets.push_back(anchor(home.of[node]));
      a.edge_weight.push_back(tie);
      ++residents[index(home.of[node])];
    }
    close();
  }
  for (std::uint32_t part = 0; part < k; ++part) {
    a.node_weight.push_back(0);
    a.targets.resize(a.targets.size() + residents[part]);
    close();
  }
  a.edge_weight.resize(a.targets.size());
  std::vector<std::size_t> next(a.offsets.begin() + static_cast<std::ptrdiff_t>(n), a.offsets.end());
  for (std::size_t node = 0; node < n; ++node)
    if (auto const tie = tie_of(node); tie > 0) {
      auto& at = next[index(home.of[node])];
      a.targets[at] = static_cast<std::uint32_t>(node);
      a.edge_weight[at++] = tie;
    }
  made.fixed.assign(fixed.begin(), fixed.end());
  made.fixed.resize(n, no_part);
  for (std::uint32_t part = 0; part < k; ++part) made.fixed.push_back(part_id{part});
  return made;
}

/// The same parts under other numbers, so that the fewest bytes move. Only parts for which `alike(a, b)` says
/// so change numbers. O(n + k^3); above 1,024 parts numbers stay.
template <class Alike>
partition renumbered_to_stay(partition p, home_table const& home, Alike alike) {
  auto const k = p.parts;
  if (k > 1024) return p;
  std::vector<double> staying(std::size_t{k} * k, 0);
  double total = 0;
  for (std::size_t n = 0; n < p.of.size(); ++n) {
    auto const old = home.of[n];
    if (old == no_part || index(old) >= k) continue;
    staying[std::size_t{index(p.of[n])} * k + index(old)] += static_cast<double>(home.bytes[n]);
    total += static_cast<double>(home.bytes[n]);
  }
  auto const scale = total >= 0x1p40 ? 0x1p40 / total : 1;  // bytes are exact below a terabyte
  std::int64_t const forbidden = -(std::int64_t{1} << 50);
  std::vector<std::int64_t> profit(staying.size());
  for (std::uint32_t a = 0; a < k; ++a)
    for (std::uint32_t b = 0; b < k; ++b) {
      auto const at = std::size_t{a} * k + b;
      profit[at] = a == b || alike(a, b) ? rounded(staying[at] * scale) : forbidden;
    }
  auto const number = heaviest_assignment(profit, k);
  for (auto& part : p.of) part = part_id{number[index(part)]};
  return p;
}

}  // namespace cleave::detail
