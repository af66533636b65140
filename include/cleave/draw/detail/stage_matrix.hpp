// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/real.hpp"
#include "cleave/draw/markup_writer.hpp"
#include "cleave/draw/stage_graph.hpp"
#include "cleave/formats/units.hpp"

namespace cleave::inline v0_2::detail {

/// The largest number of stages whose transfers are drawn as lines. With more, lines cannot be followed.
inline constexpr std::size_t most_stages_with_lines = 12;

/// Draws the transfers between stages as a matrix: a row for each sender, a column for each receiver, and a
/// shade that grows with the square root of the bytes. O(stages + links).
class stage_matrix_writer {
 public:
  /// If `linked`, a cell is a link to the contents of its sender.
  stage_matrix_writer(markup_writer& to, quotient const& q, bool linked) : to_(to), q_(q), linked_(linked) {
    auto const stages = static_cast<double>(std::max<std::size_t>(1, q.stages.size()));
    cell_width_ = (std::min)(46.0, (1072 - left - 2) / stages);
    cell_height_ = (std::min)(26.0, cell_width_);
    for (auto const& l : q.links) most_ = (std::max)(most_, l.bytes.known);
  }

  void write() {
    auto const stages = static_cast<double>(q_.stages.size());
    double const width = left + stages * cell_width_ + 2, height = top + stages * cell_height_ + 2;
    to_.open("svg", {{"class", "graph matrix"},
                     {"role", "img"},
                     {"aria-labelledby", "matrix-title"},
                     {"viewBox", "0 0 " + decimal_text(width, 2) + " " + decimal_text(height, 2)},
                     {"width", width},
                     {"height", height}});
    to_.element("title", {{"id", "matrix-title"}}, "Bytes that each stage sends to each other stage");
    to_.empty("rect", {{"class", "ground"},
                       {"x", left},
                       {"y", top},
                       {"width", stages * cell_width_},
                       {"height", stages * cell_height_}});
    write_svg_text(to_, "size", left + stages * cell_width_ / 2, 12, "middle", "receiving stage");
    write_svg_text(to_, "size", 2, top - 6, "start", "sender");
    labels();
    diagonal();
    for (auto const& l : q_.links) cell(l);
    to_.close("svg");
  }

 private:
  static constexpr double left = 52, top = 34;

  double x(std::size_t stage) const { return left + static_cast<double>(stage) * cell_width_; }
  double y(std::size_t stage) const { return top + static_cast<double>(stage) * cell_height_; }

  /// Writes the numbers of stages along both sides, as many as there is room for, and a line beside each.
  void labels() {
    auto const each = [](double cell, double room) {
      std::size_t step = 1;
      while (cell * static_cast<double>(step) < room) step *= 2;
      return step;
    };
    auto const columns = each(cell_width_, q_.stages.size() > 1000 ? 40 : 20), rows = each(cell_height_, 12);
    for (std::size_t s = 0; s < q_.stages.size(); ++s) {
      auto const number = std::to_string(s);
      if (s % columns == 0) write_svg_text(to_, "size", x(s) + cell_width_ / 2, top - 6, "middle", number);
      if (s % rows == 0) write_svg_text(to_, "size", left - 6, y(s) + cell_height_ / 2 + 4, "end", number);
      if (s % columns == 0 && s > 0)
        to_.empty("line",
                  {{"class", "grid"}, {"x1", x(s)}, {"x2", x(s)}, {"y1", top}, {"y2", y(q_.stages.size())}});
      if (s % rows == 0 && s > 0)
        to_.empty("line",
                  {{"class", "grid"}, {"x1", left}, {"x2", x(q_.stages.size())}, {"y1", y(s)}, {"y2", y(s)}});
    }
  }

  void diagonal() {
    std::string path;
    for (std::size_t s = 0; s < q_.stages.size(); ++s)
      path += 'M' + decimal_text(x(s), 2) + ' ' + decimal_text(y(s), 2) + 'h' + decimal_text(cell_width_, 2) +
              'v' + decimal_text(cell_height_, 2) + "h-" + decimal_text(cell_width_, 2) + 'z';
    to_.empty("path", {{"class", "diagonal"}, {"d", path}});
  }

  void cell(stage_link const& l) {
    std::size_t const from = index(l.from), to = index(l.to);
    double const share = most_ > 0 ? static_cast<double>(l.bytes.known) / static_cast<double>(most_) : 0;
    if (linked_) to_.open("a", {{"href", "#stage-" + std::to_string(from)}});
    to_.open("g",
             {{"class", l.bytes.known == 0 ? "link unknown" : "link"}, {"data-from", from}, {"data-to", to}});
    to_.element("title", "stage " + std::to_string(from) + " to stage " + std::to_string(to) + ": " +
                             count_text(l.values) + (l.values == 1 ? " value, " : " values, ") +
                             bytes_text(l.bytes));
    to_.empty("rect", {{"class", "cell"},
                       {"x", x(to) + 0.5},
                       {"y", y(from) + 0.5},
                       {"width", (std::max)(0.5, cell_width_ - 1)},
                       {"height", (std::max)(0.5, cell_height_ - 1)},
                       {"fill-opacity", 0.15 + 0.85 * square_root(share)}});
    if (cell_width_ >= 36) amount(l, x(to) + cell_width_ / 2, y(from), share > 0.3 ? "strong" : "weak");
    to_.close("g");
    if (linked_) to_.close("a");
  }

  /// Writes the bytes in two lines, the number above its unit.
  void amount(stage_link const& l, double at, double y, std::string_view kind) {
    auto const text = bytes_text(l.bytes);
    auto const gap = text.rfind("\u00a0");
    write_svg_text(to_, kind, at, y + 11.5, "middle", text.substr(0, gap));
    write_svg_text(to_, kind, at, y + 21.5, "middle", text.substr(gap + 2));
  }

  markup_writer& to_;
  quotient const& q_;
  bool linked_;
  double cell_width_, cell_height_;
  std::uint64_t most_ = 0;
};

}  // namespace cleave::detail
