// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/fixed_point.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/team.hpp"
#include "cleave/partition/kway/options.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::inline v0_2::detail {

/// Thrown if a graph has more nodes than 32 bits can number, or is too large for another reason.
class kway_size_error : public error {
 public:
  using error::error;
};

/// A user's graph as the partitioner reads it: 32-bit ids, offsets of 32 or 64 bits, no self-loops, integer
/// weights. User arrays that already have this form are referenced, not copied.
struct flat_graph {
  std::uint32_t nodes = 0;
  offsets_view offsets;
  std::uint32_t const* targets = nullptr;
  bool weighted = false;                          ///< if false, all weights are 1
  uninitialized_array<std::int64_t> node_weight;  ///< only if `weighted`
  uninitialized_array<std::int64_t> edge_weight;  ///< only if `weighted`
  level_offsets own_offsets;
  uninitialized_array<std::uint32_t> own_targets;
  std::int64_t node_total = 0, edge_total = 0;
  fixed_point node_unit, edge_unit;  ///< units in which floating-point weights were rounded to integers

  std::uint64_t directed_edges() const { return offsets.empty() ? 0 : offsets[nodes]; }
};

/// Returns the given numbers as unsigned integers, or null if their type is another one. Types that differ
/// only in sign may alias.
template <class Own, class Given>
Own const* as_unsigned(std::span<Given const> numbers) {
  if constexpr (std::same_as<Given, Own> || std::same_as<Given, std::make_signed_t<Own>>)
    return reinterpret_cast<Own const*>(numbers.data());
  else
    return nullptr;
}

/// Returns the number of self-loops, counted as directed edges.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
std::size_t count_loops(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g) {
  std::size_t loops = 0;
  for (std::size_t n = 0; n < g.nodes(); ++n)
    for (auto const to : g.neighbours(n)) loops += static_cast<std::size_t>(to) == n;
  return loops;
}

/// Converts a user's graph. `loops` is its number of self-loops. O(n + m), or O(1) if the user's arrays can
/// be used as they are.
/// \pre `find_adjacency_fault` returns no fault.
/// \throws kway_size_error if there are 2^32 - 1 nodes or more.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
flat_graph make_flat(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g, std::size_t loops) {
  if (g.nodes() >= no_block)
    throw kway_size_error("k-way partition: " + std::to_string(g.nodes()) +
                          " nodes are too many: at most 4294967294 are supported");
  flat_graph f;
  f.nodes = static_cast<std::uint32_t>(g.nodes());
  f.weighted = !g.node_weight.empty() || !g.edge_weight.empty();
  f.node_total = f.nodes;
  f.edge_total = static_cast<std::int64_t>(g.directed_edges() - loops);

  if (loops == 0 && f.nodes > 0) {
    f.offsets.narrow = as_unsigned<std::uint32_t>(g.offsets);
    f.offsets.wide = as_unsigned<std::uint64_t>(g.offsets);
    f.targets = as_unsigned<std::uint32_t>(g.targets);
  }
  bool const rows_copied = f.offsets.empty(), heads_copied = f.targets == nullptr;
  if (rows_copied)
    f.own_offsets = level_offsets(std::size_t{f.nodes} + 1, width_for_edges(g.directed_edges() - loops));
  if (heads_copied) f.own_targets = uninitialized_array<std::uint32_t>(g.directed_edges() - loops + 1);
  f.node_unit = exact_unit(g.node_weight);
  f.edge_unit = exact_unit(g.edge_weight);
  if (f.weighted) {
    f.node_weight = uninitialized_array<std::int64_t>(f.nodes);
    f.edge_weight = uninitialized_array<std::int64_t>(g.directed_edges() - loops);
    f.node_total = f.edge_total = 0;
  }
  if (!rows_copied && !heads_copied && !f.weighted) return f;
  std::uint64_t to = 0;
  for (std::uint32_t n = 0; n < f.nodes; ++n) {
    if (rows_copied) f.own_offsets.set(n, to);
    if (!heads_copied && !f.weighted) {
      to = static_cast<std::uint64_t>(g.offsets[n + 1]);
      continue;
    }
    if (f.weighted) f.node_total += f.node_weight[n] = in_unit(g.weight(n), f.node_unit);
    for (auto e = static_cast<std::size_t>(g.offsets[n]); e < static_cast<std::size_t>(g.offsets[n + 1]);
         ++e) {
      auto const other = static_cast<std::uint32_t>(g.targets[e]);
      if (other == n) continue;
      if (heads_copied) f.own_targets[to] = other;
      if (f.weighted) f.edge_total += f.edge_weight[to] = in_unit(g.weight_of_edge(e), f.edge_unit);
      ++to;
    }
  }
  if (rows_copied) {
    f.own_offsets.set(f.nodes, to);
    f.offsets = f.own_offsets.view();
  }
  if (heads_copied) f.targets = f.own_targets.data();
  return f;
}

template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
flat_graph make_flat(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g) {
  return make_flat(g, count_loops(g));
}

