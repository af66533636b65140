// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "cleave/core/ids.hpp"
#include "cleave/core/real.hpp"
#include "cleave/draw/markup_writer.hpp"
#include "cleave/draw/quotient.hpp"
#include "cleave/draw/stage_graph_layout.hpp"
#include "cleave/formats/units.hpp"

namespace cleave::detail {

/// Draws a quotient into a page; `write_stage_graph` is its one use.
class stage_graph_writer {
 public:
  stage_graph_writer(markup_writer& to, quotient const& q, std::string_view unit)
      : to_(to), q_(q), unit_(unit), at_(layout_of(q)) {
    for (auto const& s : q.stages) {
      most_ = (std::max)(most_, s.cost);
      total_ += s.cost;
    }
  }

  void write() {
    to_.open("svg", {{"class", "graph"},
                     {"role", "img"},
                     {"aria-labelledby", "graph-title graph-desc"},
                     {"viewBox", "0 0 " + decimal_text(at_.width, 2) + " " + decimal_text(at_.height, 2)},
                     {"width", at_.width},
                     {"height", at_.height}});
    to_.element("title", {{"id", "graph-title"}}, "Stages and what they send");
    to_.element("desc", {{"id", "graph-desc"}}, description());
    links();
    for (std::size_t s = 0; s < q_.stages.size(); ++s) stage(s);
    to_.close("svg");
  }

 private:
  std::string description() const {
    std::string out = std::to_string(q_.stages.size()) + " stages.";
    for (auto const& l : q_.links)
      out += " Stage " + number(l.from) + " sends " + sent(l) + " to stage " + number(l.to) + ".";
    return out;
  }
  static std::string sent(stage_link const& l) {
    return count_text(l.values) + (l.values == 1 ? " value, " : " values, ") + bytes_text(l.bytes);
  }

  /// All lines of a stage at once: their light edge then separates them from other stages' lines, not from
  /// each other.
  void links() {
    auto const& pieces = at_.pieces;
    for (std::size_t i = 0; i < pieces.size();) {
      std::size_t const end = end_of_sender(i);
      for (std::size_t j = i; j < end; ++j)
        if (!pieces[j].straight)
          to_.empty("path",
                    {{"class", "halo"}, {"d", path(pieces[j])}, {"stroke-width", width(pieces[j]) + 4}});
      for (std::size_t j = i; j < end; ++j) link(pieces[j]);
      i = end;
    }
    for (auto const& p : pieces) label(p);
    for (std::size_t i = 0; i < pieces.size();) {
      std::size_t const end = end_of_sender(i);
      margin_notes(i, end);
      i = end;
    }
  }

  std::size_t end_of_sender(std::size_t i) const {
    auto const from = [&](std::size_t j) { return q_.links[at_.pieces[j].link].from; };
    std::size_t end = i;
    while (end < at_.pieces.size() && from(end) == from(i)) ++end;
    return end;
  }

  double width(stage_graph_layout::piece const& p) const { return at_.line_width[p.link]; }
  double arrow(stage_graph_layout::piece const& p) const { return (std::max)(7.0, width(p) + 4); }

  std::string path(stage_graph_layout::piece const& p) const {
    auto const n = [](double x) { return decimal_text(x, 2) + " "; };
    double const length = arrow(p) * 0.8;
    if (p.straight) return "M" + n(p.from_x) + n(p.lane_y) + "H" + n(p.to_x - length);
    double const r = (std::min)(8.0, magnitude(p.to_x - p.from_x) / 2);
    std::string d;
    if (p.leaves_box)
      d = "M" + n(p.from_x) + n(p.box_y) + "V" + n(p.lane_y + r) + "Q" + n(p.from_x) + n(p.lane_y) +
          n(p.from_x + r) + n(p.lane_y);
    else
      d = "M" + n(p.from_x) + n(p.lane_y);
    if (!p.enters_box) return d + "H" + n(p.to_x);
    return d + "H" + n(p.to_x - r) + "Q" + n(p.to_x) + n(p.lane_y) + n(p.to_x) + n(p.lane_y + r) + "V" +
           n(p.box_y - length);
  }

  void link(stage_graph_layout::piece const& p) {
    auto const& l = q_.links[p.link];
    to_.open("g", {{"class", l.bytes.known == 0 ? "link unknown" : "link"},
                   {"data-from", index(l.from)},
                   {"data-to", index(l.to)}});
    to_.element("title", "stage " + number(l.from) + " to stage " + number(l.to) + ": " + sent(l));
    to_.empty("path", {{"class", "line"}, {"d", path(p)}, {"stroke-width", width(p)}});
    if (p.enters_box) {
      auto const n = [](double x) { return decimal_text(x, 2) + " "; };
      double const size = arrow(p), half = size / 2, x = p.to_x, y = p.straight ? p.lane_y : p.box_y;
      to_.empty("path",
                {{"class", "arrow"},
                 {"d", p.straight
                           ? "M" + n(x) + n(y) + "L" + n(x - size) + n(y - half) + "V" + n(y + half) + "Z"
                           : "M" + n(x) + n(y) + "L" + n(x - half) + n(y - size) + "H" + n(x + half) + "Z"}});
    }
    to_.close("g");
  }

