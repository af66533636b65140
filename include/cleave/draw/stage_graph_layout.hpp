// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/draw/quotient.hpp"

namespace cleave {

/// Where a picture of a quotient has its boxes and lines; x to the right, y down, in CSS pixels.
struct stage_graph_layout {
  struct box {
    double x, y;  ///< top left
  };
  /// A piece of a link within one row. A straight piece leads from box to box; others run along a lane above
  /// the boxes and reach the row's margin where the link begins or ends in another row.
  struct piece {
    std::size_t link;
    double from_x, to_x;
    double lane_y;      ///< of the horizontal part
    double lane_width;  ///< of the widest line that shares it
    double box_y;       ///< the top of the row's boxes
    bool straight, leaves_box, enters_box;
  };
  double width = 0, height = 0, box_width = 0, box_height = 0;
  std::vector<box> boxes;          ///< of a stage
  std::vector<piece> pieces;       ///< by link, then from left to right
  std::vector<double> line_width;  ///< of a link
};

}  // namespace cleave

namespace cleave::detail {

/// Places stages from left to right in rows of at most eight, each after those it receives from. Links to the
/// next box are straight; all others share lanes above the row, those from one stage a common one, which no
/// two stages use at once.
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
  /// What runs along a lane: all links of one stage that are not straight, as far as they lie in the row.
  struct run {
    std::size_t from;  // position of the stage that sends
    double left, right;
    double width;  // of its widest line
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

  /// Kahn's order, smallest stage first.
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
      throw error("a picture of stages that need each other in a cycle; check the partition first");
  }

  void choose_columns() {
    rows_ = std::max<std::size_t>(1, (stages() + 7) / 8);
    columns_ = std::max<std::size_t>(1, (stages() + rows_ - 1) / rows_);
    left_ = rows_ > 1 ? 116 : 1;
    double const right = rows_ > 1 ? 70 : 1, room = 1072 - left_ - right;
    out_.box_width = (std::min)(130.0, 0.49 * room / static_cast<double>(columns_));
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

  /// The parts of the links that pass through a row, and its boxes. Returns where the next row may begin.
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

  /// Gives each run the lowest lane that is free over its length, short runs first. Returns each lane's
  /// height above the lowest point of the lanes.
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
      height += w + 16;  // a line of text fits between lanes
    }
    return middle;
  }

  /// Where each link enters its box from above: lower lanes further left, so that no line crosses another's
  /// label.
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
  std::vector<std::size_t> position_;  // of a stage
  std::vector<double> port_;           // of a link, in the row that is being placed
  std::size_t rows_ = 1, columns_ = 1;
  double left_ = 0;   // margin, with room for a note and a size
  double pitch_ = 0;  // from box to box
};

}  // namespace cleave::detail

namespace cleave {

/// \throws error if the stages need each other in a cycle. O(stages · links) time.
inline stage_graph_layout layout_of(quotient const& q) { return detail::stage_graph_placer(q).place(); }

}  // namespace cleave
