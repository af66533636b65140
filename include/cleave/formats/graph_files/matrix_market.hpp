// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cleave/formats/graph_files/text.hpp"
#include "cleave/graph/adjacency.hpp"

/// Matrix Market's coordinate files (Boisvert, Pozo, Remington, NISTIR 5935, 1996) as graphs. Each row is a
/// node. An edge exists if either of its two entries does. Diagonal entries are ignored.
namespace cleave::inline v0_2 {

/// The use of the entries: as edge weights, not at all, or as weights only if declared integer. Real matrices
/// may have negative entries, or entries that grow with distance.
enum class matrix_values : std::uint8_t { by_type, weights, ignored };

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The first line of a Matrix Market file.
struct matrix_heading {
  bool has_values = false, is_integer = false;

  static matrix_heading read(text_cursor& c) {
    auto const* const at = c.here();
    auto const word = [&] {
      std::string lower(c.word());
      for (auto& letter : lower)
        if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
      return lower;
    };
    if (word() != "%%matrixmarket")
      c.fail_at(at, "expected %%MatrixMarket matrix coordinate real symmetric, or a similar line");
    matrix_heading h;
    auto const one_of = [&](std::string_view wanted) {
      c.at_line_end();
      auto const* const here = c.here();
      auto const got = word();
      if (got.empty() || (" " + std::string(wanted) + " ").find(" " + got + " ") == std::string::npos)
        c.fail_at(here, "expected one of: " + std::string(wanted) + "; got " + quoted(got));
      return got;
    };
    one_of("matrix");
    one_of("coordinate");
    auto const type = one_of("pattern integer real");
    h.has_values = type != "pattern", h.is_integer = type == "integer";
    one_of("general symmetric");
    c.end_line("the first line");
    return h;
  }
};

/// Reads a Matrix Market file. If an edge has several entries, its weight is the largest. O(size of the
/// text).
/// \throws graph_file_error with the place
/// \throws fractional_weight_error if Weight is an integer type and a weight is not
template <std::integral Index = std::uint32_t, weight_number Weight = std::int64_t>
adjacency<Index, Weight> read_matrix_market(std::string_view text,
                                            matrix_values values = matrix_values::by_type) {
  text_cursor c(text);
  auto const h = matrix_heading::read(c);
  c.skip_to_content("%");
  c.at_line_end();
  auto const* const at = c.here();
  constexpr auto any = ~std::uint64_t{0};
  auto const rows = c.whole("the number of rows", 0, any), columns = c.whole("the number of columns", 0, any);
  if (rows != columns)
    c.fail_at(at, "a matrix of " + std::to_string(rows) + " rows and " + std::to_string(columns) +
                      " columns is not a graph; it must be square");
  auto const entries = c.whole("the number of entries", 0, any);
  c.end_line("rows, columns and entries");
  check_stated_nodes<Index>(c, at, rows, text.size());
  check_stated_edges<Index>(c, at, entries);

  bool const weighted = h.has_values && (values == matrix_values::weights ||
                                         (values == matrix_values::by_type && h.is_integer));
  edge_pairs<Index, Weight> edges;
  edges.from.reserve(entries), edges.to.reserve(entries);
  for (std::uint64_t e = 0; e < entries; ++e) {
    c.skip_to_content("%");
    if (c.at_end())
      c.fail("the file ends after " + std::to_string(e) + " entries of " + std::to_string(entries));
    auto const i = c.whole("a row", 1, rows) - 1, j = c.whole("a column", 1, rows) - 1;
    edges.add(static_cast<Index>(i), static_cast<Index>(j));
    if (weighted && i != j)
      edges.weight.push_back(read_weight<Weight>(c, "the weight of an edge"));
    else if (h.has_values)
      c.real("an entry");
    if (weighted && i == j) edges.weight.push_back(Weight{});
    c.end_line("an entry");
  }
  c.skip_to_content("%");
  if (!c.at_end()) c.fail("an entry after the " + std::to_string(entries) + " stated entries");
  return adjacency_of_edges(rows, edges, repeated_edges::count_once);
}

/// Returns the text that `read_matrix_market` reads. To read real weights back, pass
/// `matrix_values::weights`. Parallel edges are merged and their weights added. O(size). \throws error if
/// nodes have weights
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
std::string write_matrix_market(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g) {
  require_no_node_weights(!g.node_weight.empty(), "Matrix Market's format");
  auto const edges = edges_of(g);
  bool const weighted = !edges.weight.empty();
  std::string text = "%%MatrixMarket matrix coordinate ";
  text += !weighted ? "pattern" : std::integral<EdgeWeight> ? "integer" : "real";
  text += " symmetric\n";
  auto const n = std::to_string(g.nodes());
  text += n + " " + n + " " + std::to_string(edges.size()) + "\n";
  for (std::size_t e = 0; e < edges.size(); ++e) {
    append_number(text, static_cast<std::uint64_t>(edges.from[e]) + 1);
    text += ' ';
    append_number(text, static_cast<std::uint64_t>(edges.to[e]) + 1);
    if (weighted) append_number(text += ' ', edges.weight[e]);
    text += '\n';
  }
  return text;
}

}  // namespace cleave::detail
