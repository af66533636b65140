// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/real.hpp"
#include "cleave/draw/markup_writer.hpp"
#include "cleave/formats/units.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/split/plan.hpp"

namespace cleave::inline v0_2 {

/// A sum of sizes that counts unknown ones separately. It saturates instead of overflowing.
struct byte_sum {
  std::uint64_t known = 0;  ///< bytes of the values with a known size
  std::size_t unknown = 0;  ///< number of values without a known size

  void add(byte_sum const& other) {
    unknown += other.unknown;
    known = known > UINT64_MAX - other.known ? UINT64_MAX : known + other.known;
  }
  void add(std::size_t bytes) { add(byte_sum{bytes, bytes == 0}); }
  bool operator==(byte_sum const&) const = default;
};

/// Returns `3 MiB`, or `≥3 MiB` if some sizes are unknown, or `? B` if all are.
inline std::string bytes_text(byte_sum const& sum) {
  if (sum.unknown == 0) return bytes_text(sum.known);
  return sum.known == 0 ? "?\u00a0B" : "≥" + bytes_text(sum.known);
}

/// A stage as one box of the picture.
struct stage_box {
  std::size_t nodes = 0;
  double cost = 0;  ///< sum of the weights of its nodes
  byte_sum state;   ///< parameters, buffers and constants; shared storage counts once
  byte_sum in;      ///< values received from the caller or other stages
  byte_sum out;     ///< values sent to other stages or the caller, each once

  bool operator==(stage_box const&) const = default;
};

/// All values that one stage sends to another.
struct stage_link {
  stage_id from, to;
  std::size_t values = 0;
  byte_sum bytes;

  bool operator==(stage_link const&) const = default;
};

/// A cut graph with one box per stage, small enough to show on one page for any graph.
struct quotient {
  std::vector<stage_box> stages;
  std::vector<stage_link> links;  ///< sorted by sender, then by receiver

  bool operator==(quotient const&) const = default;
};

/// A node of a stage, as a report lists it.
struct report_node {
  std::string name, operation;
  double cost = 0;  ///< in the unit of the report
};

/// A value that one stage sends to another, as a report lists it.
struct report_transfer {
  std::string value;
  stage_id from, to;
  byte_sum bytes;
};

/// Returns the bytes of a value, or 0 if they are unknown.
template <std::unsigned_integral Index>
std::size_t bytes_of(basic_snapshot_arrays<Index> const& g, Index value) {
  return g.bytes.empty() ? 0 : g.bytes[value];
}

/// Returns the quotient of the plan `p` of `g`, one box per stage. O(V + E + T log T) for T transfers.
template <std::unsigned_integral Index>
quotient quotient_of(basic_snapshot_arrays<Index> const& g, basic_plan<Index> const& p) {
  quotient q;
  for (auto const& s : p.stages) {
    auto& box = q.stages.emplace_back();
    box.nodes = s.nodes.size();
    if (!g.weight.empty())
      for (Index const n : s.nodes) box.cost += g.weight[n];
    std::vector<std::pair<Index, Index>> held;  // storage, value
    for (Index const v : s.state) held.emplace_back(g.storage.empty() ? v : g.storage[v], v);
    std::ranges::sort(held);
    auto const same_storage = [](auto const& a, auto const& b) { return a.first == b.first; };
    held.erase(std::unique(held.begin(), held.end(), same_storage), held.end());
    for (auto const& [storage, v] : held) box.state.add(bytes_of(g, v));
    for (Index const v : s.inputs) box.in.add(bytes_of(g, v));
    for (Index const v : s.outputs) box.out.add(bytes_of(g, v));
  }

  auto sent = p.transfers;
  std::ranges::sort(sent, {}, [](auto const& t) { return std::tuple(t.from, t.to, t.value); });
  for (auto const& t : sent) {
    if (q.links.empty() || q.links.back().from != t.from || q.links.back().to != t.to)
      q.links.push_back({t.from, t.to, 0, {}});
    ++q.links.back().values;
    q.links.back().bytes.add(bytes_of(g, t.value));
  }
  return q;
}
/// Positions of the boxes and lines of a quotient's picture. x grows to the right and y down, in CSS pixels.
struct stage_graph_layout {
  struct box {
    double x, y;  ///< top left
  };
  /// The part of a link within one row. A straight piece leads from box to box. Other pieces run along a lane
  /// above the boxes, and reach the margin of the row if the link starts or ends in another row.
  struct piece {
    std::size_t link;
    double from_x, to_x;
    double lane_y;      ///< y of the horizontal part
    double lane_width;  ///< width of the widest line that shares the lane
    double box_y;       ///< top of the boxes of the row
    bool straight, leaves_box, enters_box;
  };
  double width = 0, height = 0, box_width = 0, box_height = 0;
  std::vector<box> boxes;          ///< for each stage
  std::vector<piece> pieces;       ///< sorted by link, then from left to right
  std::vector<double> line_width;  ///< for each link
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Places the stages from left to right in rows of at most six, each after the stages it receives from.
/// Links to the next box are straight. The other links run in lanes above the row: those from one stage share
/// a lane, and no two stages use the same part of a lane.
class stage_graph_placer {
 public:
  explicit stage_graph_placer(quotient const& q) : q_(q) {}