/// Returns the weight that each part should have. Integer weights are rounded up.
template <class Total>
std::vector<Total> fair_weights(Total total, std::uint32_t parts, per_part<double> const& share) {
  double shares = 0;
  for (std::uint32_t part = 0; part < parts; ++part) shares += share.same() ? 1 : share[part];
  std::vector<Total> fair(parts);
  for (std::uint32_t part = 0; part < parts; ++part) {
    if constexpr (std::floating_point<Total>) {
      fair[part] = total * ((share.same() ? 1 : share[part]) / shares);
    } else if (share.same()) {
      fair[part] = total / parts + (total % parts != 0);
    } else {
      auto const exact = static_cast<double>(total) * (share[part] / shares);
      fair[part] = exact < static_cast<double>(total) ? static_cast<Total>(exact) : total;
      if (static_cast<double>(fair[part]) < exact && fair[part] < total) ++fair[part];
    }
  }
  return fair;
}

template <class Total>
std::vector<Total> fair_weights(Total total, std::uint32_t parts, kway_options const& o) {
  return fair_weights(total, parts, o.share);
}

/// Returns the weight limit of each part: (1 + imbalance) * its fair weight, rounded down. A limit is raised
/// only if a single node, or the nodes fixed to the part, would not fit. Without node weights, all weigh 1.
inline std::vector<std::int64_t> weight_limits(std::span<std::int64_t const> node_weight, std::size_t nodes,
                                               std::vector<std::int64_t> const& fair,
                                               per_part<double> const& imbalance,
                                               std::vector<part_id> const& fixed) {
  auto const parts = fair.size();
  std::vector<std::int64_t> limit(parts), bound(parts, 0);
  std::int64_t heaviest = 0, total = 0;
  bool const alike = node_weight.empty() && fixed.empty();
  if (alike) heaviest = 1, total = static_cast<std::int64_t>(nodes);
  for (std::size_t n = 0; n < nodes && !alike; ++n) {
    auto const w = node_weight.empty() ? 1 : node_weight[n];
    total += w;
    if (!fixed.empty() && fixed[n] != no_part)
      bound[index(fixed[n])] += w;
    else
      heaviest = (std::max)(heaviest, w);
  }
  for (std::size_t part = 0; part < parts; ++part) {
    auto const slack = imbalance[part] * static_cast<double>(fair[part]);
    auto const room = (std::numeric_limits<std::int64_t>::max)() / 2 - fair[part];
    limit[part] = fair[part] + (slack < static_cast<double>(room) ? static_cast<std::int64_t>(slack) : room);
    limit[part] = (std::min)((std::max)(limit[part], bound[part]), total);
  }
  if (std::none_of(limit.begin(), limit.end(), [&](std::int64_t l) { return l >= heaviest; }))
    for (std::size_t part = 0; part < parts; ++part)
      if (fair[part] > 0 || heaviest == 0) limit[part] = (std::max)(limit[part], heaviest);
  return limit;
}

inline std::vector<std::int64_t> weight_limits(std::span<std::int64_t const> node_weight, std::size_t nodes,
                                               std::vector<std::int64_t> const& fair, kway_options const& o) {
  return weight_limits(node_weight, nodes, fair, o.imbalance, o.fixed);
}

inline std::vector<std::int64_t> weight_limits(flat_graph const& g, std::vector<std::int64_t> const& fair,
                                               kway_options const& o) {
  return weight_limits({g.node_weight.data(), g.node_weight.size()}, g.nodes, fair, o);
}

/// Checks the arrays like `check_adjacency`, on several threads if the graph has no weights. Returns the
/// number of self-loops, counted as directed edges. \throws adjacency_error.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
std::size_t check_arrays(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g, thread_team const& team) {
  auto const all = g.nodes();
  if (!g.node_weight.empty() || !g.edge_weight.empty() || all == 0 || all >= no_cluster ||
      static_cast<std::uint64_t>(g.offsets[0]) != 0 ||
      static_cast<std::uint64_t>(g.offsets[all]) != g.directed_edges()) {
    check_adjacency(g);
    return count_loops(g);
  }
  struct findings {
    edge_symmetry_hash balance;
    std::size_t loops = 0;
    bool sound = true;
  };
  id_ranges const ranges{static_cast<std::uint32_t>(all), 1u << 15};
  std::vector<findings> found(ranges.count());
  team.share(ranges.count(), [&](std::size_t r) {
    findings f;
    for (std::size_t n = ranges.begin(r); n < ranges.end(r) && f.sound; ++n) {
      auto const begin = static_cast<std::uint64_t>(g.offsets[n]);
      auto const end = static_cast<std::uint64_t>(g.offsets[n + 1]);
      f.sound = begin <= end && end <= g.directed_edges();
      for (auto e = begin; f.sound && e < end; ++e) {
        auto const to = static_cast<std::uint64_t>(g.targets[e]);
        if (to >= all) f.sound = false;
        f.loops += to == n;
        f.balance.add(n, to, 1);
      }
    }
    found[r] = f;
  });
  findings sum;
  for (auto const& f : found) {
    sum.balance.add(f.balance);
    sum.loops += f.loops;
    sum.sound &= f.sound;
  }
  if (!sum.sound || !sum.balance.even()) check_adjacency(g);  // throws, and names the place of the fault
  return sum.loops;
}

/// The input of the partitioner: a graph, weight limits, fixed nodes, and an optional initial partition.
struct kway_problem {
  flat_graph const& graph;
  std::vector<std::int64_t> limit;
  std::vector<std::uint32_t> fixed;
  std::vector<std::uint32_t> start;
  kway_options const& options;

  std::uint32_t parts() const { return static_cast<std::uint32_t>(limit.size()); }
};

}  // namespace cleave::detail
