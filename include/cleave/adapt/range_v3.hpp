// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <range/v3/view/filter.hpp>
#include <range/v3/view/for_each.hpp>
#include <range/v3/view/iota.hpp>
#include <range/v3/view/transform.hpp>

#include "cleave/core/ids.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/partition/model/partition.hpp"

/// Lazy views of partitions with range-v3: nothing is computed or stored before a view is iterated. A view
/// refers to the objects that it is made from, which must outlive it. Without range-v3, `part_members`
/// returns the same as arrays.
namespace cleave::inline v0_2 {

/// Returns the nodes of one part, ascending. Iterating over them costs O(n); for all parts use `parts_of`.
inline auto nodes_of(partition const& p, part_id part) {
  return ranges::views::iota(std::size_t{0}, p.of.size()) |
         ranges::views::filter([&p, part](std::size_t n) { return p.of[n] == part; });
}
auto nodes_of(partition&&, part_id) = delete;

/// Returns the parts as ranges of their nodes. `members` is the result of `part_members`.
template <std::unsigned_integral Index>
auto parts_of(detail::csr<Index> const& members) {
  return ranges::views::iota(std::size_t{0}, members.rows()) |
         ranges::views::transform([&members](std::size_t part) { return members[part]; });
}
template <std::unsigned_integral Index>
auto parts_of(detail::csr<Index>&&) = delete;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// An edge between two parts. `from` is the smaller node.
template <weight_number Weight>
struct cut_edge {
  std::size_t from, to;
  Weight weight;

  bool operator==(cut_edge const&) const = default;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the edges between parts, each once, ordered by their smaller node. Refers to `p` and to the arrays
/// behind `g`.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
auto cut_edges(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g, partition const& p) {
  auto const arcs_of = [g, &p](std::size_t n) {
    auto const crosses = [g, &p, n](std::size_t arc) {
      auto const to = static_cast<std::size_t>(g.targets[arc]);
      return to > n && p.of[to] != p.of[n];
    };
    auto const edge = [g, n](std::size_t arc) {
      return detail::cut_edge<EdgeWeight>{n, static_cast<std::size_t>(g.targets[arc]), g.weight_of_edge(arc)};
    };
    return ranges::views::iota(static_cast<std::size_t>(g.offsets[n]),
                               static_cast<std::size_t>(g.offsets[n + 1])) |
           ranges::views::filter(crosses) | ranges::views::transform(edge);
  };
  return ranges::views::iota(std::size_t{0}, g.nodes()) | ranges::views::for_each(arcs_of);
}
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
auto cut_edges(adjacency_view<Index, NodeWeight, EdgeWeight, Offset>, partition&&) = delete;

}  // namespace cleave