  stage_graph_layout place() {
    sort_stages();
    choose_columns();
    choose_line_widths();
    out_.boxes.resize(stages());
    double y = 4;
    for (std::size_t row = 0; row < rows_; ++row) y = place_row(row, y);
    std::ranges::sort(out_.pieces, {}, [](auto const& p) { return std::pair(p.link, p.box_y); });
    out_.height = y;
    return std::move(out_);
  }

 private:
  /// One horizontal segment in a lane: all bent links that leave one stage, within one row.
  struct run {
    std::size_t from;  // position of the sending stage
    double left, right;
    double width;  // width of its widest line
    std::vector<std::size_t> links;
    std::size_t lane = 0;
  };

  std::size_t stages() const { return q_.stages.size(); }
  std::size_t row_of(std::size_t position) const { return position / columns_; }
  std::size_t sender(std::size_t link) const { return position_[index(q_.links[link].from)]; }
  std::size_t receiver(std::size_t link) const { return position_[index(q_.links[link].to)]; }
  double left_of(std::size_t position) const {
    return left_ + static_cast<double>(position % columns_) * pitch_;
  }
  bool is_straight(std::size_t link) const {
    return receiver(link) == sender(link) + 1 && row_of(sender(link)) == row_of(receiver(link));
  }

  /// Orders the stages by Kahn's algorithm, the smallest ready stage first.
  /// \throws error if the stages form a cycle
  void sort_stages() {
    std::vector<std::size_t> waits(stages());
    for (auto const& l : q_.links) ++waits[index(l.to)];
    std::vector<std::size_t> ready;
    for (std::size_t s = stages(); s-- > 0;)
      if (waits[s] == 0) ready.push_back(s);
    position_.assign(stages(), stages());
    for (std::size_t next = 0; !ready.empty(); ++next) {
      auto const smallest = std::ranges::min_element(ready);
      std::size_t const s = *smallest;
      ready.erase(smallest);
      position_[s] = next;
      for (auto const& l : q_.links)
        if (index(l.from) == s && --waits[index(l.to)] == 0) ready.push_back(index(l.to));
    }
    if (std::ranges::find(position_, stages()) != position_.end())
      throw error("cannot draw stages that depend on each other in a cycle; check the partition first");
  }

  void choose_columns() {
    rows_ = std::max<std::size_t>(1, (stages() + 5) / 6);
    columns_ = std::max<std::size_t>(1, (stages() + rows_ - 1) / rows_);
    left_ = rows_ > 1 ? 116 : 1;
    double const right = rows_ > 1 ? 70 : 1, room = 1072 - left_ - right;
    out_.box_width = (std::min)(130.0, 0.58 * room / static_cast<double>(columns_));
    if (columns_ > 1) pitch_ = (std::min)(330.0, (room - out_.box_width) / static_cast<double>(columns_ - 1));
    out_.box_height = 92;
    out_.width = left_ + right + out_.box_width + pitch_ * static_cast<double>(columns_ - 1);
  }

  void choose_line_widths() {
    std::uint64_t most = 1;
    for (auto const& l : q_.links) most = (std::max)(most, l.bytes.known);
    for (auto const& l : q_.links)
      out_.line_width.push_back(
          (std::max)(1.25, 10 * static_cast<double>(l.bytes.known) / static_cast<double>(most)));
  }

