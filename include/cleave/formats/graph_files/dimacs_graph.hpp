// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cleave/formats/graph_files/text.hpp"
#include "cleave/graph/adjacency.hpp"

/// Graphs of the DIMACS challenges. The 2nd has lines `p edge N M`, `e u v` and `n u weight`; the 9th has
/// `p sp N M` and `a u v weight`. Nodes count from 1, and `c` begins a comment. The 10th challenge uses
/// METIS' format.
namespace cleave::inline v0_2 {

/// Reads a DIMACS graph. An edge that is listed several times, from either end, counts once with its largest
/// weight. M is the number of lines. O(size of the text). \throws graph_file_error with the place
/// \throws fractional_weight_error if Weight is an integer type and a weight is not
template <std::integral Index = std::uint32_t, weight_number Weight = std::int64_t>
adjacency<Index, Weight> read_dimacs_graph(std::string_view text) {
  constexpr auto any = ~std::uint64_t{0};
  detail::text_cursor c(text);
  c.skip_to_content("c");
  if (c.word() != "p") c.fail("expected a line p edge N M or p sp N M before all edges");
  auto const kind = std::string(c.word());
  bool const arcs = kind == "sp";
  if (!arcs && kind != "edge" && kind != "edges" && kind != "col")
    c.fail("expected p edge, p col or p sp, got p " + printable(kind));
  c.at_line_end();
  auto const* const at = c.here();
  auto const nodes = c.whole("the number of nodes", 0, any), lines = c.whole("the number of edges", 0, any);
  c.end_line("the line p");
  detail::check_stated_nodes<Index>(c, at, nodes, text.size());
  detail::check_stated_edges<Index>(c, at, lines, 6);

  edge_pairs<Index, Weight> edges;
  std::vector<Weight> node_weight;
  edges.from.reserve(lines), edges.to.reserve(lines);
  auto const node = [&] { return static_cast<Index>(c.whole("a node", 1, nodes) - 1); };
  for (c.skip_to_content("c"); !c.at_end(); c.skip_to_content("c")) {
    auto const* const line = c.here();
    auto const word = c.word();
    if (word == "n" && !arcs) {
      node_weight.resize(nodes, Weight{1});
      auto const n = static_cast<std::size_t>(node());
      node_weight[n] = detail::read_weight<Weight>(c, "the weight of a node");
    } else if (word == (arcs ? "a" : "e")) {
      if (edges.size() == lines) c.fail_at(line, "more edges than the " + std::to_string(lines) + " stated");
      auto const a = node();
      edges.add(a, node());
      if (arcs) edges.weight.push_back(detail::read_weight<Weight>(c, "the weight of an arc"));
    } else {
      c.fail_at(line, std::string("expected ") + (arcs ? "a u v weight" : "e u v") + ", got " + quoted(word));
    }
    c.end_line("the line");
  }
  if (edges.size() != lines)
    c.fail("the file ends after " + std::to_string(edges.size()) + " edges of " + std::to_string(lines));
  auto g = adjacency_of_edges(nodes, edges, repeated_edges::count_once);
  g.node_weight = std::move(node_weight);
  return g;
}

/// Returns the text that `read_dimacs_graph` reads: `p edge`, or `p sp` with two arcs per edge if edges have
/// weights. Parallel edges are merged and their weights added. O(size). \throws error if both nodes and edges
/// have weights
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
std::string write_dimacs_graph(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g) {
  auto const edges = detail::edges_of(g);
  bool const weighted = !edges.weight.empty();
  detail::require_no_node_weights(weighted && !g.node_weight.empty(),
                                  "DIMACS' format for edges with weights");
  auto text = (weighted ? "p sp " : "p edge ") + std::to_string(g.nodes()) + " " +
              std::to_string(edges.size() * (weighted ? 2 : 1)) + "\n";
  for (std::size_t n = 0; n < g.node_weight.size(); ++n)
    detail::append_number(text += "n " + std::to_string(n + 1) + " ", g.node_weight[n]), text += '\n';
  auto const line = [&](Index a, Index b, std::size_t e) {
    detail::append_number(text += weighted ? "a " : "e ", static_cast<std::uint64_t>(a) + 1);
    detail::append_number(text += ' ', static_cast<std::uint64_t>(b) + 1);
    if (weighted) detail::append_number(text += ' ', edges.weight[e]);
    text += '\n';
  };
  for (std::size_t e = 0; e < edges.size(); ++e) {
    line(edges.to[e], edges.from[e], e);
    if (weighted) line(edges.from[e], edges.to[e], e);
  }
  return text;
}

}  // namespace cleave
