// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/graph/label.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/named/cut_points.hpp"

/// Nodes that say: cut here.
namespace cleave::detail {

/// What keeps a node from being a marker that can be taken out, or a program from being cut at it.
struct marker_fault {
  enum class kind : std::uint8_t {
    reads,    ///< it reads values
    is_read,  ///< its result is read or returned
    nested,   ///< it is in a body of `node`; a program is cut between its own nodes only
  };
  kind what;
  std::size_t node;

  bool operator==(marker_fault const&) const = default;
};

/// A marker that stages cannot be made without. The witness: the node.
class marker_error : public witness_error<marker_fault> {
 public:
  marker_error(marker_fault f, std::string const& label)
      : witness_error(f.what == marker_fault::kind::nested
                          ? "node " + label +
                                " has a marker in one of its bodies; a program is cut between its own nodes, "
                                "so put the marker before or after that node"
                          : "marker " + label +
                                (f.what == marker_fault::kind::reads ? " reads values" : " gives a value") +
                                "; a marker is taken out of the program, so it neither reads nor gives any: "
                                "name such a node by a policy instead",
                      f) {}
};

/// The first node that is a marker, as `is_marker(n)` says of positions, and cannot be one. O(V).
template <std::unsigned_integral Index, class F>
  requires std::predicate<F&, std::size_t>
std::optional<marker_fault> find_marker_fault(basic_dense<Index> const& s, F is_marker) {
  std::vector<char> given(s.values());
  for (Index const v : s.outputs) given[v] = 1;
  for (std::size_t n = 0; n < s.nodes(); ++n) {
    if (!is_marker(n)) continue;
    if (!s.operands[n].empty()) return marker_fault{marker_fault::kind::reads, n};
    for (Index const v : s.results[n])
      if (given[v] != 0 || !s.users[v].empty()) return marker_fault{marker_fault::kind::is_read, n};
  }
  return std::nullopt;
}

/// The first node with a marker in one of its bodies, at any depth. O(size of the bodies), no recursion.
template <nested_graph Graph, class F>
  requires std::predicate<F&, node_t<Graph>>
std::optional<marker_fault> find_nested_marker(Graph const& g, F is_marker) {
  std::size_t at = 0;
  for (auto n : g.nodes()) {
    std::vector<region_t<Graph>> regions;
    for (auto r : g.regions(n)) regions.push_back(r);
    for (std::size_t i = 0; i < regions.size(); ++i)  // grows while bodies hold bodies
      for (auto m : g.nodes(regions[i])) {
        if (is_marker(m)) return marker_fault{marker_fault::kind::nested, at};
        for (auto r : g.regions(m)) regions.push_back(r);
      }
    ++at;
  }
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave {

/// A cut at each marker; stages are made without markers. `is_marker(n)` is asked by position. O(V).
/// \throws marker_error
template <std::unsigned_integral Index, class F>
  requires std::predicate<F&, std::size_t>
cut_list cuts_at_markers(basic_dense<Index> const& s, F is_marker) {
  std::vector<char> marks(s.nodes());
  for (std::size_t n = 0; n < s.nodes(); ++n) marks[n] = is_marker(n);
  if (auto const f = detail::find_marker_fault(s, [&](std::size_t n) { return marks[n] != 0; }))
    throw detail::marker_error(*f, s.label(f->node));
  cut_list list;
  for (std::size_t n = 0; n < s.nodes(); ++n) {
    if (!marks[n]) continue;
    list.points.push_back({cut_kind::marker, n, n});
    list.markers.push_back(n);
  }
  return list;
}

/// The same in the user's handles, on `s`, the snapshot of `g`.
/// \throws marker_error, also where a body of a node has a marker.
template <dataflow_graph Graph, std::unsigned_integral Index, class F>
  requires std::predicate<F&, node_t<Graph>>
cut_list cuts_at_markers(Graph const& g, snapshot<Graph, Index> const& s, F is_marker) {
  if constexpr (nested_graph<Graph>)
    if (auto const f = detail::find_nested_marker(g, is_marker)) {
      std::size_t at = f->node;
      for (auto n : g.nodes())
        if (at-- == 0) throw detail::marker_error(*f, label(g, n, f->node));
    }
  basic_dense<Index> const& flat = s;
  return cuts_at_markers(flat, [&](std::size_t n) { return is_marker(s.node[static_cast<Index>(n)]); });
}

}  // namespace cleave
