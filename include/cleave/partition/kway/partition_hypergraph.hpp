// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/fixed_point.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/graph/hypergraph.hpp"
#include "cleave/partition/kway/detail/hyper_level.hpp"
#include "cleave/partition/kway/detail/hyper_multilevel.hpp"
#include "cleave/partition/kway/detail/task.hpp"
#include "cleave/partition/kway/hypergraph_cut.hpp"
#include "cleave/partition/kway/hypergraph_options.hpp"
#include "cleave/partition/kway/options.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::inline v0_2 {

/// A partition of a hypergraph, with its cut and balance.
template <weight_number NodeWeight = std::int64_t, weight_number NetWeight = NodeWeight>
struct hypergraph_partition : partition {
  hypergraph_cut<weight_total<NetWeight>> cut{};         ///< what the nets cost, by each objective
  std::vector<weight_total<NodeWeight>> part_weights{};  ///< total node weight of each part
  double imbalance = 0;       ///< largest excess of a part over its share: 0.03 is 3 %
  bool within_limits = true;  ///< false if no partition within the weight limits was found
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

using hypergraph_error = witness_error<hypergraph_fault>;

/// Returns the options that both partitioners share.
inline kway_options shared_options(hypergraph_options const& o) {
  return {.preset = o.preset,
          .imbalance = o.imbalance,
          .share = o.share,
          .fixed = o.fixed,
          .seed = o.seed,
          .threads = o.threads,
          .observer = o.observer};
}

/// Returns the unit in which net weights become integers. The weights of all nets, each times its pins, sum
/// to less than 2^60, so that no objective overflows.
template <std::integral Index, weight_number NodeWeight, weight_number NetWeight, std::integral Offset>
fixed_point unit_of_nets(hypergraph_view<Index, NodeWeight, NetWeight, Offset> h) {
  if constexpr (std::floating_point<NetWeight>) {
    double total = 0;
    for (std::size_t e = 0; e < h.nets(); ++e)
      total += static_cast<double>(h.weight_of_net(e)) * static_cast<double>(h.pins_of(e).size());
    return fixed_point::for_total(total);
  } else {
    return {};
  }
}

/// Converts a user's hypergraph.
template <std::integral Index, weight_number NodeWeight, weight_number NetWeight, std::integral Offset>
hyper_level make_hyper_level(hypergraph_view<Index, NodeWeight, NetWeight, Offset> h,
                             std::vector<part_id> const& fixed) {
  auto const node_unit = exact_unit(h.node_weight);
  auto const net_unit = unit_of_nets(h);
  std::vector<std::int64_t> weight(h.nodes);
  for (std::size_t n = 0; n < h.nodes; ++n)
    weight[n] = h.node_weight.empty() ? 1 : in_unit(h.weight(n), node_unit);
  std::vector<std::uint32_t> bound;
  for (auto const part : fixed) bound.push_back(part == no_part ? no_block : index(part));
  hyper_builder builder(h.nodes);
  for (std::size_t e = 0; e < h.nets(); ++e) {
    for (auto const pin : h.pins_of(e)) builder.add_pin(static_cast<std::uint32_t>(pin));
    builder.end_net(h.net_weight.empty() ? 1 : in_unit(h.weight_of_net(e), net_unit));
  }
  return builder.level(std::move(weight), std::move(bound));
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Partitions a hypergraph into k parts with a small objective: λ - 1, or the weight of cut nets.
///
/// The limits of the parts are those of `partition_kway`. For a given seed, the result is the same with any
/// number of threads.
///
/// \param h        the hypergraph in CSR form
/// \param k        number of parts, from 1 to the number of nodes + 65,536
/// \param options  preset, objective, imbalance, shares, fixed nodes, seed, threads and observer
/// \returns        the part of each node, the cut and the part weights
/// \throws hypergraph_error if the arrays are not a valid hypergraph.
/// \throws kway_option_error if an option does not fit the hypergraph or `k`.
/// \throws kway_size_error if there are more than 400 million pins; the exact limit depends on the sizes of
/// nets.
template <std::integral Index, weight_number NodeWeight, weight_number NetWeight, std::integral Offset>
hypergraph_partition<NodeWeight, NetWeight> partition_hypergraph(
    hypergraph_view<Index, NodeWeight, NetWeight, Offset> h, std::uint32_t k,
    hypergraph_options const& options = {}) {
  auto const shared = detail::shared_options(options);
  detail::check_options(shared, h.nodes, k);
  if (auto const fault = find_hypergraph_fault(h))
    throw detail::hypergraph_error("hypergraph: " + describe(*fault), *fault);
  auto const level = detail::make_hyper_level(h, options.fixed);
  hypergraph_partition<NodeWeight, NetWeight> result;
  result.parts = k;
  result.of.assign(h.nodes, part_id{0});
  if (k > 1 && h.nodes > 0) {
    std::int64_t total = 0;
    for (auto const w : level.node_weight) total += w;
    auto const limit =
        detail::weight_limits(level.node_weight, h.nodes, detail::fair_weights(total, k, shared), shared);
    auto const parts = detail::hyper_parts(level, limit, shared, options.objective);
    for (std::size_t n = 0; n < h.nodes; ++n) result.of[n] = part_id{parts.of[n]};
    result.within_limits = detail::excess_weight(parts) == 0;
  }
  result.cut = measure_cut(h, result);
  result.part_weights.assign(k, 0);
  weight_total<NodeWeight> total = 0;
  for (std::size_t n = 0; n < h.nodes; ++n) {
    auto const w = static_cast<weight_total<NodeWeight>>(h.weight(n));
    result.part_weights[index(result.of[n])] += w;
    total += w;
  }
  auto const fair = detail::fair_weights(total, k, shared);
  for (std::uint32_t part = 0; part < k; ++part)
    if (fair[part] > 0)
      result.imbalance =
          (std::max)(result.imbalance,
                     static_cast<double>(result.part_weights[part]) / static_cast<double>(fair[part]) - 1);
  return result;
}

}  // namespace cleave
