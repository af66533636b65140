// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>

#include "cleave/core/error.hpp"
#include "cleave/graph/check_graph_concepts.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/exact/detail/exact_task.hpp"
#include "cleave/partition/exact/detail/ideal_search.hpp"
#include "cleave/partition/exact/dominator_chain.hpp"
#include "cleave/partition/exact/exact_options.hpp"
#include "cleave/partition/slices/balance.hpp"

namespace cleave::inline v0_2::detail {

/// A lower bound and its proof.
struct proved_bound {
  std::int64_t bound = 0;
  bound_proof by = bound_proof::even_share;

  void raise(std::int64_t other, bound_proof how) {
    if (other > bound) bound = other, by = how;
  }
};

/// Returns the best bound that holds for any assignment of units to devices, even with cycles between parts.
template <std::unsigned_integral Index>
proved_bound device_bound_of(exact_task<Index> const& t, device_states const& states, bool all_pay) {
  proved_bound b;
  if (all_pay) {
    b.raise(even_share(t.costs), bound_proof::even_share);
    b.raise(pigeonhole_share(t.costs), bound_proof::pigeonhole);
    b.raise(load_bound(t.costs), bound_proof::least_with);
    return b;
  }
  if (states.size() == 0) return b;
  auto const sum = std::accumulate(states.fastest.begin(), states.fastest.end(), std::int64_t{});
  double const rounding = 1 - 0x1p-30;  // more than the error of the division
  b.raise(static_cast<std::int64_t>(static_cast<double>(sum) / states.left.front().devices * rounding),
          bound_proof::even_share);
  unit_costs<Index> alike;
  alike.weight.push_back(states.fastest);
  std::uint32_t devices = 0;
  for (auto const& c : t.ideals.classes) devices += c.count;
  alike.speed_of.assign(devices, 0);
  b.raise(pigeonhole_share(alike), bound_proof::pigeonhole);
  return b;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A lower bound on the bottleneck of any partition without backward edges between parts, and its proof.
struct certificate {
  double bound = 0;
  bound_proof by = bound_proof::even_share;

  /// Returns an upper bound on how far `reached` is above the optimum, as a fraction of the bound.
  double gap(double reached) const {
    if (reached <= bound) return 0;
    return bound > 0 ? reached / bound - 1 : std::numeric_limits<double>::infinity();
  }
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the best bound that needs no search over ideals. It tries dominator chains of increasing size
/// until the bound reaches `below`. It takes up to a second, and usually a tenth.
template <std::unsigned_integral Index>
proved_bound quick_bound_of(exact_task<Index> const& t, device_states const& states, std::int64_t below) {
  bool const all_pay = std::ranges::all_of(t.ideals.classes, [](device_class const& c) { return c.pays; });
  auto best = device_bound_of(t, states, all_pay);
  std::size_t spent = 0;
  for (std::size_t const places : {16u, 64u, 256u}) {
    dominator_chain_options const options{.places = places};
    if (best.bound >= below || !all_pay || spent > options.most_steps / 2) break;
    auto const found = dominator_chain_bound<Index>(t.edges, t.costs, t.order, best.bound, below, options);
    best.raise(found.bound, bound_proof::dominator_chain);
    spent = found.steps;  // the next chain needs several times as many flows; with too few steps left it is
                          // useless
  }
  return best;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Computes a lower bound on the bottleneck of partitions of `g` into at most k parts under the constraints
/// of `balance`.
///
/// \param options  costs and constraints, as for `balance`
/// \param reached  a bottleneck that is known to be possible; the bound is not raised above it
/// \throws error if weights, options or their sums are invalid; the message names the node.
template <std::unsigned_integral Index>
certificate certify(basic_snapshot_arrays<Index> const& g, std::uint32_t k,
                    balance_options const& options = {},
                    double reached = std::numeric_limits<double>::infinity()) {
  if (auto const fault = detail::find_option_fault(options, g, k)) throw error("certify: " + *fault);
  auto const t = detail::exact_task_of(g, k, {.balance = options});
  if (t.units.size() == 0) return {};
  double const all = t.costs.scale.value(detail::unreachable_load);
  auto below = t.costs.scale.of((std::min)(reached, all));
  if (below < detail::unreachable_load && t.costs.scale.value(below) < reached) ++below;
  auto const found = detail::quick_bound_of(t, {}, below);
  return {(std::min)(reached, t.costs.scale.value(found.bound)), found.by};
}

/// Computes a lower bound for a user's own graph.
template <std::unsigned_integral Index = std::uint32_t, weighted_graph Graph>
  requires sized_graph<Graph>
certificate certify(Graph const& g, std::uint32_t k, balance_options const& options = {},
                    double reached = std::numeric_limits<double>::infinity()) {
  return certify(snapshot_of<Index>(g), k, options, reached);
}

/// Rejects graphs without weights or sizes with a readable compile-time message.
template <std::unsigned_integral Index = std::uint32_t, detail::uncosted_graph Graph>
detail::refused certify(Graph const&, std::uint32_t, balance_options const& = {}, double = 0) {
  detail::refuse_costs<Graph>();
}

}  // namespace cleave
