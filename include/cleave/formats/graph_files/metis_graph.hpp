// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/formats/graph_files/text.hpp"
#include "cleave/graph/adjacency.hpp"

/// METIS' graph files (its manual, section 4.1). After a heading `n m [fmt [ncon]]`, each node has a row with
/// its neighbours, counted from 1. Each edge is in two rows and counts once in m. Each of the three digits of
/// fmt is 1 if rows have a certain entry. The first is the node's size, which is ignored; the second is its
/// weight, or its ncon weights; the third is the weight of the edge after each neighbour. Lines that begin
/// with % are comments.
namespace cleave::inline v0_2::detail {

/// The heading of a METIS file.
struct metis_heading {
  std::size_t nodes = 0, edges = 0;
  bool has_sizes = false, has_node_weights = false, has_edge_weights = false;
  std::size_t weights = 1;                              ///< of a node, if nodes have weights
  char const *nodes_at = nullptr, *edges_at = nullptr;  ///< their places in the text

  /// Reads the heading, and compares it with the size of the text.
  static metis_heading read(text_cursor& c, bool may_have_several = false) {
    c.skip_to_content("%");
    auto const h = read_line(c, may_have_several);
    h.check_size(c, c.left());
    return h;
  }

  static metis_heading read_line(text_cursor& c, bool may_have_several = false) {
    metis_heading h;
    h.nodes_at = c.here();
    auto const whole = [&](char const* what, std::uint64_t most = ~std::uint64_t{0}) {
      return static_cast<std::size_t>(c.whole(what, 0, most));
    };
    h.nodes = whole("the number of nodes");
    if (c.at_line_end()) c.fail("expected the number of edges after that of nodes: a heading is n m [fmt]");
    h.edges_at = c.here();
    h.edges = whole("the number of edges");
    if (!c.at_line_end()) {
      auto const* const at = c.here();
      auto const fmt = c.word();
      if (fmt.size() > 3 || fmt.find_first_not_of("01") != fmt.npos)
        c.fail_at(at, "expected a format of up to three digits 0 or 1, as in 011, got " + quoted(fmt));
      auto const digit = [&](std::size_t from_right) {
        return fmt.size() > from_right && fmt[fmt.size() - 1 - from_right] == '1';
      };
      h.has_edge_weights = digit(0), h.has_node_weights = digit(1), h.has_sizes = digit(2);
    }
    if (!c.at_line_end()) {
      auto const* const at = c.here();
      h.weights = (std::max)(whole("the number of weights per node"), std::size_t{1});
      if (h.weights > 1 && !may_have_several)
        c.fail_at(at, "only one weight per node is supported here; keep one of them and write 1, or nothing");
      if (h.weights > 1 && !h.has_node_weights)
        c.fail_at(
            at,
            "there are several weights per node, but the format says that there are none; write 010 or 011");
      if (h.weights > most_weights)
        c.fail_at(at, "at most " + std::to_string(most_weights) + " weights per node are supported");
    }
    c.end_line("the heading n m [fmt [ncon]]");
    return h;
  }

  static constexpr std::size_t most_weights = 1000;

