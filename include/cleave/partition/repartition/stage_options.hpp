// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/partition/model/part_memory.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/slices/balance_options.hpp"

namespace cleave {

struct stage_repartition_options {
  double cost_per_moved_byte = 1;     ///< in the unit of the weights
  std::vector<std::size_t> moving{};  ///< of a node: bytes that move with it; empty: `node_memory`, or one
  std::vector<char> stays{};          ///< of a node: it must not move
  std::vector<partition> starts{};    ///< parts to begin with besides the old ones and those of `balance`
  std::size_t most_trials = 0;        ///< of moves of single units; 0: two million, or 20 for each unit
  balance_options balance{};          ///< costs, memory, pins, what must share a part
};

/// Parts numbered in the order of the pipeline, and what they cost.
struct repartitioned_stages : partition {
  std::vector<double> loads{};  ///< of a part
  double bottleneck = 0;        ///< the largest of them
  std::size_t moved_bytes = 0, moved_nodes = 0;
  double objective = 0;  ///< the bottleneck and the cost of what moves
};

}  // namespace cleave

namespace cleave::detail {

/// The first thing in options that makes no sense, as a sentence, or nothing. O(V).
template <std::unsigned_integral Index>
std::optional<std::string> find_option_fault(stage_repartition_options const& o, basic_dense<Index> const& g,
                                             partition const& old, std::uint32_t k) {
  if (auto fault = find_option_fault(o.balance, g, k)) return fault;
  auto const count = [](std::size_t n) { return std::to_string(n); };
  auto const all = count(g.nodes()) + " nodes";
  if (!(o.cost_per_moved_byte >= 0) || !is_finite(o.cost_per_moved_byte))
    return "cost_per_moved_byte must be finite, not negative";
  if (old.of.size() != g.nodes())
    return "the old partition is of " + count(old.of.size()) + " nodes, the graph has " + all;
  if (!o.moving.empty() && o.moving.size() != g.nodes())
    return "moving has " + count(o.moving.size()) + " entries, the graph " + all;
  if (!o.stays.empty() && o.stays.size() != g.nodes())
    return "stays has " + count(o.stays.size()) + " entries, the graph " + all;
  for (std::size_t n = 0; n < o.stays.size(); ++n)
    if (o.stays[n] && index(old.of[n]) >= k && !is_replicable(g, n))
      return "node " + g.label(n) + " must stay, and is in none of the " + count(k) + " parts";
  return std::nullopt;
}

}  // namespace cleave::detail
