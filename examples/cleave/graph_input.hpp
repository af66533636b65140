// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cleave/core/error.hpp>
#include <cleave/formats/graph_files/graph_file.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files.hpp"
#include "options.hpp"

/// Graphs in files and from stdin, and their formats.
namespace tool {

/// A format of graphs by the name that --format takes, with a suffix of its files and what messages call it.
struct named_format {
  std::string_view name, suffix, what;
};
inline constexpr std::array<named_format, 8> named_formats = {{{"metis", ".graph", "METIS"},
                                                               {"mtx", ".mtx", "Matrix Market"},
                                                               {"edges", ".edges", "a list of edges"},
                                                               {"dimacs", ".dimacs", "DIMACS"},
                                                               {"dag", ".dag", ".dag"},
                                                               {"json", ".json", "JSON"},
                                                               {"hmetis", ".hgr", "hMETIS"},
                                                               {"patoh", ".u", "PaToH"}}};
inline constexpr std::size_t undirected_among_formats = 4;  ///< the next two are of computations
inline constexpr std::size_t graphs_among_formats = 6;      ///< the others are of hypergraphs

/// The shape of a text of numbers: the words of its first line, and the lines below it. Comments do not
/// count.
struct number_lines {
  std::vector<std::uint64_t> heading;  ///< empty if a word is no whole number
  std::vector<std::size_t> words;      ///< of each line below
  bool has_hash_comments = false;

  static number_lines of(std::string_view text) {
    number_lines found;
    bool words_are_whole = true;
    for (bool is_first = true; !text.empty();) {
      auto const line = text.substr(0, text.find('\n'));
      text.remove_prefix((std::min)(line.size() + 1, text.size()));
      if (line.starts_with('%') || line.starts_with('#')) {
        found.has_hash_comments |= line.starts_with('#');
        continue;
      }
      std::size_t count = 0;
      for (std::size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != line.npos; ++count) {
        auto const end = (std::min)(line.find_first_of(" \t\r", at), line.size());
        if (is_first)
          words_are_whole &= read_number(line.substr(at, end - at), found.heading.emplace_back(),
                                         std::uint64_t{0}, ~std::uint64_t{0});
        at = end;
      }
      if (!is_first) found.words.push_back(count);
      is_first = is_first && count == 0;  // empty lines before the first do not count
    }
    if (!words_are_whole) found.heading.clear();
    return found;
  }

  std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (auto const n : words) sum += n;
    return sum;
  }
  /// Returns the number of lines that are not empty.
  std::uint64_t filled() const {
    return words.size() - static_cast<std::size_t>(std::ranges::count(words, 0));
  }
};

/// Returns whether a text of this shape can be METIS: the heading counts the rows and the edges.
inline bool fits_metis(number_lines const& t) {
  bool const has_weights = t.heading.size() > 2;
  return !t.has_hash_comments && t.heading.size() >= 2 && t.heading.size() <= 4 &&
         t.words.size() == t.heading[0] && (has_weights || t.total() == 2 * t.heading[1]);
}

/// Returns whether it can be a list of edges: all lines have two words, or all have three.
inline bool fits_edges(number_lines const& t) {
  auto const each = t.heading.size();
  return (each == 2 || each == 3) &&
         std::ranges::all_of(t.words, [&](std::size_t n) { return n == each || n == 0; });
}

/// Returns whether it can be a `.dag`: a line with two words for each node, and one with three for each arc.
inline bool fits_dag(number_lines const& t) {
  if (t.heading.size() != 2 || t.filled() != t.heading[0] + t.heading[1]) return false;
  std::uint64_t line = 0;
  return std::ranges::all_of(t.words,
                             [&](std::size_t n) { return n == 0 || n == (line++ < t.heading[0] ? 2u : 3u); });
}

/// Returns whether it can be hMETIS: the heading counts the nets, and the nodes if they have weights.
inline bool fits_hmetis(number_lines const& t) {
  if (t.has_hash_comments || t.heading.size() < 2 || t.heading.size() > 3) return false;
  bool const has_weights = t.heading.size() == 3 && t.heading[2] >= 10;
  return t.filled() == t.heading[0] + (has_weights ? t.heading[1] : 0);
}

