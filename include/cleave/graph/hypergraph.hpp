// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/adjacency.hpp"

namespace cleave::inline v0_2 {

/// A hypergraph as a view of CSR arrays that the caller owns. A net joins any number of nodes, its pins.
///
/// The pins of net e are the entries of `pins` from `offsets[e]` to `offsets[e + 1] - 1`, in any order. A pin
/// that is listed twice counts once. No weight is negative.
///
/// The template arguments are deduced from the arrays: `hypergraph_view h{nodes, offsets, pins}`, optionally
/// followed by node weights and net weights. Pass `{}` for the node weights if only nets have weights.
template <std::integral Index, weight_number NodeWeight = std::int64_t, weight_number NetWeight = NodeWeight,
          std::integral Offset = Index>
struct hypergraph_view {
  std::size_t nodes = 0;                      ///< number of nodes; some may be in no net
  std::span<Offset const> offsets;            ///< where the pins of net e begin; size: nets + 1
  std::span<Index const> pins;                ///< the pins of all nets, one net after the other
  std::span<NodeWeight const> node_weight{};  ///< of a node; empty: all weigh 1
  std::span<NetWeight const> net_weight{};    ///< of a net; empty: all weigh 1

  std::size_t nets() const { return offsets.empty() ? 0 : offsets.size() - 1; }
  /// Returns the pins of net `e`.
  std::span<Index const> pins_of(std::size_t e) const {
    auto const begin = static_cast<std::size_t>(offsets[e]);
    return pins.subspan(begin, static_cast<std::size_t>(offsets[e + 1]) - begin);
  }
  NodeWeight weight(std::size_t n) const { return node_weight.empty() ? NodeWeight{1} : node_weight[n]; }
  NetWeight weight_of_net(std::size_t e) const { return net_weight.empty() ? NetWeight{1} : net_weight[e]; }
};

template <class Offsets, class Pins, class NodeWeights = std::span<std::int64_t const>>
hypergraph_view(std::size_t, Offsets const&, Pins const&, NodeWeights const& = {})
    -> hypergraph_view<element_of<Pins>, element_of<NodeWeights>, element_of<NodeWeights>,
                       element_of<Offsets>>;
template <class Offsets, class Pins, class NodeWeights = std::span<std::int64_t const>, class NetWeights>
hypergraph_view(std::size_t, Offsets const&, Pins const&, NodeWeights const&, NetWeights const&)
    -> hypergraph_view<element_of<Pins>, element_of<NodeWeights>, element_of<NetWeights>,
                       element_of<Offsets>>;

/// A hypergraph in arrays of its own; `hypergraph_view` describes their contents.
template <std::integral Index, weight_number NodeWeight = std::int64_t, weight_number NetWeight = NodeWeight>
struct hypergraph {
  std::size_t nodes = 0;
  std::vector<Index> offsets{0};
  std::vector<Index> pins;
  std::vector<NodeWeight> node_weight;
  std::vector<NetWeight> net_weight;

  hypergraph_view<Index, NodeWeight, NetWeight> view() const {
    return {nodes, offsets, pins, node_weight, net_weight};
  }
};

/// A promise of `hypergraph_view` that arrays may break.
enum class hypergraph_violation : std::uint8_t {
  wrong_length,          ///< an array of weights is neither empty nor as long as there are nodes or nets
  offsets_out_of_range,  ///< `offsets` does not rise from 0 to the size of `pins`; `net` is the first wrong
                         ///< one
  no_such_node,          ///< pin `pin` of `pins` is not a node
  bad_node_weight,       ///< the weight of node `node` is negative, infinite or NaN
  bad_net_weight,        ///< the weight of net `net` is negative, infinite or NaN
  nodes_too_heavy,       ///< the sum of the node weights is above 2^63 - 1, or overflows a double
  nets_too_heavy,        ///< the sum of the net weights, each times its pins, does
  too_large,             ///< nodes, nets or pins exceed 32 bits
};

/// A broken promise and its place. `pin` is an index of `pins`.
struct hypergraph_fault {
  hypergraph_violation what;
  std::size_t net = 0, pin = 0, node = 0;

