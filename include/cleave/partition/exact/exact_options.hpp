// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/real.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/slices/balance.hpp"

namespace cleave::inline v0_2 {

/// A device in addition to those of the k parts, for example a host CPU. It may stay unused. It pays for no
/// transfers and has no memory limit.
struct spare_device {
  std::vector<double> weight;  ///< of each node: its time on this device
};

/// The placement of loose nodes. Edges do not restrict these, because they and all nodes that share their
/// part are backward.
enum class unrestricted_nodes : std::uint8_t {
  anywhere,
  mirrored,  ///< in the order of the nodes whose gradients they compute, where edges show it
};

/// Constraints and search limits of `partition_exact`.
struct exact_balance_options {
  balance_options balance{};          ///< the costs and constraints, and the search for the initial partition
  std::vector<spare_device> spare{};  ///< allowed only if `devices` is `any`
  device_order devices = device_order::given;
  unrestricted_nodes loose = unrestricted_nodes::anywhere;
  std::size_t most_ideals = 4'000'000;      ///< ideals kept at a time, about 100 bytes each
  std::size_t most_steps = 10'000'000'000;  ///< about 100 million a second; gives the same result on every
                                            ///< machine
  double seconds = std::numeric_limits<double>::infinity();  ///< time limit of the search; the result may
                                                             ///< depend on the machine
};

/// The proof of a lower bound.
enum class bound_proof : std::uint8_t {
  even_share,       ///< the total time divided among the devices
  pigeonhole,       ///< some of the heaviest units must share a part
  least_with,       ///< the least load of a part that contains a certain unit: a minimum cut
  dominator_chain,  ///< the least loads of parts between any two places of a chain of units
  ideals,           ///< all boundaries that could be better were searched
  branches,         ///< all assignments that could be better were searched
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Describes the first option that is invalid for `g` and `k`, or returns nothing. O(V).
template <std::unsigned_integral Index>
std::optional<std::string> find_exact_option_fault(exact_balance_options const& o,
                                                   basic_snapshot_arrays<Index> const& g, std::uint32_t k) {
  if (auto fault = find_option_fault(o.balance, g, k)) return fault;
  if (o.balance.relayed) return "`relayed` is supported by balance only; leave it out";
  for (std::size_t s = 1; s < o.balance.link.size(); ++s)
    if (o.balance.link[s] != o.balance.link[0])
      return "the links of parts 0 and " + std::to_string(s) +
             " differ, but the search supports only one link for all parts: model a host that pays for no "
             "transfers as a spare device";
  if (!o.spare.empty() && o.devices == device_order::given)
    return "spare devices require a free device order: set devices to device_order::any";
  for (std::size_t n = 0; n < o.balance.fixed.size(); ++n) {
    if (o.balance.fixed[n] == no_part) continue;
    auto const who = "node " + g.label(n) + " is fixed to part " + std::to_string(index(o.balance.fixed[n]));
    if (o.devices == device_order::any)
      return who + ", which requires a given device order: set devices to device_order::given";
    if (o.loose == unrestricted_nodes::mirrored)
      return who + ", which conflicts with mirrored loose nodes: set loose to unrestricted_nodes::anywhere";
  }
  for (std::size_t i = 0; i < o.spare.size(); ++i) {
    auto const& weight = o.spare[i].weight;
    auto const which = "spare device " + std::to_string(i);
    if (weight.size() != g.nodes())
      return which + " has " + std::to_string(weight.size()) + " weights, but the graph has " +
             std::to_string(g.nodes()) + " nodes";
    for (std::size_t n = 0; n < weight.size(); ++n)
      if (!(weight[n] >= 0) || !is_finite(weight[n]))
        return "the weight of node " + g.label(n) + " on " + which + " is " + std::to_string(weight[n]) +
               ": expected a finite number of at least 0";
  }
  if (!(o.seconds >= 0))
    return "seconds is " + std::to_string(o.seconds) + ": expected a number of at least 0";
  return std::nullopt;
}

}  // namespace cleave::detail