  /// Places the boxes of a row and the pieces of links that pass through it. Returns the y at which the next
  /// row may begin.
  double place_row(std::size_t row, double y) {
    auto runs = runs_in(row);
    auto const lane_middle = share_lanes(runs);
    double const top = y + (lane_middle.empty() ? 8 : lane_middle.back() + 30);
    for (std::size_t p = row * columns_; p < (std::min)(stages(), (row + 1) * columns_); ++p)
      out_.boxes[stage_at(p)] = {left_of(p), top};
    for (std::size_t i = 0; i < q_.links.size(); ++i)
      if (is_straight(i) && row_of(sender(i)) == row)
        out_.pieces.push_back({i, left_of(sender(i)) + out_.box_width, left_of(receiver(i)),
                               top + out_.box_height / 2, out_.line_width[i], top, true, true, true});
    place_ports(row, runs);
    for (auto const& r : runs)
      for (std::size_t const link : r.links)
        if (row_of(receiver(link)) >= row)
          out_.pieces.push_back({link, r.left, row_of(receiver(link)) == row ? port_[link] : out_.width,
                                 top - 16 - lane_middle[r.lane], r.width, top, false, row_of(r.from) == row,
                                 row_of(receiver(link)) == row});
    return top + out_.box_height + (row + 1 < rows_ ? 30 : 8);
  }

  std::size_t stage_at(std::size_t position) const {
    return static_cast<std::size_t>(std::ranges::find(position_, position) - position_.begin());
  }

  /// Returns the segments of bent links in a row.
  std::vector<run> runs_in(std::size_t row) const {
    std::vector<run> runs(stages());
    for (std::size_t i = 0; i < q_.links.size(); ++i) {
      if (is_straight(i) || row_of(sender(i)) > row || row_of(receiver(i)) < row) continue;
      auto& r = runs[sender(i)];
      r.links.push_back(i);
      double const end =
          row_of(receiver(i)) == row ? left_of(receiver(i)) + 0.62 * out_.box_width : out_.width;
      r.right = (std::max)(r.links.size() == 1 ? 0 : r.right, end);
      r.width = (std::max)(r.links.size() == 1 ? 0 : r.width, out_.line_width[i]);
    }
    for (std::size_t p = 0; p < runs.size(); ++p) {
      runs[p].from = p;
      runs[p].left = row_of(p) == row ? left_of(p) + 0.82 * out_.box_width : 0;
    }
    std::erase_if(runs, [](run const& r) { return r.links.empty(); });
    return runs;
  }

  /// Gives each run the lowest lane that is free over its length, short runs first. Returns the height of
  /// each lane above the bottom of the lanes.
  static std::vector<double> share_lanes(std::vector<run>& runs) {
    std::ranges::sort(runs, {}, [](run const& r) { return std::pair(r.right - r.left, r.from); });
    std::vector<double> width;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      std::vector<char> taken(runs.size());
      for (std::size_t j = 0; j < i; ++j)
        if (runs[j].left < runs[i].right + 6 && runs[i].left < runs[j].right + 6) taken[runs[j].lane] = 1;
      runs[i].lane = static_cast<std::size_t>(std::ranges::find(taken, 0) - taken.begin());
      if (runs[i].lane == width.size()) width.push_back(0);
      width[runs[i].lane] = (std::max)(width[runs[i].lane], runs[i].width);
    }
    std::vector<double> middle;
    double height = 0;
    for (double const w : width) {
      middle.push_back(height + w / 2);
      height += w + 16;  // leaves room for a line of text between lanes
    }
    return middle;
  }

  /// Chooses the x at which each link enters its box from above. Lower lanes enter further left, so that no
  /// line crosses the label of another.
  void place_ports(std::size_t row, std::vector<run> const& runs) {
    port_.resize(q_.links.size());
    for (std::size_t p = row * columns_; p < (std::min)(stages(), (row + 1) * columns_); ++p) {
      std::vector<std::pair<std::size_t, std::size_t>> entering;  // lane, link
      for (auto const& r : runs)
        for (std::size_t const link : r.links)
          if (receiver(link) == p) entering.emplace_back(r.lane, link);
      std::ranges::sort(entering);
      double const step = (std::min)(
          16.0, 0.5 * out_.box_width / static_cast<double>(std::max<std::size_t>(1, entering.size())));
      for (std::size_t i = 0; i < entering.size(); ++i)
        port_[entering[i].second] = left_of(p) + 0.14 * out_.box_width + step * static_cast<double>(i);
    }
  }

