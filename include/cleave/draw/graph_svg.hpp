// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/core/real.hpp"
#include "cleave/draw/markup_writer.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::inline v0_2::detail {

/// Colours of a drawn graph, for light and dark mode. Colours repeat after eight parts.
inline constexpr std::string_view graph_style = R"(
.graph { font: 13px system-ui, -apple-system, Roboto, Arial, sans-serif; }
.graph .ground { fill: #ffffff; }
.graph text { fill: #17202a; }
.graph .edge { fill: none; stroke: #9fb0c0; stroke-width: 1px; }
.graph .cut { fill: none; stroke: #d0402f; stroke-width: 1.4px; }
.graph .part0 { fill: #4e79a7; } .graph .part1 { fill: #f28e2b; }
.graph .part2 { fill: #59a14f; } .graph .part3 { fill: #b07aa1; }
.graph .part4 { fill: #edc948; } .graph .part5 { fill: #76b7b2; }
.graph .part6 { fill: #e15759; } .graph .part7 { fill: #9c755f; }
@media (prefers-color-scheme: dark) {
  .graph .ground { fill: #11161c; }
  .graph text { fill: #e7edf3; }
  .graph .edge { stroke: #587189; }
}
)";

/// Draws a partitioned graph from left to right. A column contains the nodes with the same length of the
/// longest path from a source.
template <std::unsigned_integral Index>
class graph_drawing {
 public:
  graph_drawing(basic_snapshot_arrays<Index> const& g, partition const& p) : g_(g), p_(p) {
    expects(p.of.size() == g.nodes(), "a part of each node");
    place_columns();
    place_rows();
  }

  std::string svg(std::string_view title) const {
    markup_writer to;
    auto const size = decimal_text(width, 1) + ' ' + decimal_text(height(), 1);
    to.open("svg", {{"xmlns", "http://www.w3.org/2000/svg"},
                    {"class", "graph"},
                    {"role", "img"},
                    {"aria-labelledby", "graph-title"},
                    {"viewBox", "0 0 " + size},
                    {"width", width},
                    {"height", height()}});
    to.element("title", {{"id", "graph-title"}}, printable(title, 200));
    to.open("style").markup(graph_style).close("style");
    to.empty("rect", {{"class", "ground"}, {"width", width}, {"height", height()}});
    write_edges(to, "edge", false);
    write_edges(to, "cut", true);
    for (std::uint32_t part = 0; part < p_.parts; ++part) write_part(to, part);
    to.close("svg");
    return to.str();
  }

 private:
  static constexpr double width = 1072, margin = 14, row_height = 15, legend = 34;

  bool shown(std::size_t n) const { return p_.of[n] != no_part; }
  double height() const { return legend + margin + row_height * static_cast<double>((std::max)(rows_, 1u)); }
  double step() const { return (width - 2 * margin) / static_cast<double>((std::max)(columns_, 2u) - 1); }
  double radius() const { return (std::clamp)(step() * 0.42, 1.2, 5.5); }
  double x(Index n) const { return margin + step() * column_[n]; }

  template <class Visit>
  void each_producer(std::size_t n, Visit visit) const {
    for (Index const v : g_.operands[n])
      if (Index const from = g_.producer[v]; from != none<Index> && from != n && shown(from)) visit(from);
  }

  void place_columns() {
    column_.assign(g_.nodes(), 0);
    for (std::size_t n = 0; n < g_.nodes(); ++n) {
      if (!shown(n)) continue;
      each_producer(n, [&](Index from) { column_[n] = (std::max)(column_[n], column_[from] + 1); });
      columns_ = (std::max)(columns_, column_[n] + 1);
    }
  }

  /// Orders the nodes of each column by the mean height of their producers, one row apart.
  void place_rows() {
    y_.assign(g_.nodes(), 0);
    std::vector<std::vector<Index>> in_column(columns_);
    for (Index n = 0; n < g_.nodes(); ++n)
      if (shown(n)) in_column[column_[n]].push_back(n);
    for (auto& nodes : in_column) rows_ = (std::max)(rows_, static_cast<std::uint32_t>(nodes.size()));
    double const middle = legend + row_height * static_cast<double>(rows_) / 2;
    for (auto& nodes : in_column) {
      std::vector<std::pair<double, Index>> order;
      for (Index const n : nodes) {
        double sum = 0;
        std::size_t count = 0;
        each_producer(n, [&](Index from) { sum += y_[from], ++count; });
        order.emplace_back(count > 0 ? sum / static_cast<double>(count) : middle, n);
      }
      std::sort(order.begin(), order.end());
      double const top = middle - row_height * static_cast<double>(order.size() - 1) / 2;
      for (std::size_t i = 0; i < order.size(); ++i)
        y_[order[i].second] = top + row_height * static_cast<double>(i);
    }
  }

  void write_edges(markup_writer& to, std::string_view kind, bool between_parts) const {
    std::string path;
    auto const number = [](double at) { return decimal_text(at, 1); };
    for (Index n = 0; n < g_.nodes(); ++n) {
      if (!shown(n)) continue;
      each_producer(n, [&](Index from) {
        if ((p_.of[from] != p_.of[n]) != between_parts) return;
        auto const bend = number((x(from) + x(n)) / 2);
        auto const above = ' ' + number(y_[from]), below = ' ' + number(y_[n]);
        path.append("M").append(number(x(from))).append(above);
        path.append("C").append(bend).append(above).append(" ").append(bend).append(below);
        path.append(" ").append(number(x(n))).append(below);
      });
    }
    if (!path.empty()) to.empty("path", {{"class", kind}, {"d", path}});
  }

  void write_part(markup_writer& to, std::uint32_t part) const {
    auto const hue = "part" + std::to_string(part % 8);
    std::size_t count = 0;
    to.open("g", {{"class", hue}});
    for (Index n = 0; n < g_.nodes(); ++n)
      if (shown(n) && index(p_.of[n]) == part) {
        ++count;
        to.empty("circle", {{"cx", x(n)}, {"cy", y_[n]}, {"r", radius()}});
      }
    to.close("g");
    constexpr std::uint32_t most_named = 7;  // the legend has no room for more
    if (part >= most_named) return;
    double const at = margin + 150 * static_cast<double>(part);
    to.empty("circle", {{"class", hue}, {"cx", at}, {"cy", 14}, {"r", 5.5}});
    write_svg_text(to, "name", at + 11, 18.5, "start",
                   "stage " + std::to_string(part) + ": " + std::to_string(count) + " nodes");
  }

  basic_snapshot_arrays<Index> const& g_;
  partition const& p_;
  std::vector<std::uint32_t> column_;  // for each node
  std::vector<double> y_;              // for each node
  std::uint32_t columns_ = 0, rows_ = 0;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a drawing of a partitioned graph as SVG. Nodes have the colours of their parts, and edges between
/// parts are red. Replicable nodes, which have no part, are omitted. O(V log V + E).
/// \param title title of the picture for screen readers
/// \pre `p` has an entry for each node of `g`
template <std::unsigned_integral Index>
std::string write_graph_svg(basic_snapshot_arrays<Index> const& g, partition const& p,
                            std::string_view title = "A partitioned graph") {
  return detail::graph_drawing<Index>(g, p).svg(title);
}

}  // namespace cleave
