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

namespace cleave::detail {

/// A bound and what it rests on.
struct proved_bound {
  std::int64_t bound = 0;
  bound_proof by = bound_proof::even_share;

  void raise(std::int64_t other, bound_proof how) {
    if (other > bound) bound = other, by = how;
  }
};

/// The best of the bounds that hold for any assignment of units to devices, with cycles between parts or
/// without.
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
  double const rounding = 1 - 0x1p-30;  // more than what the division loses
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

namespace cleave {

/// What no partition without edges that lead backward can be better than, and why.
struct certificate {
  double bound = 0;
  bound_proof by = bound_proof::even_share;

  /// How far above the best something can be at most, as a share of the bound.
  double gap(double reached) const {
    if (reached <= bound) return 0;
    return bound > 0 ? reached / bound - 1 : std::numeric_limits<double>::infinity();
  }
};

}  // namespace cleave

namespace cleave::detail {

/// The best of the bounds that need no search; of several backbones, as long as they do not meet `below`.
/// Up to a second, most of the time a tenth.
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
    spent =
        found.steps;  // the next has several times as many flows, and with too few of them it is of no use
  }
  return best;
}

}  // namespace cleave::detail

namespace cleave {

/// A bound for partitions of `g` into at most k parts as `balance` makes them; no search looks for more than
/// `reached`, a bottleneck that is known to be possible.
/// \throws error where weights, options or sums make no sense, naming the node.
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

template <std::unsigned_integral Index = std::uint32_t, weighted_graph Graph>
  requires sized_graph<Graph>
certificate certify(Graph const& g, std::uint32_t k, balance_options const& options = {},
                    double reached = std::numeric_limits<double>::infinity()) {
  return certify(snapshot_of<Index>(g), k, options, reached);
}

template <std::unsigned_integral Index = std::uint32_t, detail::uncosted_graph Graph>
detail::refused certify(Graph const&, std::uint32_t, balance_options const& = {}, double = 0) {
  detail::refuse_costs<Graph>();
}

}  // namespace cleave
