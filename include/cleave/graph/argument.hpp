// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2 {

/// A list, tuple, dict or slice in a flat argument. Its elements follow it in prefix order: `size` elements,
/// or `size` pairs of key and value for a dict. Pairs keep the order in which they were written.
struct container {
  enum class kind : std::uint8_t { list, tuple, dict, slice };
  kind what;
  std::uint32_t size;

  bool operator==(container const&) const = default;
};

/// A reference to the value of another node of the same graph, by the node's position.
struct node_ref {
  std::uint32_t node;

  bool operator==(node_ref const&) const = default;
};

/// A constant that the IR does not interpret, such as an element type, a device or a symbol.
struct opaque {
  std::string kind, text;

  bool operator==(opaque const&) const = default;
};

using token =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, opaque, node_ref, container>;

/// An argument of a call: a constant, a node's value, or any nesting of these in lists, tuples, dicts and
/// slices. It is stored flat, in prefix order. One scan finds the nodes that it reads, depth first and left
/// to right. The depth of nesting is not limited.
using module_argument = std::vector<token>;

/// A keyword and its argument.
struct keyword_argument {
  std::string key;
  module_argument value;

  bool operator==(keyword_argument const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Calls `f` with the position of each node that `a` reads, in order, including repetitions.
template <class F>
void each_node(module_argument const& a, F f) {
  for (auto const& t : a)
    if (auto const* ref = std::get_if<node_ref>(&t)) f(ref->node);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the number of subtrees that follow `c`: its elements, or the keys and values of a dict.
inline std::size_t elements_of(container const& c) {
  return c.what == container::kind::dict ? std::size_t{2} * c.size : c.size;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns one past the end of the subtree of `a` that begins at `at`.
inline std::size_t subtree_end(module_argument const& a, std::size_t at) {
  for (std::size_t missing = 1; missing > 0; ++at) {
    --missing;
    if (auto const* c = std::get_if<container>(&a[at])) missing += elements_of(*c);
  }
  return at;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns true if `a` is exactly one subtree: a constant, a node, or a container with all its elements.
inline bool complete(module_argument const& a) {
  std::size_t missing = 1;
  for (auto const& t : a) {
    if (missing == 0) return false;
    --missing;
    if (auto const* c = std::get_if<container>(&t)) missing += elements_of(*c);
  }
  return missing == 0;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns `a` with each node position p replaced by `f(p)`, a position in another graph.
template <class F>
module_argument map_nodes(module_argument a, F f) {
  for (auto& t : a)
    if (auto* ref = std::get_if<node_ref>(&t)) ref->node = f(ref->node);
  return a;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns an argument that is the value of one node.
inline module_argument node_argument(std::uint32_t node) { return {node_ref{node}}; }

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns an argument that is the tuple of the values of several nodes.
inline module_argument tuple_argument(std::vector<std::uint32_t> const& nodes) {
  module_argument a{container{container::kind::tuple, static_cast<std::uint32_t>(nodes.size())}};
  for (auto const n : nodes) a.push_back(node_ref{n});
  return a;
}

}  // namespace cleave::detail
