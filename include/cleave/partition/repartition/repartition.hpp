// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/graph/adjacency_fault.hpp"
#include "cleave/graph/adjacency_weights.hpp"
#include "cleave/partition/kway/kway.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/repartition/homes.hpp"
#include "cleave/partition/repartition/repartition_fault.hpp"
#include "cleave/partition/repartition/repartition_options.hpp"

namespace cleave {

/// How a repartition came about.
enum class repartition_way : std::uint8_t {
  kept,        ///< as it was
  refined,     ///< nodes moved away from where they were
  remapped,    ///< made anew, parts given the numbers for which least moves, then refined
  with_homes,  ///< made anew, where each node is drawn to where it was
};

/// New parts, what they reach and what they cost to get to.
template <weight_number NodeWeight = std::int64_t, weight_number EdgeWeight = NodeWeight>
struct repartitioned : kway_partition<NodeWeight, EdgeWeight> {
  std::uint64_t moved_bytes = 0;
  std::size_t moved_nodes = 0;
  double objective = 0;  ///< the cut and the cost of what moves
  repartition_way way = repartition_way::kept;
};

}  // namespace cleave

namespace cleave::detail {

/// Tries ways to new parts and keeps the best; `repartition` is its one use.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
class repartitioner {
 public:
  using result = repartitioned<NodeWeight, EdgeWeight>;

  repartitioner(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g, partition const& old,
                std::uint32_t k, repartition_options const& o)
      : g_(g), k_(k), options_(o.kway), home_{old.of, o.bytes, o.cost_per_byte} {
    for (auto& part : home_.of)
      if (index(part) >= old.parts) part = no_part;
    if (home_.bytes.empty()) home_.bytes.assign(g.nodes(), 1);
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
    auto const homes = add_homes(g_, k_, home_, options_.fixed);
    auto tied = options_;
    tied.fixed = homes.fixed;
    auto const refined = [&](partition const& from) {
      partition start = from;
      start.parts = k_;
      for (std::uint32_t part = 0; part < k_; ++part) start.of.push_back(part_id{part});
      return without_homes(refine_kway(homes.graph.view(), start, tied));
    };
    partition start{home_.of, k_};
    settle_homeless(start);
    consider(refined(start), repartition_way::refined);

    auto const fresh = partition_kway(g_, k_, options_);
    auto const remapped = renumbered_to_stay(fresh, home_, [&](auto a, auto b) { return alike(a, b); });
    consider(remapped, repartition_way::remapped);
    consider(refined(remapped), repartition_way::remapped);
    consider(without_homes(partition_kway(homes.graph.view(), k_, tied)), repartition_way::with_homes);
    consider(refined(*best_), repartition_way{best_->way});
    return std::move(*best_);
  }

 private:
  /// How far parts are from what they must be: weight above limits, then parts without nodes.
  struct shortfall {
    std::int64_t excess;
    std::size_t empty;

    auto operator<=>(shortfall const&) const = default;
  };

  part_id fixed_part(std::size_t n) const { return options_.fixed.empty() ? no_part : options_.fixed[n]; }

  void keep() {
    for (std::size_t n = 0; n < g_.nodes(); ++n) {
      if (index(home_.of[n]) >= k_) return;
      if (auto const part = fixed_part(n); part != no_part && part != home_.of[n]) return;
    }
    consider(partition{home_.of, k_}, repartition_way::kept);
  }

  partition without_homes(partition p) const {
    p.of.resize(g_.nodes());
    return p;
  }

  /// A part for nodes that have none: the fixed one, or the lightest, the heaviest node first.
  void settle_homeless(partition& p) const {
    std::vector<std::int64_t> weight(k_, 0);
    std::vector<std::pair<std::int64_t, std::size_t>> homeless;
    for (std::size_t n = 0; n < p.of.size(); ++n) {
      if (auto const part = fixed_part(n); part != no_part) p.of[n] = part;
      if (index(p.of[n]) < k_)
        weight[index(p.of[n])] += weight_[n];
      else
        homeless.emplace_back(-weight_[n], n);
    }
    std::sort(homeless.begin(), homeless.end());
    std::vector<std::pair<std::int64_t, std::uint32_t>> room;
    for (std::uint32_t part = 0; part < k_; ++part) room.emplace_back(limit_[part] - weight[part], ~part);
    std::make_heap(room.begin(), room.end());
    for (auto const& [minus, n] : homeless) {
      std::pop_heap(room.begin(), room.end());
      p.of[n] = part_id{~room.back().second};
      room.back().first += minus;
      std::push_heap(room.begin(), room.end());
    }
  }

  /// Whether nothing tells two parts apart but their numbers.
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
      if (home_.has_moved(n, p.of[n])) {
        r.moved_bytes += home_.bytes[n];
        ++r.moved_nodes;
      }
    r.objective = static_cast<double>(r.cut) + home_.cost_per_byte * static_cast<double>(r.moved_bytes);
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
  home_table home_;
  std::vector<std::int64_t> limit_, weight_;
  std::vector<char> has_fixed_;  // of a part: whether a node is fixed to it
  std::optional<result> best_;
  shortfall best_short_{};
};

}  // namespace cleave::detail

namespace cleave {

/// New parts for a graph whose costs, edges or number of parts have changed: the cut and the cost of the
/// bytes that move from the part where they are are small together, no part weighs more than it may (as
/// `partition_kway` says). Never worse than the old parts if they are still within their limits, nor than a
/// new partition whose parts have the numbers for which least moves. Nodes that `old` gives no part move for
/// nothing. Time of some four k-way partitions.
///
/// Kept, refined, remapped, made anew with homes: the best of them. Schloegel, Karypis, Kumar, JPDC 47, 1997,
/// and SC 2000 (scratch-remap against diffusion).
/// \throws repartition_error, and what `partition_kway` throws.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
repartitioned<NodeWeight, EdgeWeight> repartition(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                                  partition const& old, std::uint32_t k,
                                                  repartition_options const& options = {}) {
  detail::check_repartition(g.nodes(), old, k, options);
  detail::check_options(options.kway, g.nodes(), k);
  check_adjacency(g);
  return detail::repartitioner<Index, NodeWeight, EdgeWeight, Offset>(g, old, k, options).best();
}

}  // namespace cleave
