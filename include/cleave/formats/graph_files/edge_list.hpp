// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cleave/formats/graph_files/text.hpp"
#include "cleave/graph/adjacency.hpp"

/// Lists of edges: one line `u v` or `u v weight` per edge, all of the same form. Lines that begin with # or
/// % are comments. If the first comment is `# nodes N edges M`, the file must match these numbers. Otherwise
/// the largest number is the last node.
namespace cleave::inline v0_2 {

/// Options of `read_edge_list` and `write_edge_list`.
struct edge_list_options {
  std::uint64_t first_node = 0;  ///< number of the first node: 0 or 1
};

/// Reads a list of edges. Without weights, an edge that is listed several times, from either end, counts
/// once. With weights, they are added. O(size of the text).
/// \throws graph_file_error with the place
/// \throws fractional_weight_error if Weight is an integer type and a weight is not
template <std::integral Index = std::uint32_t, weight_number Weight = std::int64_t>
adjacency<Index, Weight> read_edge_list(std::string_view text, edge_list_options const& options = {}) {
  constexpr auto any = ~std::uint64_t{0};
  detail::text_cursor c(text);
  std::uint64_t nodes = 0, stated_edges = any;
  char const* largest_at = c.here();
  bool stated = false;
  auto heading = c;
  auto const is_number = [&] {
    return !heading.at_line_end() && *heading.here() >= '0' && *heading.here() <= '9';
  };
  if (heading.word() == "#" && heading.word() == "nodes" && is_number()) {
    auto const* const at = heading.here();
    auto const count = heading.whole("the number of nodes", 0, any);
    if (heading.word() == "edges" && is_number()) {
      stated_edges = heading.whole("the number of edges", 0, any);
      detail::check_stated_nodes<Index>(heading, at, count, text.size());
      detail::check_stated_edges<Index>(heading, at, stated_edges);
      nodes = count, stated = true;
    }
  }
  edge_pairs<Index, Weight> edges;
  bool weighted = false;
  auto const node = [&] {
    c.at_line_end();
    auto const* const at = c.here();
    auto const past = stated ? nodes + options.first_node - 1 : any;
    if (stated && nodes == 0) c.fail("found an edge, but the heading gives 0 nodes");
    if (auto ahead = c; edges.size() == 0 && ahead.word().find_first_of(",;|") != std::string_view::npos)
      c.fail("expected two nodes separated by blanks, got " + c.seen());
    auto const n = c.whole("a node", options.first_node, past) - options.first_node;
    if (!stated && n >= nodes) {
      detail::check_stated_nodes<Index>(c, at, n, text.size());
      nodes = n + 1, largest_at = at;
    }
    return static_cast<Index>(n);
  };
  for (c.skip_to_content("#%"); !c.at_end(); c.skip_to_content("#%")) {
    auto const a = node();
    if (c.at_line_end()) c.fail("expected two nodes in a line, got one");
    edges.add(a, node());
    if (edges.size() == 1) weighted = !c.at_line_end();
    if (weighted) {
      if (c.at_line_end()) c.fail("expected a weight, as the first edge has one");
      edges.weight.push_back(detail::read_weight<Weight>(c, "the weight of an edge"));
    }
    c.end_line(weighted ? "an edge and its weight" : "an edge; the first has no weight");
  }
  if (stated && edges.size() != stated_edges)
    c.fail("the heading says " + std::to_string(stated_edges) + " edges, the number of lines is " +
           std::to_string(edges.size()));
  detail::check_stated_nodes<Index>(c, largest_at, nodes, text.size());
  return adjacency_of_edges(nodes, edges, weighted ? repeated_edges::add_up : repeated_edges::count_once);
}

/// Returns the text that `read_edge_list` reads, with its first comment. Parallel edges are merged and their
/// weights added. O(size). \throws error if nodes have weights
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
std::string write_edge_list(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                            edge_list_options const& options = {}) {
  detail::require_no_node_weights(!g.node_weight.empty(), "A list of edges");
  auto const edges = detail::edges_of(g);
  auto text = "# nodes " + std::to_string(g.nodes()) + " edges " + std::to_string(edges.size()) + "\n";
  for (std::size_t e = 0; e < edges.size(); ++e) {
    detail::append_number(text, static_cast<std::uint64_t>(edges.to[e]) + options.first_node);
    text += ' ';
    detail::append_number(text, static_cast<std::uint64_t>(edges.from[e]) + options.first_node);
    if (!edges.weight.empty()) detail::append_number(text += ' ', edges.weight[e]);
    text += '\n';
  }
  return text;
}

}  // namespace cleave
