// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/graph/neighbours.hpp"
#include "cleave/partition/kway/detail/connected_parts.hpp"
#include "cleave/partition/kway/detail/engine.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/mapping_refinement.hpp"
#include "cleave/partition/kway/detail/task.hpp"
#include "cleave/partition/kway/detail/team.hpp"
#include "cleave/partition/kway/kway.hpp"
#include "cleave/partition/kway/machine.hpp"
#include "cleave/partition/kway/options.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::inline v0_2 {

/// A partition whose part i is at place i of a machine.
template <weight_number NodeWeight = std::int64_t, weight_number EdgeWeight = NodeWeight>
struct mapped_partition : kway_partition<NodeWeight, EdgeWeight> {
  weight_total<EdgeWeight> cost{};  ///< for each edge its weight, times the distance of its ends
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Cuts a graph along the nested groups of a machine: first into its largest groups, then each of these.
class multisection {
 public:
  multisection(machine const& m, partitioned_level& p, std::vector<std::uint32_t> const& fixed,
               kway_options const& o, thread_team const& team)
      : sizes_(m.sizes()), p_(p), fixed_(fixed), options_(o), team_(team) {}

  void cut(weighted_view const& g) {
    auto& whole = open_.emplace_back(part_of_graph{{}, g, {}, 0, p_.parts(), sizes_.size()});
    whole.node.resize(g.nodes);
    for (std::uint32_t n = 0; n < g.nodes; ++n) whole.node[n] = n;
    while (!open_.empty()) {
      auto piece = std::move(open_.back());
      open_.pop_back();
      if (piece.places == 1)
        for (auto const n : piece.node) p_.of[n] = piece.first_place;
      else
        cut_piece(std::move(piece));
    }
    std::fill(p_.weight.begin(), p_.weight.end(), 0);
    for (std::uint32_t n = 0; n < g.nodes; ++n) p_.weight[p_.of[n]] += g.weight(n);
  }

 private:
  struct graph {
    level_offsets offsets;
    std::vector<std::uint32_t> targets;
    std::vector<std::int64_t> node_weight, edge_weight;
  };
  struct part_of_graph {
    graph arrays;  // of the view; the whole graph has none
    weighted_view view;
    std::vector<std::uint32_t> node;  // ids in the whole graph
    std::uint32_t first_place, places;
    std::size_t levels;  // levels of groups within it
  };

  /// Returns the limits of the groups. Each level uses its share of the slack that is left.
  std::vector<std::int64_t> limits_of(part_of_graph const& piece, std::uint32_t groups) const {
    auto const each = piece.places / groups;
    double total = 0, room = 0;
    for (std::uint32_t n = 0; n < piece.view.nodes; ++n) total += static_cast<double>(piece.view.weight(n));
    std::vector<double> most(groups, 0);
    for (std::uint32_t i = 0; i < piece.places; ++i) {
      auto const limit = static_cast<double>(p_.limit[piece.first_place + i]);
      most[i / each] += limit;
      room += limit;
    }
    auto const slack = total > 0 ? (std::max)(0.0, room / total - 1) : 0.0;
    auto const levels = static_cast<double>(piece.levels);
    auto const kept = 1 + slack * ((levels - 1) / levels);  // for the levels below
    std::vector<std::int64_t> limit;
    for (auto const m : most) {
      auto const x = (std::min)(m / kept, total) + 0.5;
      limit.push_back(x < 0x1p62 ? static_cast<std::int64_t>(x) : std::int64_t{1} << 62);
    }
    return limit;
  }

  void cut_piece(part_of_graph piece) {
    while (sizes_[piece.levels - 1] == 1) --piece.levels;
    auto const groups = sizes_[piece.levels - 1], each = piece.places / groups;
    std::vector<std::uint32_t> fixed;
    if (!fixed_.empty())
      for (auto const n : piece.node)
        fixed.push_back(fixed_[n] == no_block ? no_block : (fixed_[n] - piece.first_place) / each);
    partitioned_level parts;
    if (!piece.node.empty()) {
      parts = run_multilevel(piece.view, limits_of(piece, groups), fixed, options_, team_);
      finish_parts(piece.view, parts, fixed);
    }
    for (auto group = groups; group-- > 0;) {
      std::vector<std::uint32_t> nodes;
      for (std::uint32_t n = 0; n < parts.of.size(); ++n)
        if (parts.of[n] == group) nodes.push_back(n);
      open_.push_back(induced(piece, nodes, piece.first_place + group * each, each));
    }
  }

  part_of_graph induced(part_of_graph const& from, std::vector<std::uint32_t> const& nodes,
                        std::uint32_t first_place, std::uint32_t places) {
    part_of_graph to{{}, {}, {}, first_place, places, from.levels - 1};
    auto& [offsets, targets, node_weight, edge_weight] = to.arrays;
    number_.assign(from.node.size(), no_block);
    std::uint64_t most = 0;
    for (std::uint32_t i = 0; i < nodes.size(); ++i) {
      number_[nodes[i]] = i;
      most += from.view.degree(nodes[i]);
    }
    offsets = level_offsets(nodes.size() + 1, width_for_edges(most));
    for (auto const n : nodes) {
      offsets.set(to.node.size(), targets.size());
      to.node.push_back(from.node[n]);
      node_weight.push_back(from.view.weight(n));
      for (auto e = from.view.offsets[n], stop = from.view.offsets[n + 1]; e < stop; ++e)
        if (auto const other = number_[from.view.targets[e]]; other != no_block) {
          targets.push_back(other);
          edge_weight.push_back(from.view.edge_weight(e));
        }
    }
    offsets.set(nodes.size(), targets.size());
    to.view = {static_cast<std::uint32_t>(nodes.size()), offsets.view(), targets.data(), node_weight.data(),
               edge_weight.data()};
    return to;
  }