  /// Checks that `bytes` below the heading can hold so many nodes and edges. \throws graph_file_error
  void check_size(text_cursor const& c, std::uint64_t bytes) const {
    if (nodes > bytes + 1)
      c.fail_at(nodes_at, "the heading says " + std::to_string(nodes) + " nodes, but the file has only " +
                              std::to_string(bytes) + " bytes below it; each node has a line");
    if (edges > (bytes + 1) / 2)
      c.fail_at(edges_at, "the heading says " + std::to_string(edges) + " edges, but the file has only " +
                              std::to_string(bytes) + " bytes below it; each edge is in two rows");
  }
  /// Checks that the heading counts the edges of the rows. `ends` are those in the rows, without self-loops.
  void check_edges(text_cursor const& c, std::uint64_t ends, std::uint64_t loops) const {
    if (edges < ends / 2 || edges > ends / 2 + loops)
      c.fail_at(edges_at, "the heading says " + std::to_string(edges) + " edges, the rows list " +
                              std::to_string(ends) + " ends of edges, two for each edge");
  }
};

/// Reads the row of node `n`, and appends its entries to arrays as those of `adjacency`. Appends weights
/// beyond the first to the lists in `further`. Returns the number of self-loops.
template <class Index, weight_number Weight>
std::size_t read_metis_row(text_cursor& c, metis_heading const& h, std::size_t n,
                           std::vector<Weight>& node_weight, std::vector<Index>& targets,
                           std::vector<Weight>& edge_weight, std::span<std::vector<double>> further = {}) {
  std::size_t loops = 0;
  if (h.has_sizes) read_weight<Weight>(c, "the size of a node");
  if (h.has_node_weights) node_weight.push_back(read_weight<Weight>(c, "the weight of a node"));
  for (auto& list : further) list.push_back(read_weight<double>(c, "a further weight of a node"));
  while (!c.at_line_end()) {
    auto const to = c.whole("a neighbour", 1, h.nodes) - 1;
    loops += to == n ? 1 : 0;
    targets.push_back(static_cast<Index>(to));
    if (h.has_edge_weights) edge_weight.push_back(read_weight<Weight>(c, "the weight of an edge"));
  }
  c.skip_line();
  return loops;
}
[[noreturn]] inline void fail_for_missing_row(text_cursor const& c, metis_heading const& h, std::size_t n) {
  c.fail("the file ends after " + std::to_string(n) + " rows of " + std::to_string(h.nodes) +
         "; a node without neighbours has an empty line");
}

/// Returns the place of a row, or of an entry of a row, in a METIS text. Entries count along the row.
inline text_place metis_place(std::string_view text, std::size_t node, std::size_t arc_of_row) {
  text_cursor c(text);
  auto const h = metis_heading::read(c, true);
  for (std::size_t n = 0;; ++n, c.skip_line()) {
    c.skip_comments("%");
    if (n == node) break;
  }
  auto const before =
      std::size_t{h.has_sizes} + (h.has_node_weights ? h.weights : 0) + arc_of_row * (1 + h.has_edge_weights);
  for (std::size_t word = 0; word < before; ++word) c.word();
  c.at_line_end();
  return c.place_of(c.here());
}

/// Checks that the rows agree with each other. \throws graph_file_error
template <std::integral Index, weight_number Weight>
void check_metis_rows(std::string_view text, adjacency_view<Index, Weight> g) {
  auto const fault = find_adjacency_fault(g);
  if (!fault) return;
  auto const [what, node, arc] = *fault;
  if (what != adjacency_violation::one_sided_edge)
    throw graph_file_error(metis_place(text, (std::min)(node, g.nodes() - 1), 0), describe(*fault, g));
  auto const other = static_cast<std::size_t>(g.targets[arc]);
  auto const row = metis_place(text, other, 0).line;
  auto const weight = g.edge_weight.empty() ? "" : " with weight " + std::to_string(g.edge_weight[arc]);
  throw graph_file_error(
      metis_place(text, node, arc - static_cast<std::size_t>(g.offsets[node])),
      "the row of node " + std::to_string(node + 1) + " lists node " + std::to_string(other + 1) + weight +
          ", the row of node " + std::to_string(other + 1) + " (line " + std::to_string(row) +
          ") does not list node " + std::to_string(node + 1) + " as often" + (weight.empty() ? "" : " so") +
          "; each edge must be in the rows of both its nodes, and counts once in m");
}

/// Reads a METIS graph. Self-loops are kept; m may count them or not. The weights of nodes beyond the first
/// are written to `further`, a list for each. If it is null, they are an error. O(size of the text).
/// \throws graph_file_error with the place, if the text violates the format or its heading, or an edge is in
///   one row only
/// \throws fractional_weight_error if Weight is an integer type and a weight is not
template <std::integral Index = std::uint32_t, weight_number Weight = std::int64_t>
adjacency<Index, Weight> read_metis_graph(std::string_view text,
                                          std::vector<std::vector<double>>* further = nullptr) {
  constexpr auto most = static_cast<std::uint64_t>((std::numeric_limits<Index>::max)());
  text_cursor c(text);
  auto const h = metis_heading::read(c, further != nullptr);
  std::vector<std::vector<double>> own;  // lists of the further weights
  own.resize(h.weights - 1);
  if (h.nodes >= most || h.edges > most / 2)
    c.fail("there are more nodes or ends of edges than indices of " + std::to_string(8 * sizeof(Index)) +
           " bits can number; read the file with 64 bits");
  adjacency<Index, Weight> g;
  g.offsets.reserve(h.nodes + 1);
  g.targets.reserve(2 * h.edges);
  if (h.has_edge_weights) g.edge_weight.reserve(2 * h.edges);
  if (h.has_node_weights) g.node_weight.reserve(h.nodes);
  std::size_t loops = 0;
  for (std::size_t n = 0; n < h.nodes; ++n) {
    c.skip_comments("%");
    if (c.at_end()) fail_for_missing_row(c, h, n);
    loops += read_metis_row(c, h, n, g.node_weight, g.targets, g.edge_weight, own);
    g.offsets.push_back(static_cast<Index>(g.targets.size()));
  }
  c.skip_to_content("%");
  if (!c.at_end()) c.fail("a line after the " + std::to_string(h.nodes) + " rows given in the heading");
  check_metis_rows<Index, Weight>(text, g.view());
  h.check_edges(c, g.targets.size() - loops, loops);
  if (further) *further = std::move(own);
  return g;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the text of a METIS file. `further` has the weights of the nodes beyond that of the graph, a list
/// for each. O(size). \pre Each list has an entry for each node.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
std::string write_metis_graph(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                              std::vector<std::vector<double>> const& further = {}) {
  std::string text;
  bool const nodes = !g.node_weight.empty() || !further.empty(), edges = !g.edge_weight.empty();
  std::size_t loops = 0;
  for (std::size_t n = 0; n < g.nodes(); ++n)
    loops += static_cast<std::size_t>(std::ranges::count(g.neighbours(n), static_cast<Index>(n)));
  detail::append_number(text, g.nodes());
  text += ' ';
  detail::append_number(text, (g.directed_edges() - loops) / 2 + loops);
  if (nodes || edges) text += nodes ? edges ? " 011" : " 010" : " 001";
  if (!further.empty()) text += ' ' + std::to_string(further.size() + 1);
  text += '\n';
  for (std::size_t n = 0, arc = 0; n < g.nodes(); ++n) {
    if (nodes) detail::append_number(text, g.weight(n));
    for (auto const& list : further) {
      text += ' ';
      detail::append_number(text, list[n]);
    }
    for (auto blank = nodes; arc < static_cast<std::size_t>(g.offsets[n + 1]); ++arc, blank = true) {
      if (blank) text += ' ';
      detail::append_number(text, static_cast<std::uint64_t>(g.targets[arc]) + 1);
      if (!edges) continue;
      text += ' ';
      detail::append_number(text, g.edge_weight[arc]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace cleave
