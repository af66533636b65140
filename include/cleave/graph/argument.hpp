// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace cleave {

/// What a container holds, in prefix order after it: `size` elements, of a dict `size` pairs of key and value
/// in the order in which they were written.
struct container {
  enum class kind : std::uint8_t { list, tuple, dict, slice };
  kind what;
  std::uint32_t size;

  bool operator==(container const&) const = default;
};

/// The value of another node of the same graph, by its position.
struct node_ref {
  std::uint32_t node;

  bool operator==(node_ref const&) const = default;
};

/// A constant that the IR does not look into: an element type, a device, a symbol.
struct opaque {
  std::string kind, text;

  bool operator==(opaque const&) const = default;
};

using token =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, opaque, node_ref, container>;

/// An argument of a call: a constant, a node's value, or any nesting of these in lists, tuples, dicts and
/// slices. It is stored flat, in prefix order: the nodes it reads are found, depth first and left to right,
/// by one scan, and no nesting is too deep.
using argument = std::vector<token>;

/// An argument under its keyword.
struct keyword_argument {
  std::string key;
  argument value;

  bool operator==(keyword_argument const&) const = default;
};

/// Calls `f` with the position of each node that `a` reads, in order, repeats included.
template <class F>
void each_node(argument const& a, F f) {
  for (auto const& t : a)
    if (auto const* ref = std::get_if<node_ref>(&t)) f(ref->node);
}

/// One past the end of the subtree of `a` that begins at `at`.
inline std::size_t subtree_end(argument const& a, std::size_t at) {
  for (std::size_t missing = 1; missing > 0; ++at) {
    --missing;
    if (auto const* c = std::get_if<container>(&a[at]))
      missing += c->what == container::kind::dict ? std::size_t{2} * c->size : c->size;
  }
  return at;
}

}  // namespace cleave