  std::vector<std::uint32_t> sizes_;
  partitioned_level& p_;
  std::vector<std::uint32_t> const& fixed_;
  kway_options const& options_;
  thread_team const& team_;
  std::vector<part_of_graph> open_;
  std::vector<std::uint32_t> number_;
};

/// Maps the nodes of the task to places: by cutting the graph along the groups of the machine, and by placing
/// the parts of a k-way partition. The cheaper mapping is returned.
inline partitioned_level mapped_parts(weighted_view const& g, kway_problem& task, machine const& m) {
  thread_team const team(task.options.threads);
  distance_lookup const distance(m);
  auto const refine = [&](partitioned_level& p) {
    finish_parts(g, p, task.fixed);
    mapping_refinement refinement(g, p, task.fixed, distance);
    refinement.swap_places();
    if (refinement.move_nodes() > 0) {
      refinement.swap_places();
      refinement.move_nodes();
    }
    return std::pair(excess_weight(p), refinement.cost());
  };
  auto best = run_multilevel(g, task.limit, task.fixed, task.options, team);
  bool const is_equal = std::ranges::all_of(task.limit, [&](auto l) { return l == task.limit[0]; });
  if (task.fixed.empty() && is_equal && m.places() <= 4096) {
    // recursive bisection gives adjacent parts similar numbers, so these may be good places already
    auto as_numbered = best;
    auto const swapped = [&](partitioned_level& p) {
      mapping_refinement refinement(g, p, task.fixed, distance);
      refinement.swap_places();
      return refinement.cost();
    };
    mapping_refinement(g, best, task.fixed, distance).place_parts();
    if (swapped(as_numbered) < swapped(best)) best = std::move(as_numbered);
  }
  auto const cost = refine(best);
  if (m.sizes().size() > 1) {
    partitioned_level other{std::vector<std::uint32_t>(g.nodes), std::vector<std::int64_t>(task.limit.size()),
                            task.limit};
    multisection(m, other, task.fixed, task.options, team).cut(g);
    if (refine(other) < cost) best = std::move(other);
  }
  if (task.options.connected) connected_parts(g, best, task.fixed).repair();
  return best;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Partitions an undirected graph into as many parts as a machine has places, so that heavy edges lead to
/// near places. Part i is at place i. It minimizes the sum of edge weights times distances.
///
/// Limits of weights, fixed nodes and determinism are those of `partition_kway`; `share` and `fixed` are of
/// places. Schulz, Träff, "Better process mapping and sparse quadratic assignment", SEA 2017; Faraj and
/// others, "High-quality hierarchical process mapping", SEA 2020.
///
/// \param g        the graph in CSR form; each edge appears in the rows of both of its ends
/// \param m        the places and their distances
/// \param options  as of `partition_kway`
/// \throws adjacency_error, kway_option_error, kway_size_error as `partition_kway` does; kway_size_error also
///   if costs may exceed 2^62.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
mapped_partition<NodeWeight, EdgeWeight> map_kway(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                                  machine const& m, kway_options const& options = {}) {
  detail::check_options(options, g.nodes(), m.places());
  detail::refuse_further_weights(options);
  auto const loops = detail::check_arrays(g, detail::thread_team(options.threads));
  auto flat = detail::make_flat(g, loops);
  auto const most = (std::int64_t{1} << 62) / (std::max)(m.diameter(), std::int64_t{1});
  auto const total = flat.weighted ? flat.edge_total : static_cast<std::int64_t>(flat.directed_edges());
  if (total > most && m.places() > 1 && std::integral<EdgeWeight>)
    throw detail::kway_size_error("mapping: edges weigh " + std::to_string(total / 2) +
                                  ", and distances are up to " + std::to_string(m.diameter()) +
                                  ": their product exceeds 2^62; scale one of them down");
  for (auto left = total; left > most; left /= 2)  // weights that were rounded to integers before
    for (std::size_t e = 0; e < flat.edge_weight.size(); ++e) flat.edge_weight[e] /= 2;
  detail::kway_problem task{flat, {}, {}, {}, options};
  task.limit =
      detail::weight_limits(flat, detail::fair_weights(flat.node_total, m.places(), options), options);
  for (auto const part : options.fixed)
    task.fixed.push_back(part == no_part ? detail::no_block : index(part));
  partition p{.of = std::vector<part_id>(g.nodes(), part_id{0}), .parts = m.places()};
  bool within = true;
  if (m.places() > 1 && flat.nodes > 0) {
    detail::weighted_view const view{flat.nodes, flat.offsets, flat.targets, flat.node_weight.data(),
                                     flat.edge_weight.data()};
    auto const parts = detail::mapped_parts(view, task, m);
    for (std::uint32_t n = 0; n < flat.nodes; ++n) p.of[n] = part_id{parts.of[n]};
    within = detail::excess_weight(parts) == 0;
  }
  mapped_partition<NodeWeight, EdgeWeight> result;
  static_cast<kway_partition<NodeWeight, EdgeWeight>&>(result) =
      detail::weighed_parts(g, std::move(p), options);
  result.within_limits = within;
  result.cost = communication_cost(g, result, m);
  return result;
}

/// Maps a user's own undirected graph; nodes are numbered by their position in `nodes()`.
/// \throws neighbour_error if the graph is not undirected, and the errors of the overload for arrays.
template <std::unsigned_integral Index = std::uint32_t, undirected_graph Graph>
auto map_kway(Graph const& g, machine const& m, kway_options const& options = {}) {
  auto const s = neighbours_of<Index>(g);
  return map_kway(s.view(), m, options);
}

}  // namespace cleave
