// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string_view>
#include <utility>

#include "cleave/backward/backward_graph.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/numbering.hpp"

/// How an autograd shows its backward passes to the library.
namespace cleave {

/// Where a user's node sends the gradient of one operand; nowhere, if that needs none.
template <class Node>
struct next_gradient {
  std::optional<Node> node;
  std::uint32_t slot = 0;  ///< which result of `node` the gradient is of
};

template <class Pass>
using backward_node_t = std::ranges::range_value_t<decltype(std::declval<Pass const&>().outputs())>;

/// The backward pass of a stage, read from its outputs on. Nodes are handles, as those of a graph are.
/// - `g.outputs()`     where gradients begin: the nodes that made what the stage returns.
/// - `g.inputs()`      leaves whose gradients another stage waits for.
/// - `g.parameters()`  leaves whose gradients are only summed up.
/// - `g.next(n)`       for each operand of the operation that `n` runs backward, a `next_gradient`.
template <class Pass>
concept backward_pass = requires(Pass const& g) {
  { g.outputs() } -> std::ranges::input_range;
} && handle<backward_node_t<Pass>> && requires(Pass const& g, backward_node_t<Pass> n) {
  { g.inputs() } -> range_of<backward_node_t<Pass>>;
  { g.parameters() } -> range_of<backward_node_t<Pass>>;
  { g.next(n) } -> range_of<next_gradient<backward_node_t<Pass>>>;
};

}  // namespace cleave

namespace cleave::detail {

/// - `g.bytes(n)`  all gradients that arrive at `n` together; 0 where nobody knows.
template <class Pass>
concept sized_backward_pass = backward_pass<Pass> && requires(Pass const& g, backward_node_t<Pass> n) {
  { g.bytes(n) } -> std::convertible_to<std::size_t>;
};

/// - `g.cost(n, i)`  what the gradient of operand `i` of `n` costs to make, in any one unit; finite, not
///                   negative.
template <class Pass>
concept weighted_backward_pass =
    backward_pass<Pass> && requires(Pass const& g, backward_node_t<Pass> n, std::size_t i) {
      { g.cost(n, i) } -> std::convertible_to<double>;
    };

/// - `g.name(n)`  what messages call the node; may be empty, need not be unique.
template <class Pass>
concept named_backward_pass = backward_pass<Pass> && requires(Pass const& g, backward_node_t<Pass> n) {
  { g.name(n) } -> std::convertible_to<std::string_view>;
};

}  // namespace cleave::detail

namespace cleave {

/// A backward pass as flat arrays, and the way back to the user's handles.
template <class Pass>
struct backward_snapshot : dense_backward {
  numbering<backward_node_t<Pass>, std::uint32_t> node;  ///< number <-> handle
};

}  // namespace cleave

namespace cleave::detail {

/// Reads the nodes that are numbered and not read yet, and those they lead to; `backward_snapshot_of` is its
/// one use.
template <class Pass>
void read_rows(Pass const& g, backward_snapshot<Pass>& s) {
  for (std::size_t at = s.nodes(); at < s.node.size(); ++at) {
    auto const n = s.node[static_cast<std::uint32_t>(at)];
    std::size_t operand = 0;
    for (next_gradient<backward_node_t<Pass>> const& e : g.next(n)) {
      s.next.add({e.node ? s.node.insert(*e.node) : none<std::uint32_t>, e.slot});
      if constexpr (weighted_backward_pass<Pass>) s.cost.push_back(g.cost(n, operand));
      ++operand;
    }
    s.next.close();
    if constexpr (sized_backward_pass<Pass>) s.bytes.push_back(g.bytes(n));
    if constexpr (named_backward_pass<Pass>) {
      for (char const c : std::string_view(g.name(n))) s.name.add(c);
      s.name.close();
    }
  }
}

}  // namespace cleave::detail

namespace cleave {

/// Reads `g` once: numbers are given breadth first from the outputs, then to inputs and parameters that these
/// do not lead to. Expected O(V + E).
///
/// \throws index_overflow beyond 2^32 - 2 nodes or edges
template <backward_pass Pass>
backward_snapshot<Pass> backward_snapshot_of(Pass const& g) {
  using N = backward_node_t<Pass>;
  static_assert(
      detail::sized_backward_pass<Pass> || !requires(Pass& p, N n) { p.bytes(n); },
      "bytes(n): make it const, a size");
  static_assert(
      detail::weighted_backward_pass<Pass> || !requires(Pass& p, N n) { p.cost(n, std::size_t{}); },
      "cost(n, i): make it const, a number");
  static_assert(
      detail::named_backward_pass<Pass> || !requires(Pass& p, N n) { p.name(n); },
      "name(n): make it const, a string");
  backward_snapshot<Pass> s;
  for (auto&& n : g.outputs()) s.outputs.push_back(s.node.insert(n));
  detail::read_rows(g, s);
  for (auto&& n : g.inputs()) s.inputs.push_back(s.node.insert(n));
  for (auto&& n : g.parameters()) s.parameters.push_back(s.node.insert(n));
  detail::read_rows(g, s);
  return s;
}

}  // namespace cleave