  quotient const& q_;
  stage_graph_layout out_;
  std::vector<std::size_t> position_;  // for each stage
  std::vector<double> port_;           // for each link, in the row that is being placed
  std::size_t rows_ = 1, columns_ = 1;
  double left_ = 0;   // left margin, with room for a note and a size
  double pitch_ = 0;  // distance between the left edges of adjacent boxes
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the layout of a quotient's picture. O(stages × links) time.
/// \throws error if the stages depend on each other in a cycle
inline stage_graph_layout layout_of(quotient const& q) { return detail::stage_graph_placer(q).place(); }

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Draws a quotient into a page. Helper of `write_stage_graph`.
class stage_graph_writer {
 public:
  /// If `linked`, a box is a link to the contents of its stage.
  stage_graph_writer(markup_writer& to, quotient const& q, std::string_view unit, bool linked)
      : to_(to), q_(q), unit_(unit), linked_(linked), at_(layout_of(q)) {
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

  /// Draws all links. The lines of one stage are drawn together, so that their light edges separate them from
  /// lines of other stages but not from each other.
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

  /// Returns the end of the pieces that have the same sender as piece `i`.
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

  /// Writes the bytes of a link above its line, near the end.
  void label(stage_graph_layout::piece const& p) {
    auto const content = short_size(q_.links[p.link].bytes);
    double const above = p.lane_y - p.lane_width / 2 - 4;
    if (p.straight)
      write_svg_text(to_, "size", (p.from_x + p.to_x) / 2 - 1, (std::min)(above, p.lane_y - arrow(p) / 2 - 3),
                     "middle", content);
    else if (p.enters_box)
      write_svg_text(to_, "size", p.to_x - 9, above, "end", content);
  }

  /// Returns a size of at most nine characters, which fits between boxes: from 100 on it has no decimals.
  static std::string short_size(byte_sum const& sum) {
    auto out = bytes_text(sum);
    auto const point = out.find('.');
    if (point == std::string::npos || point - out.find_first_of("0123456789") < 3) return out;
    return out.erase(point, 2);
  }

  /// Writes notes where the lines of one stage meet the margins of a row. A note names the stages that the
  /// lines come from or go to, once per row.
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
    if (linked_) to_.open("a", {{"href", "#stage-" + std::to_string(s)}});
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
    detail(x + w / 2, y + 54, amount_text(box.cost, unit_));
    detail(x + w / 2, y + 72, nodes(box));
    to_.close("g");
    if (linked_) to_.close("a");
  }
  static std::string nodes(stage_box const& box) {
    return count_text(box.nodes) + (box.nodes == 1 ? "\u00a0node" : "\u00a0nodes");
  }
  /// Writes a line into a box. A line that might be wider than the box, at 0.62 em per character and 11.5
  /// pixels per em, is set more tightly.
  void detail(double x, double y, std::string const& text) {
    auto const characters = std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; });
    double const room = at_.box_width - 8;
    if (7.1 * static_cast<double>(characters) <= room)
      return write_svg_text(to_, "detail", x, y, "middle", text);
    to_.element("text",
                {{"class", "detail"},
                 {"x", x},
                 {"y", y},
                 {"text-anchor", "middle"},
                 {"textLength", room},
                 {"lengthAdjust", "spacingAndGlyphs"}},
                text);
  }

  markup_writer& to_;
  quotient const& q_;
  std::string_view unit_;
  bool linked_;
  stage_graph_layout at_;
  double most_ = 0, total_ = 0;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Draws the stages of a cut graph as an SVG picture inside a page. Boxes are filled in proportion to their
/// cost; the width of a line is proportional to its bytes.
/// \param unit unit of the costs, such as `FLOP`
/// \throws error if the stages depend on each other in a cycle
inline void write_stage_graph(markup_writer& to, quotient const& q, std::string_view unit) {
  detail::stage_graph_writer(to, q, unit, false).write();
}

}  // namespace cleave
