// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/kway/kway.hpp"
#include "cleave/partition/kway/options.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::inline v0_2::detail {

/// Assigns each row of a square table its own column so that the sum of the chosen entries is maximal.
/// `profit[row * n + column]` is at most 2^61 / n in magnitude. O(n^3), without recursion. Kuhn, Naval Res.
/// Logist. Q. 2, 1955; by shortest augmenting paths, Jonker, Volgenant, Computing 38, 1987.
inline std::vector<std::uint32_t> heaviest_assignment(std::span<std::int64_t const> profit, std::uint32_t n) {
  expects(profit.size() == std::size_t{n} * n, "heaviest_assignment: profit must be a square table");
  auto const no_column = n;  // the virtual column from which each path starts
  std::vector<std::uint32_t> row_of(n + std::size_t{1}, no_column);
  std::vector<std::int64_t> row_price(n, 0), column_price(n + std::size_t{1}, 0);
  auto const unreachable = (std::numeric_limits<std::int64_t>::max)();
  for (std::uint32_t row = 0; row < n; ++row) {
    row_of[no_column] = row;
    std::vector<std::int64_t> distance(n, unreachable);
    std::vector<std::uint32_t> before(n, no_column);
    std::vector<char> done(n + std::size_t{1}, 0);
    auto at = no_column;
    do {
      done[at] = 1;
      auto const from = row_of[at];
      auto nearest = no_column;
      std::int64_t step = unreachable;
      for (std::uint32_t column = 0; column < n; ++column) {
        if (done[column]) continue;
        auto const reduced = -profit[from * std::size_t{n} + column] - row_price[from] - column_price[column];
        if (reduced < distance[column]) distance[column] = reduced, before[column] = at;
        if (distance[column] < step) step = distance[column], nearest = column;
      }
      for (std::uint32_t column = 0; column < n; ++column)
        if (done[column])
          row_price[row_of[column]] += step, column_price[column] -= step;
        else
          distance[column] -= step;
      row_price[row] += step;  // of the path's first row
      at = nearest;
    } while (row_of[at] != no_column);
    for (; at != no_column; at = before[at]) row_of[at] = row_of[before[at]];
  }
  std::vector<std::uint32_t> column_of(n);
  for (std::uint32_t column = 0; column < n; ++column) column_of[row_of[column]] = column;
  return column_of;
}

/// The current parts of nodes, and the cost of moving them.
struct previous_assignment {
  std::vector<part_id> of;           ///< of each node; `no_part` for a new node
  std::vector<std::uint64_t> bytes;  ///< of each node: bytes that move with it
  double cost_per_byte;              ///< in the unit of edge weights

  double cost(std::size_t node) const { return cost_per_byte * static_cast<double>(bytes[node]); }
  bool has_moved(std::size_t node, part_id to) const { return of[node] != no_part && of[node] != to; }
};

/// A graph with one extra node of weight 0 per part. An edge ties each node to the extra node of its previous
/// part and weighs as much as moving the node costs. If the extra nodes are fixed to their parts, the cut is
/// the original cut plus the cost of all moves. Catalyurek et al., IPDPS 2007 (repartitioning with fixed
/// vertices).
template <weight_number NodeWeight>
struct migration_graph {
  std::vector<std::uint64_t> offsets{0};
  std::vector<std::uint32_t> targets;
  std::vector<NodeWeight> node_weight;
  std::vector<std::int64_t> edge_weight;
  std::vector<part_id> fixed;

  adjacency_view<std::uint32_t, NodeWeight, std::int64_t, std::uint64_t> view() const {
    return {offsets, targets, node_weight, edge_weight};
  }
};

/// Returns the factor that makes edge weights and costs integers: 1 if all are integers, 1024 for fractional
/// costs. For floating-point edge weights, the factor keeps their sum below 2^40.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
double integer_scale(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                     previous_assignment const& previous) {
  if constexpr (std::floating_point<EdgeWeight>) {
    double total = 0;
    for (std::size_t arc = 0; arc < g.directed_edges(); ++arc)
      total += static_cast<double>(g.weight_of_edge(arc));
    for (std::size_t n = 0; n < g.nodes(); ++n) total += previous.cost(n);
    return total > 0 ? power_of_two((std::min)(39 - binary_exponent(total), 1022)) : 1;
  } else {
    auto const whole = [](double cost) {
      return cost < 0x1p53 && cost == static_cast<double>(static_cast<std::int64_t>(cost));
    };
    bool all = true;
    for (std::size_t n = 0; n < g.nodes(); ++n) all &= whole(previous.cost(n));
    return all ? 1 : 1024;
  }
}