  /// Bytes above the line, near its end.
  void label(stage_graph_layout::piece const& p) {
    auto const content = short_size(q_.links[p.link].bytes);
    double const above = p.lane_y - p.lane_width / 2 - 4;
    if (p.straight)
      write_svg_text(to_, "size", (p.from_x + p.to_x) / 2 - 1, (std::min)(above, p.lane_y - arrow(p) / 2 - 3),
                     "middle", content);
    else if (p.enters_box)
      write_svg_text(to_, "size", p.to_x - 9, above, "end", content);
  }

  /// At most nine characters, which fit between boxes: no tenths from 100 on.
  static std::string short_size(byte_sum const& sum) {
    auto out = bytes_text(sum);
    auto const point = out.find('.');
    if (point == std::string::npos || point - out.find_first_of("0123456789") < 3) return out;
    return out.erase(point, 2);
  }

  /// Where the lines of one stage meet the margins of a row: where they come from or go on to, said once.
  void margin_notes(std::size_t begin, std::size_t end) {
    auto const& pieces = at_.pieces;
    auto const first_in_row = [&](std::size_t j, auto concerns) {
      for (std::size_t i = begin; i < j; ++i)
        if (pieces[i].box_y == pieces[j].box_y && concerns(pieces[i])) return false;
      return concerns(pieces[j]);
    };
    for (std::size_t j = begin; j < end; ++j) {
      auto const& p = pieces[j];
      double const above = p.lane_y - p.lane_width / 2 - 4;
      if (first_in_row(j, [](auto const& x) { return !x.leaves_box; }))
        write_svg_text(to_, "size", 2, above, "start", "from\u00a0" + number(q_.links[p.link].from));
      if (!first_in_row(j, [](auto const& x) { return !x.enters_box; })) continue;
      std::size_t last = j;
      for (std::size_t i = j; i < end; ++i)
        if (pieces[i].box_y == p.box_y && !pieces[i].enters_box) last = i;
      auto const nearest = number(q_.links[p.link].to), farthest = number(q_.links[pieces[last].link].to);
      write_svg_text(to_, "size", at_.width - 2, above, "end",
                     "to\u00a0" + nearest + (last == j ? "" : " … " + farthest));
    }
  }
  static std::string number(stage_id s) { return std::to_string(index(s)); }

  void stage(std::size_t s) {
    auto const& box = q_.stages[s];
    auto const [x, y] = at_.boxes[s];
    double const w = at_.box_width, h = at_.box_height;
    double const filled = most_ > 0 ? h * box.cost / most_ : 0;
    auto const name = "stage " + std::to_string(s);
    to_.open("g", {{"class", "stage"}, {"data-stage", s}});
    to_.element("title", name + ": " + nodes(box) + ", cost " + amount_text(box.cost, unit_) + ", holds " +
                             bytes_text(box.state));
    to_.empty("rect", {{"class", "ground"}, {"x", x}, {"y", y}, {"width", w}, {"height", h}, {"rx", 5}});
    to_.empty("rect", {{"class", "fill"}, {"x", x}, {"y", y + h - filled}, {"width", w}, {"height", filled}});
    if (most_ > 0 && total_ > 0) {
      double const even = y + h - h * total_ / static_cast<double>(q_.stages.size()) / most_;
      to_.empty("line", {{"class", "even"}, {"x1", x}, {"x2", x + w}, {"y1", even}, {"y2", even}});
    }
    to_.empty("rect", {{"class", "frame"}, {"x", x}, {"y", y}, {"width", w}, {"height", h}, {"rx", 5}});
    write_svg_text(to_, "name", x + w / 2, y + 32, "middle", std::to_string(s));
    write_svg_text(to_, "detail", x + w / 2, y + 54, "middle",
                   fitting(amount_text(box.cost, unit_), amount_text(box.cost, "")));
    write_svg_text(to_, "detail", x + w / 2, y + 72, "middle", fitting(nodes(box), count_text(box.nodes)));
    to_.close("g");
  }
  static std::string nodes(stage_box const& box) {
    return count_text(box.nodes) + (box.nodes == 1 ? "\u00a0node" : "\u00a0nodes");
  }
  /// The long form where it surely has room: 0.62 em a character, 11.5 pixels an em.
  std::string fitting(std::string long_form, std::string short_form) const {
    std::size_t characters = 0;
    for (char const c : long_form) characters += (c & 0xc0) != 0x80;
    return 7.1 * static_cast<double>(characters) + 8 <= at_.box_width ? long_form : short_form;
  }

  markup_writer& to_;
  quotient const& q_;
  std::string_view unit_;
  stage_graph_layout at_;
  double most_ = 0, total_ = 0;
};

}  // namespace cleave::detail

namespace cleave {

/// The stages of a cut graph as an SVG picture inside a page: boxes filled by cost, lines as wide as their
/// bytes. `unit` is that of the costs. \throws error if the stages need each other in a cycle.
inline void write_stage_graph(markup_writer& to, quotient const& q, std::string_view unit) {
  detail::stage_graph_writer(to, q, unit).write();
}

}  // namespace cleave