  bool operator==(hypergraph_fault const&) const = default;
};

/// Describes a fault in one sentence.
inline std::string describe(hypergraph_fault const& f) {
  auto const net = "net #" + std::to_string(f.net);
  switch (f.what) {
    case hypergraph_violation::wrong_length:
      return "an array of weights has the wrong length: give one weight per node and per net, or none";
    case hypergraph_violation::offsets_out_of_range:
      return "the offsets of " + net + " are not in order: `offsets` must rise from 0 to the number of pins";
    case hypergraph_violation::no_such_node:
      return "pin " + std::to_string(f.pin) + ", of " + net + ", is not a node: pins are below `nodes`";
    case hypergraph_violation::bad_node_weight:
      return "the weight of node #" + std::to_string(f.node) + " is negative or not finite";
    case hypergraph_violation::bad_net_weight:
      return "the weight of " + net + " is negative or not finite";
    case hypergraph_violation::nodes_too_heavy:
      return "the sum of the node weights overflows: divide them all by the same number";
    case hypergraph_violation::nets_too_heavy:
      return "the sum of the net weights, each times its pins, overflows: divide them all by the same number";
    case hypergraph_violation::too_large:
      return "nodes, nets or pins are too many: at most 4294967294 of each are supported";
  }
  return "";
}

/// Returns the first fault of the arrays, or nothing. O(nodes + pins).
template <std::integral Index, weight_number NodeWeight, weight_number NetWeight, std::integral Offset>
std::optional<hypergraph_fault> find_hypergraph_fault(
    hypergraph_view<Index, NodeWeight, NetWeight, Offset> h) {
  using enum hypergraph_violation;
  constexpr std::uint64_t most = 0xfffffffe;
  if (h.nodes > most || h.nets() > most || h.pins.size() > most) return hypergraph_fault{too_large};
  if ((!h.node_weight.empty() && h.node_weight.size() != h.nodes) ||
      (!h.net_weight.empty() && h.net_weight.size() != h.nets()))
    return hypergraph_fault{wrong_length};
  if (h.offsets.empty() ? !h.pins.empty() : h.offsets[0] != 0) return hypergraph_fault{offsets_out_of_range};
  for (std::size_t e = 0; e < h.nets(); ++e)
    if (h.offsets[e + 1] < h.offsets[e] || static_cast<std::uint64_t>(h.offsets[e + 1]) > h.pins.size())
      return hypergraph_fault{offsets_out_of_range, e};
  if (h.nets() > 0 && static_cast<std::uint64_t>(h.offsets[h.nets()]) != h.pins.size())
    return hypergraph_fault{offsets_out_of_range, h.nets() - 1};
  detail::weight_sum<NetWeight> nets;
  for (std::size_t e = 0; e < h.nets(); ++e) {
    if (!detail::weight_sum<NetWeight>::is_weight(h.weight_of_net(e)))
      return hypergraph_fault{bad_net_weight, e};
    for (auto at = static_cast<std::size_t>(h.offsets[e]); at < static_cast<std::size_t>(h.offsets[e + 1]);
         ++at) {
      if (std::cmp_less(h.pins[at], 0) || std::cmp_greater_equal(h.pins[at], h.nodes))
        return hypergraph_fault{no_such_node, e, at};
      nets.add(h.weight_of_net(e));
    }
  }
  if (nets.overflows()) return hypergraph_fault{nets_too_heavy};
  detail::weight_sum<NodeWeight> nodes;
  for (std::size_t n = 0; n < h.nodes; ++n) {
    if (!detail::weight_sum<NodeWeight>::is_weight(h.weight(n)))
      return hypergraph_fault{.what = bad_node_weight, .node = n};
    nodes.add(h.weight(n));
  }
  if (nodes.overflows()) return hypergraph_fault{nodes_too_heavy};
  return std::nullopt;
}

}  // namespace cleave