/// Returns whether it can be PaToH: the heading has the number of the first cell, then counts cells, nets and
/// pins.
inline bool fits_patoh(number_lines const& t) {
  return !t.has_hash_comments && t.heading.size() >= 4 && t.heading[0] <= 1 && t.filled() >= t.heading[2] &&
         t.total() >= t.heading[3];
}

/// Returns the suffix of the format in which a text is, by its first word or the shape of its lines. A text
/// that fits METIS and hMETIS is METIS, whose rows must agree with each other.
/// \throws cleave::error if several formats fit, or none
inline std::string_view suffix_by_content(std::string_view text) {
  cleave::detail::check_graph_beginning(input_name("-"), text);
  auto const first = text.substr((std::min)(text.find_first_not_of(" \t\r\n"), text.size()));
  if (first.starts_with("%%MatrixMarket")) return ".mtx";
  if (first.starts_with('{')) return ".json";
  if (first.starts_with("c ") || first.starts_with("c\n") || first.starts_with("p ")) return ".dimacs";
  auto const lines = number_lines::of(text);
  std::vector<std::string_view> fitting;
  std::string names;
  for (auto const& [suffix, fits] : {std::pair<std::string_view, bool>(".graph", fits_metis(lines)),
                                     {".edges", fits_edges(lines)},
                                     {".dag", fits_dag(lines)},
                                     {".hgr", fits_hmetis(lines) && !fits_metis(lines)},
                                     {".u", fits_patoh(lines) && !fits_metis(lines)}}) {
    if (!fits) continue;
    auto const known = std::ranges::find(named_formats, suffix, &named_format::suffix);
    names += (names.empty() ? "" : " or ") + std::string(known->what);
    fitting.push_back(suffix);
  }
  if (fitting.size() == 1) return fitting.front();
  throw cleave::error(input_name("-") + ": " +
                      (first.empty()     ? "there is nothing in it; a graph was expected"
                       : fitting.empty() ? "its content has no format of a graph that is known, or does not "
                                           "fit its heading; name the format with --format"
                                         : "its content could be " + names + "; say which with --format"));
}

/// A graph to read: a file, or `-` for stdin, and the suffix of its format if the name does not tell it.
struct graph_input {
  std::string file;
  std::string given{};  ///< by --format, or found in the content of stdin

  std::string name() const { return input_name(file); }
  /// Returns a name that ends with the suffix of the format: the given suffix, or the name of the file.
  std::string const& suffixed() const { return given.empty() ? file : given; }
  /// Finds the format of stdin. \throws cleave::error if it is not clear
  void find_format() {
    if (is_standard(file) && given.empty()) given = suffix_by_content(standard_input());
  }
};

/// Adds --format with the first `count` formats.
inline void add_format_option(command& c, graph_input& to, std::size_t count) {
  std::vector<std::string> names;
  for (auto const& f : named_formats)
    if (names.size() < count) names.emplace_back(f.name);
  c.options.push_back(
      choice_option("--format", "NAME", names,
                    "format of the graph, if name and content do not tell it: " + alternatives(names),
                    [&to](std::size_t at) { to.given = named_formats[at].suffix; }));
}

/// Returns the text of a graph and its format. \throws cleave::error
inline std::pair<std::string, cleave::graph_format> read_graph_text(graph_input const& from) {
  auto text = is_standard(from.file) ? read_text(from.file)
                                     : cleave::detail::text_of_graph_file(from.file, limited({}));
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  try {
    auto const format = cleave::graph_format_of(from.suffixed(), text);
    return {std::move(text), format};
  } catch (cleave::error const& e) {
    throw cleave::error(std::string(e.what()) + "; or name the format with --format");
  }
}

/// Reads a graph. \throws cleave::error whose message begins with its name
template <class Index, class Weight = std::int64_t>
cleave::adjacency<Index, Weight> read_graph_of(graph_input const& from,
                                               cleave::graph_file_options const& options) {
  auto [text, format] = read_graph_text(from);
  return cleave::detail::read_named_graph<Index, Weight>(from.name(), std::move(text), format, options);
}

/// Reads a directed graph of operations. \throws cleave::error whose message begins with its name
inline cleave::cost_dag read_cost_dag_of(graph_input const& from, double cost_per_byte) {
  auto [text, format] = read_graph_text(from);
  return cleave::detail::read_named_cost_dag(from.name(), std::move(text), format, cost_per_byte);
}

}  // namespace tool
