// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/bytes.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/formats/files/read_whole_file.hpp"
#include "cleave/formats/graph_files/cost_dag.hpp"
#include "cleave/formats/graph_files/dimacs_graph.hpp"
#include "cleave/formats/graph_files/edge_list.hpp"
#include "cleave/formats/graph_files/matrix_market.hpp"
#include "cleave/formats/graph_files/metis_graph.hpp"
#include "cleave/formats/graph_files/module_dag.hpp"
#include "cleave/formats/graph_files/text.hpp"
#include "cleave/formats/graph_files/workload_json.hpp"
#include "cleave/formats/graph_json.hpp"
#include "cleave/formats/json/json_reader.hpp"
#include "cleave/graph/adjacency.hpp"

namespace cleave::inline v0_2 {

/// The format of a graph file.
enum class graph_format : std::uint8_t { metis, matrix_market, edge_list, dimacs, dag, json };

/// A suffix of file names, and its format.
struct graph_suffix {
  std::string_view suffix;
  graph_format format;
};
/// All suffixes that `graph_format_of` knows.
inline constexpr std::array<graph_suffix, 13> graph_suffixes{{{".graph", graph_format::metis},
                                                              {".metis", graph_format::metis},
                                                              {".mtx", graph_format::matrix_market},
                                                              {".edges", graph_format::edge_list},
                                                              {".edgelist", graph_format::edge_list},
                                                              {".el", graph_format::edge_list},
                                                              {".txt", graph_format::edge_list},
                                                              {".dimacs", graph_format::dimacs},
                                                              {".col", graph_format::dimacs},
                                                              {".clq", graph_format::dimacs},
                                                              {".gr", graph_format::dimacs},
                                                              {".dag", graph_format::dag},
                                                              {".json", graph_format::json}}};

/// Returns true if files of this format have directed edges.
constexpr bool is_directed(graph_format f) { return f == graph_format::dag || f == graph_format::json; }

/// Returns the format of a file, by its suffix or else by the beginning of its text. \throws error if neither
/// suffices
inline graph_format graph_format_of(std::string const& file, std::string_view text = {}) {
  for (auto const& [suffix, format] : graph_suffixes)
    if (file.ends_with(suffix)) return format;
  detail::text_cursor c(text);
  auto const word = c.word();
  if (word.starts_with("%%MatrixMarket")) return graph_format::matrix_market;
  if (word.starts_with('{')) return graph_format::json;
  if (word == "c" || word == "p") return graph_format::dimacs;
  std::string known;
  for (auto const& s : graph_suffixes) known += (known.empty() ? "" : ", ") + std::string(s.suffix);
  bool const packed = file.ends_with(".gz") || file.ends_with(".bz2") || file.ends_with(".xz");
  throw error(
      printable(file, 200) + ": " +
      (packed ? "this file is compressed; decompress it first"
              : "the format is recognized neither from the name nor from the content; known suffixes are " +
                    known));
}

/// Options of `read_graph_file` and `read_cost_dag`.
struct graph_file_options {
  std::uint64_t first_node = 0;                                 ///< number of the first node of edge lists
  matrix_values values = matrix_values::by_type;                ///< use of the entries of Matrix Market files
  std::vector<std::vector<double>>* further_weights = nullptr;  ///< receives a list for each weight of the
                                                                ///< nodes beyond the first (METIS); null: a
                                                                ///< file with several is an error
  std::uint64_t max_bytes = 4_GiB;           ///< size of a file; a larger one is refused unread
  std::string_view raised_by = "max_bytes";  ///< what raises that limit, for the message
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// \throws error if no graph file begins so: it is UTF-16 or compressed
inline void check_graph_beginning(std::string const& file, std::string_view beginning) {
  auto const refuse = [&](std::string const& why) { throw error(printable(file, 200) + ": " + why); };
  auto const is = [&](std::string_view mark) { return beginning.starts_with(mark); };
  if (is("\xff\xfe") || is("\xfe\xff")) refuse("this is UTF-16; save it as UTF-8");
  if (is("\x1f\x8b") || is("BZh") || is("\xfd\x37zXZ"))
    refuse("this file is compressed; decompress it first");
}

/// Returns the content of a file, without a UTF-8 byte order mark. \throws error if it cannot be read, is
/// larger than the limit, is UTF-16 or compressed, or has a zero byte
inline std::string text_of_graph_file(std::string const& file, graph_file_options const& options) {
  auto text = read_whole_file(
      file, {.most_bytes = options.max_bytes, .raised_by = options.raised_by, .is_text = true},
      [&](std::string_view beginning) { check_graph_beginning(file, beginning); });
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  return text;
}

/// Reads the operations from a text of a directed format. `cost_per_byte` applies to module graphs only.
inline cost_dag read_cost_dag_text(std::string text, graph_format format, double cost_per_byte = 0) {
  if (format == graph_format::dag) return read_dag_file(text);
  json_document const document(std::move(text));
  json_value const file(document);
  if (!file.find("format")) return read_workload(file);
  return cost_dag_of(read_graph_json(file), cost_per_byte);
}

/// Converts weights to another type. \throws fractional_weight_error
template <weight_number Weight, std::integral Index>
adjacency<Index, Weight> with_weights_of(adjacency<Index, double> g) {
  if constexpr (std::same_as<Weight, double>) {
    return g;
  } else {
    auto const whole = [](std::vector<double> const& from) {
      std::vector<Weight> to;
      for (double const w : from) {
        if (std::integral<Weight> && (w != std::floor(w) || w >= 0x1p53))
          throw fractional_weight_error(text_place{}, "some weights are not whole numbers, such as " +
                                                          std::to_string(w) +
                                                          "; read the file with weights of type double");
        to.push_back(static_cast<Weight>(w));
      }
      return to;
    };
    return {std::move(g.offsets), std::move(g.targets), whole(g.node_weight), whole(g.edge_weight)};
  }
}

/// Reads a graph from a text of the given format; directed graphs become undirected.
template <std::integral Index = std::uint32_t, weight_number Weight = std::int64_t>
adjacency<Index, Weight> read_graph_text(std::string text, graph_format format,
                                         graph_file_options const& options = {}) {
  adjacency<Index, Weight> g;
  if (options.further_weights) options.further_weights->clear();
  switch (format) {
    case graph_format::metis:
      return read_metis_graph<Index, Weight>(text, options.further_weights);  // checked there
    case graph_format::matrix_market:
      g = read_matrix_market<Index, Weight>(text, options.values);
      break;
    case graph_format::edge_list:
      g = read_edge_list<Index, Weight>(text, {options.first_node});
      break;
    case graph_format::dimacs:
      g = read_dimacs_graph<Index, Weight>(text);
      break;
    case graph_format::dag:
    case graph_format::json:
      g = with_weights_of<Weight>(undirected<Index>(read_cost_dag_text(std::move(text), format)));
      break;
  }
  check_adjacency(g.view());
  return g;
}

/// Reads a graph from the text of a file. \throws error whose message begins with the file's name
template <std::integral Index = std::uint32_t, weight_number Weight = std::int64_t>
adjacency<Index, Weight> read_named_graph(std::string const& file, std::string text, graph_format format,
                                          graph_file_options const& options) {
  try {
    return read_graph_text<Index, Weight>(std::move(text), format, options);
  } catch (fractional_weight_error const& e) {
    throw fractional_weight_error(file, e);
  } catch (graph_file_error const& e) {
    throw graph_file_error(file, e);
  } catch (error const& e) {
    throw error(printable(file, 200) + ": " + e.what());
  }
}

/// Reads operations from the text of a file. \throws error whose message begins with the file's name
inline cost_dag read_named_cost_dag(std::string const& file, std::string text, graph_format format,
                                    double cost_per_byte) {
  if (!is_directed(format))
    throw error(printable(file, 200) + ": edges have no direction in this format; use .dag or .json");
  try {
    return read_cost_dag_text(std::move(text), format, cost_per_byte);
  } catch (graph_file_error const& e) {
    throw graph_file_error(file, e);
  } catch (error const& e) {
    throw error(printable(file, 200) + ": " + e.what());
  }
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Reads a graph from a file. The format follows from the suffix, or from the first word of the text.
///
/// Formats are METIS (.graph), Matrix Market (.mtx), edge lists (.edges, .txt) and DIMACS (.dimacs, .col,
/// .gr). Directed graphs of operations (.dag, .json) become undirected. Arrays of weights are empty if the
/// file has none. O(size of the file).
/// \throws error whose message begins with the file's name
/// \throws graph_file_error with the place, if the text violates its format or contradicts its heading
/// \throws fractional_weight_error if Weight is an integer type and a weight is not
template <std::integral Index = std::uint32_t, weight_number Weight = std::int64_t>
adjacency<Index, Weight> read_graph_file(std::string const& file, graph_file_options const& options = {}) {
  auto text = detail::text_of_graph_file(file, options);
  auto const format = graph_format_of(file, text);
  return detail::read_named_graph<Index, Weight>(file, std::move(text), format, options);
}

/// Reads the operations from a file of a directed format (.dag, .json). Module graphs do not give the cost of
/// a byte; `cost_per_byte` does. Of the options, the limit of the file's size counts. \throws error whose
/// message begins with the file's name
inline cost_dag read_cost_dag(std::string const& file, double cost_per_byte = 0,
                              graph_file_options const& options = {}) {
  auto text = detail::text_of_graph_file(file, options);
  auto const format = graph_format_of(file, text);
  return detail::read_named_cost_dag(file, std::move(text), format, cost_per_byte);
}

}  // namespace cleave
