// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/bytes.hpp"  // 16_GiB
#include "cleave/core/ids.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/partition/model/metrics.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/model/per_part.hpp"
#include "cleave/partition/units/topological_orders.hpp"
#include "cleave/partition/units/unit_costs.hpp"

namespace cleave {

/// Whether all parts must have nodes.
enum class empty_parts : std::uint8_t {
  forbidden,  ///< exactly min(k, units) parts, each with nodes
  allowed,    ///< up to k parts: fewer where more transfers would cost more than they spread
};

/// What `balance` must respect. Nodes are positions in `nodes()`; arrays by node are empty where nothing is
/// said.
struct balance_options {
  double cost_per_byte = 1;        ///< of moving one byte, in the unit of the weights
  per_part<std::size_t> memory{};  ///< bytes a part can hold of state and constants (and `node_memory`)
  per_part<double> speed{};        ///< weight that a part does in a unit of time
  per_part<double> link{};         ///< times what transfers cost a part: 0 for a host that pays none
  std::vector<std::vector<std::size_t>> together{};  ///< sets of nodes that must share a part
  std::vector<char> backward{};   ///< of a node: its edges cost transfers but do not restrict the order
  std::vector<part_id> pinned{};  ///< of a node: its part, or no_part
  std::vector<std::size_t> node_memory{};  ///< of a node: bytes that its part holds besides its state
  std::vector<std::size_t> rank{};         ///< of a node: `unit_order::given` takes the smallest first
  std::vector<unit_order> orders{unit_order::given, unit_order::breadth_first, unit_order::depth_first,
                                 unit_order::on_demand, unit_order::on_demand_last};
  std::size_t random_orders = 64;  ///< tried besides, as far as they have a million units in all; a quarter
                                   ///< of that many more where nodes are backward
  std::uint64_t seed = 1;          ///< of those
  empty_parts empty = empty_parts::forbidden;
};

/// Parts and how good they are.
struct balanced_partition : partition {
  std::vector<double> loads{};  ///< of a part
  double bottleneck = 0;        ///< the largest of them
  double bound = 0;  ///< below this no assignment of the nodes to k parts can get, contiguous or not
  unit_order order = unit_order::given;  ///< the first of the tried orders that has these slices
  std::size_t unsized = 0;  ///< values that cross although nobody knows their bytes: they were taken for free

  /// How far above the best the bottleneck can be at most, as a share of the bound.
  double gap() const {
    if (bottleneck <= bound) return 0;
    return bound > 0 ? bottleneck / bound - 1 : std::numeric_limits<double>::infinity();
  }
};

}  // namespace cleave

namespace cleave::detail {

/// Whether an empty part may stand before one with nodes: only where parts differ; else more parts than units
/// are of no use.
inline bool may_leave_gaps(balance_options const& o) {
  return o.empty == empty_parts::allowed &&
         !(o.speed.same() && o.memory.same() && o.link.same() && o.pinned.empty());
}

/// The first thing in options that makes no sense for `g` and `k`, as a sentence, or nothing. O(V).
template <std::unsigned_integral Index>
std::optional<std::string> find_option_fault(balance_options const& o, basic_dense<Index> const& g,
                                             std::uint32_t k) {
  auto const count = [](std::size_t n) { return std::to_string(n); };
  if (k == 0) return "0 parts are asked for: at least one is needed";
  if (may_leave_gaps(o) && k > g.nodes() + 65'536)  // tables of that size would be made for nothing
    return count(k) + " parts are asked for, and the graph has " + count(g.nodes()) + " nodes: ask for fewer";
  if (o.orders.empty() && o.random_orders == 0) return "no order is to be tried: name one in `orders`";
  if (g.weight.size() != g.nodes())
    return "the graph has no weights: give its adapter weight(n), or fill the array `weight` of its snapshot";
  if (!g.bytes.empty() && g.bytes.size() != g.values())
    return "bytes has " + count(g.bytes.size()) + " entries, the graph " + count(g.values()) + " values";
  if (auto const n = find_bad_weight(g))
    return "the weight of node " + g.label(*n) + " is " + std::to_string(g.weight[*n]) +
           ": weights are finite, not negative";
  if (!(o.cost_per_byte >= 0) || !is_finite(o.cost_per_byte))
    return "cost_per_byte is " + std::to_string(o.cost_per_byte) + ": it must be finite, not negative";
  if (!o.speed.covers(k)) return count(o.speed.size()) + " speeds are given for " + count(k) + " parts";
  for (std::size_t s = 0; s < o.speed.size(); ++s)
    if (!(o.speed[s] > 0) || !is_finite(o.speed[s]))
      return "the speed of part " + count(s) + " is " + std::to_string(o.speed[s]) +
             ": it must be finite and above 0";
  if (!o.link.covers(k)) return count(o.link.size()) + " links are given for " + count(k) + " parts";
  for (std::size_t s = 0; s < o.link.size(); ++s)
    if (!(o.link[s] >= 0) || !is_finite(o.link[s]))
      return "the link of part " + count(s) + " is " + std::to_string(o.link[s]) +
             ": it must be finite, not negative";
  if (!o.memory.covers(k))
    return count(o.memory.size()) + " memory limits are given for " + count(k) + " parts";
  auto const wrong_size = [&](std::size_t size) { return size != 0 && size != g.nodes(); };
  auto const size_fault = [&](char const* what, std::size_t size) {
    return std::string(what) + " has " + count(size) + " entries, the graph " + count(g.nodes()) + " nodes";
  };
  if (wrong_size(o.backward.size())) return size_fault("backward", o.backward.size());
  if (wrong_size(o.pinned.size())) return size_fault("pinned", o.pinned.size());
  if (wrong_size(o.node_memory.size())) return size_fault("node_memory", o.node_memory.size());
  if (wrong_size(o.rank.size())) return size_fault("rank", o.rank.size());
  for (std::size_t n = 0; n < o.pinned.size(); ++n)
    if (o.pinned[n] != no_part && index(o.pinned[n]) >= k)
      return "node " + g.label(n) + " is pinned to part " + count(index(o.pinned[n])) + ", and there are " +
             count(k) + " parts";
  for (auto const& set : o.together)
    for (auto const n : set)
      if (n >= g.nodes())
        return "`together` names node #" + count(n) + ", and the graph has " + count(g.nodes()) + " nodes";
  return std::nullopt;
}

}  // namespace cleave::detail