/// Adds the extra nodes of `k` parts to `g`. `fixed` are the fixed nodes of `g` itself. O(n + m + k).
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
migration_graph<NodeWeight> add_migration_edges(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                                std::uint32_t k, previous_assignment const& previous,
                                                std::span<part_id const> fixed) {
  migration_graph<NodeWeight> a;
  auto const scale = integer_scale(g, previous);
  auto const scaled = [&](double cost) { return rounded((std::min)(cost * scale, 0x1p61)); };
  auto const n = g.nodes();
  auto const anchor = [&](part_id part) { return static_cast<std::uint32_t>(n + index(part)); };
  std::vector<std::uint32_t> residents(k, 0);
  auto const close = [&] { a.offsets.push_back(a.targets.size()); };
  auto const tie_of = [&](std::size_t node) -> std::int64_t {
    auto const part = previous.of[node];
    return part == no_part || index(part) >= k ? 0 : scaled(previous.cost(node));
  };
  for (std::size_t node = 0; node < n; ++node) {
    a.node_weight.push_back(g.weight(node));
    auto const last = static_cast<std::size_t>(g.offsets[node + 1]);
    for (auto arc = static_cast<std::size_t>(g.offsets[node]); arc < last; ++arc) {
      a.targets.push_back(static_cast<std::uint32_t>(g.targets[arc]));
      a.edge_weight.push_back(scaled(static_cast<double>(g.weight_of_edge(arc))));
    }
    if (auto const tie = tie_of(node); tie > 0) {
      a.targets.push_back(anchor(previous.of[node]));
      a.edge_weight.push_back(tie);
      ++residents[index(previous.of[node])];
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
      auto& at = next[index(previous.of[node])];
      a.targets[at] = static_cast<std::uint32_t>(node);
      a.edge_weight[at++] = tie;
    }
  a.fixed.assign(fixed.begin(), fixed.end());
  a.fixed.resize(n, no_part);
  for (std::uint32_t part = 0; part < k; ++part) a.fixed.push_back(part_id{part});
  return a;
}

/// Renumbers the parts so that the fewest bytes move. Parts a and b exchange numbers only if `alike(a, b)`.
/// O(n + k^3); with more than 1,024 parts the numbers stay.
template <class Alike>
partition renumbered_to_minimize_migration(partition p, previous_assignment const& previous, Alike alike) {
  auto const k = p.parts;
  if (k > 1024) return p;
  std::vector<double> staying(std::size_t{k} * k, 0);
  double total = 0;
  for (std::size_t n = 0; n < p.of.size(); ++n) {
    auto const old = previous.of[n];
    if (old == no_part || index(old) >= k) continue;
    staying[std::size_t{index(p.of[n])} * k + index(old)] += static_cast<double>(previous.bytes[n]);
    total += static_cast<double>(previous.bytes[n]);
  }
  auto const scale = total >= 0x1p40 ? 0x1p40 / total : 1;  // exact if all bytes sum to less than a terabyte
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

namespace cleave::inline v0_2 {

/// Options of `repartition`.
struct repartition_options {
  double cost_per_byte = 1;            ///< cost of moving one byte, in the unit of the edge weights
  std::vector<std::uint64_t> bytes{};  ///< of each node: bytes that move with it; empty: one byte each
  std::vector<char> stays{};           ///< of each node: true if it must not move; empty: all may move
  kway_options kway{};                 ///< balance, preset, fixed nodes, seed, threads
};
}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The invalid argument of `repartition`, apart from the graph and `kway`. Below, `where` is
/// `repartition_fault::where`.
enum class broken_repartition : std::uint8_t {
  parts,           ///< more than the number of nodes plus 65,536: tables would be mostly empty
  cost,            ///< `cost_per_byte` is negative or not finite
  old_length,      ///< the old partition has `where` nodes
  bytes_length,    ///< `bytes` has `where` entries
  bytes_overflow,  ///< the bytes add up to 2^63 or more at node `where`
  stays_length,    ///< `stays` has `where` entries
  stays_nowhere,   ///< node `where` must stay, but its part no longer exists
  stays_fixed,     ///< node `where` must stay, but is fixed to another part
};

/// An invalid argument of `repartition`, with the place of the error.
struct repartition_fault {
  broken_repartition what;
  std::size_t where = 0;  ///< a node, or a number of parts or entries

  bool operator==(repartition_fault const&) const = default;
};

using repartition_error = witness_error<repartition_fault>;

/// Returns the first invalid argument for a graph of `nodes` nodes, if any.
inline std::optional<repartition_fault> find_repartition_fault(std::size_t nodes, partition const& old,
                                                               std::uint32_t k,
                                                               repartition_options const& o) {
  using enum broken_repartition;
  if (k > nodes + 65'536) return repartition_fault{parts, k};
  if (!(o.cost_per_byte >= 0) || !is_finite(o.cost_per_byte)) return repartition_fault{cost};
  if (old.of.size() != nodes) return repartition_fault{old_length, old.of.size()};
  if (!o.bytes.empty() && o.bytes.size() != nodes) return repartition_fault{bytes_length, o.bytes.size()};
  std::uint64_t sum = 0;
  for (std::size_t n = 0; n < o.bytes.size(); ++n) {
    if (o.bytes[n] >= (std::uint64_t{1} << 63) - sum) return repartition_fault{bytes_overflow, n};
    sum += o.bytes[n];
  }
  if (!o.stays.empty() && o.stays.size() != nodes) return repartition_fault{stays_length, o.stays.size()};
  for (std::size_t n = 0; n < o.stays.size(); ++n) {
    if (!o.stays[n]) continue;
    if (index(old.of[n]) >= k) return repartition_fault{stays_nowhere, n};
    if (n < o.kway.fixed.size() && o.kway.fixed[n] != no_part && o.kway.fixed[n] != old.of[n])
      return repartition_fault{stays_fixed, n};
  }
  return std::nullopt;
}

/// Checks the arguments of `repartition`. \throws repartition_error for the first invalid one.
inline void check_repartition(std::size_t nodes, partition const& old, std::uint32_t k,
                              repartition_options const& o) {
  auto const fault = find_repartition_fault(nodes, old, k, o);
  if (!fault) return;
  auto const where = std::to_string(fault->where), all = std::to_string(nodes);
  auto const sentence = [&]() -> std::string {
    switch (fault->what) {
      case broken_repartition::parts:
        return where + " parts are requested for a graph of " + all +
               " nodes: request at most the number of nodes + 65,536";
      case broken_repartition::cost:
        return "cost_per_byte is negative or not finite: expected a finite number of at least 0";
      case broken_repartition::old_length:
        return "the old partition has " + where + " entries, but the number of nodes is " + all;
      case broken_repartition::bytes_length:
        return "`bytes` has " + where + " entries for a graph of " + all +
               " nodes: give one entry per node, or none";
      case broken_repartition::bytes_overflow:
        return "the sum of `bytes` reaches 2^63 at node #" + where;
      case broken_repartition::stays_length:
        return "`stays` has " + where + " entries for a graph of " + all +
               " nodes: give one entry per node, or none";
      case broken_repartition::stays_nowhere:
        return "node #" + where + " must stay, but its old part is not one of the " + std::to_string(k) +
               " parts";
      case broken_repartition::stays_fixed:
        return "node #" + where + " must stay, but is fixed to another part";
    }
    return "";
  };
  throw repartition_error("repartition: " + sentence(), *fault);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The method that produced a repartition.
enum class repartition_way : std::uint8_t {
  kept,                  ///< the old partition, unchanged
  refined,               ///< the old partition after refinement
  remapped,              ///< a new partition, renumbered so that least moves, and possibly refined
  with_migration_edges,  ///< a new partition of the graph with migration edges, which tie nodes to their old
                         ///< parts
};

/// A new partition, with its quality and its migration cost.
template <weight_number NodeWeight = std::int64_t, weight_number EdgeWeight = NodeWeight>
struct repartitioned : kway_partition<NodeWeight, EdgeWeight> {
  /// Bytes of the nodes that had a part and changed it.
  std::uint64_t moved_bytes = 0;
  std::size_t moved_nodes = 0;
  double objective = 0;  ///< the cut plus the cost of the moved bytes
  repartition_way way = repartition_way::kept;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Tries several ways to a new partition and keeps the best. Helper of `repartition`.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
class repartitioner {
 public:
  using result = repartitioned<NodeWeight, EdgeWeight>;

  repartitioner(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g, partition const& old,
                std::uint32_t k, repartition_options const& o)
      : g_(g), k_(k), options_(o.kway), previous_{old.of, o.bytes, o.cost_per_byte} {
    for (auto& part : previous_.of)
      if (index(part) >= old.parts) part = no_part;
    if (previous_.bytes.empty()) previous_.bytes.assign(g.nodes(), 1);
    for (std::size_t n = 0; n < o.stays.size(); ++n)
      if (o.stays[n]) {
        options_.fixed.resize(g.nodes(), no_part);
        options_.fixed[n] = old.of[n];
      }
    auto const flat = make_flat(g);
    limit_ = weight_limits(flat, fair_weights(flat.node_total, k, options_), options_);
    for (std::size_t n = 0; n < g.nodes(); ++n) weight_.push_back(in_unit(g.weight(n), flat.node_unit));
    has_fixed_.assign(k, 0);
    for (auto const part : options_.fixed)
      if (part != no_part) has_fixed_[index(part)] = 1;
  }

  result best() {
    keep();
    auto const migration = add_migration_edges(g_, k_, previous_, options_.fixed);
    auto tied = options_;
    tied.fixed = migration.fixed;
    auto const refined = [&](partition const& from) {
      partition start = from;
      start.parts = k_;
      for (std::uint32_t part = 0; part < k_; ++part) start.of.push_back(part_id{part});
      return without_part_nodes(refine_kway(migration.view(), start, tied));
    };
    partition start{previous_.of, k_};
    assign_unplaced(start);
    consider(refined(start), repartition_way::refined);

    auto const fresh = partition_kway(g_, k_, options_);
    auto const remapped =
        renumbered_to_minimize_migration(fresh, previous_, [&](auto a, auto b) { return alike(a, b); });
    consider(remapped, repartition_way::remapped);
    consider(refined(remapped), repartition_way::remapped);
    consider(without_part_nodes(partition_kway(migration.view(), k_, tied)),
             repartition_way::with_migration_edges);
    consider(refined(*best_), repartition_way{best_->way});
    return std::move(*best_);
  }

 private:
  /// Violations of a partition: first the weight above limits, then the number of empty parts.
  struct shortfall {
    std::int64_t excess;
    std::size_t empty;

    auto operator<=>(shortfall const&) const = default;
  };

  part_id fixed_part(std::size_t n) const { return options_.fixed.empty() ? no_part : options_.fixed[n]; }

  void keep() {
    for (std::size_t n = 0; n < g_.nodes(); ++n) {
      if (index(previous_.of[n]) >= k_) return;
      if (auto const part = fixed_part(n); part != no_part && part != previous_.of[n]) return;
    }
    consider(partition{previous_.of, k_}, repartition_way::kept);
  }

  partition without_part_nodes(partition p) const {
    p.of.resize(g_.nodes());
    return p;
  }

  /// Assigns unplaced nodes: fixed nodes to their parts, the others by decreasing weight to the part with the
  /// most room.
  void assign_unplaced(partition& p) const {
    std::vector<std::int64_t> weight(k_, 0);
    std::vector<std::pair<std::int64_t, std::size_t>> unplaced;
    for (std::size_t n = 0; n < p.of.size(); ++n) {
      if (auto const part = fixed_part(n); part != no_part) p.of[n] = part;
      if (index(p.of[n]) < k_)
        weight[index(p.of[n])] += weight_[n];
      else
        unplaced.emplace_back(-weight_[n], n);
    }
    std::sort(unplaced.begin(), unplaced.end());
    std::vector<std::pair<std::int64_t, std::uint32_t>> room;
    for (std::uint32_t part = 0; part < k_; ++part) room.emplace_back(limit_[part] - weight[part], ~part);
    std::make_heap(room.begin(), room.end());
    for (auto const& [minus, n] : unplaced) {
      std::pop_heap(room.begin(), room.end());
      p.of[n] = part_id{~room.back().second};
      room.back().first += minus;
      std::push_heap(room.begin(), room.end());
    }
  }

  /// Returns true if two parts differ only in their numbers.
  bool alike(std::uint32_t a, std::uint32_t b) const {
    if (!options_.share.same() && options_.share[a] != options_.share[b]) return false;
    return limit_[a] == limit_[b] && !has_fixed_[a] && !has_fixed_[b];
  }

  shortfall shortfall_of(partition const& p) const {
    std::vector<std::int64_t> weight(k_, 0);
    std::vector<char> used(k_, 0);
    for (std::size_t n = 0; n < p.of.size(); ++n) {
      weight[index(p.of[n])] += weight_[n];
      used[index(p.of[n])] = 1;
    }
    shortfall s{0, 0};
    for (std::uint32_t part = 0; part < k_; ++part) {
      s.excess += std::max<std::int64_t>(0, weight[part] - limit_[part]);
      s.empty += !used[part];
    }
    return s;
  }

  void consider(partition const& p, repartition_way way) {
    result r;
    static_cast<kway_partition<NodeWeight, EdgeWeight>&>(r) =
        weighed_parts(g_, partition{p.of, k_}, options_);
    r.way = way;
    for (std::size_t n = 0; n < p.of.size(); ++n)
      if (previous_.has_moved(n, p.of[n])) {
        r.moved_bytes += previous_.bytes[n];
        ++r.moved_nodes;
      }
    r.objective = static_cast<double>(r.cut) + previous_.cost_per_byte * static_cast<double>(r.moved_bytes);
    auto const s = shortfall_of(p);
    r.within_limits = s.excess == 0;
    auto const moves = std::pair(r.moved_bytes, r.moved_nodes);
    if (best_) {
      auto const best_moves = std::pair(best_->moved_bytes, best_->moved_nodes);
      if (best_short_ < s || (best_short_ == s && best_->objective < r.objective)) return;
      if (best_short_ == s && best_->objective == r.objective && best_moves <= moves) return;
    }
    best_short_ = s;
    best_ = std::move(r);
  }

  adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g_;
  std::uint32_t k_;
  kway_options options_;
  previous_assignment previous_;
  std::vector<std::int64_t> limit_, weight_;
  std::vector<char> has_fixed_;  // of each part: true if a node is fixed to it
  std::optional<result> best_;
  shortfall best_short_{};
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Repartitions a graph whose weights, edges or number of parts have changed.
///
/// The objective is the cut plus the cost of the bytes that leave their old part. Weight limits are those of
/// `partition_kway`. The result is never worse than the old partition, if that is still within its limits.
/// The result is also never worse than a new partition renumbered so that least moves. Nodes without a part
/// in `old` move at no cost.
///
/// The result is the best of four candidates: the old partition, the old partition refined, a new partition
/// renumbered and refined, and a new partition of the graph with migration edges. The best one is refined
/// once more. Schloegel, Karypis, Kumar,
/// JPDC 47, 1997, and SC 2000 (scratch-remap against diffusion). The search takes about as long as four k-way
/// partitions.
///
/// \param g        the graph in CSR form
/// \param old      the old part of each node, or `no_part`
/// \param k        the new number of parts
/// \param options  migration cost, nodes that stay, and the options of `partition_kway`
/// \throws repartition_error if `old`, `k` or an option of the migration is invalid.
/// \throws adjacency_error, kway_option_error, kway_size_error as `partition_kway` does.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
repartitioned<NodeWeight, EdgeWeight> repartition(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                                  partition const& old, std::uint32_t k,
                                                  repartition_options const& options = {}) {
  detail::check_repartition(g.nodes(), old, k, options);
  detail::check_options(options.kway, g.nodes(), k);
  detail::refuse_further_weights(options.kway);
  check_adjacency(g);
  return detail::repartitioner<Index, NodeWeight, EdgeWeight, Offset>(g, old, k, options).best();
}

}  // namespace cleave
