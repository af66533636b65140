// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/draw/markup_writer.hpp"
#include "cleave/draw/schedule_frame.hpp"
#include "cleave/draw/schedule_style.hpp"
#include "cleave/formats/timed_schedule.hpp"
#include "cleave/formats/units.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/action_text.hpp"

namespace cleave {

struct schedule_svg_options {
  enum class detail : std::uint8_t {
    hover,  ///< each bar is an element that tells, when pointed at, what it is
    plain,  ///< much smaller: the bars of one colour are one path
  };
  detail bars = detail::hover;
  double width = 0;  ///< of the time axis, in pixels; 0: what the bars need to be told apart, 908 at least
  std::string id = "schedule";  ///< of the picture, one of its own for each in a page
};

}  // namespace cleave

namespace cleave::detail {

/// Draws a schedule; `write_schedule` is its one use.
class schedule_drawing {
 public:
  schedule_drawing(markup_writer& to, timed_schedule const& t, schedule_svg_options const& options)
      : to_(to),
        t_(t),
        options_(options),
        frame_(t, options.width),
        bars_(bars_of(t.order, t.times)),
        local_(local_numbers(t.order.place)) {}

  void write() {
    auto const size = decimal_text(frame_.full_width(), 1) + ' ' + decimal_text(frame_.full_height(), 1);
    to_.open("svg", {{"xmlns", "http://www.w3.org/2000/svg"},
                     {"class", "schedule"},
                     {"role", "img"},
                     {"aria-labelledby", options_.id + "-title " + options_.id + "-desc"},
                     {"viewBox", "0 0 " + size},
                     {"width", frame_.full_width()},
                     {"height", frame_.full_height()}});
    to_.element("title", {{"id", options_.id + "-title"}}, printable(t_.name, 200));
    to_.element("desc", {{"id", options_.id + "-desc"}}, description());
    to_.open("style").markup(schedule_style).close("style");
    write_frame();
    options_.bars == schedule_svg_options::detail::hover ? write_bars() : write_plain_bars();
    write_critical();
    to_.close("svg");
  }

 private:
  struct box {
    double x, y, width, height;
  };

  std::string description() const {
    auto text = "The step takes " + time_text(t_, t_.times.makespan) + "; the bubble is " +
                percent_text(bubble_rate(t_.times)) + " of it.";
    for (std::size_t r = 0; r < frame_.ranks() && frame_.ranks() <= 16; ++r)
      text += " Rank " + std::to_string(r) + ": " +
              percent_text(1 - t_.times.busy[r] / drawn_time(t_.times)) + ".";
    return text;
  }

  void write_frame() {
    std::array<bool, 5> hues{};
    for (auto const& b : bars_)
      hues[is_compute(b.what.kind) ? static_cast<std::size_t>(b.what.kind) - 1 : 4] = true;
    frame_.write(to_, hues, local_.empty() ? 0 : *std::ranges::max_element(local_) + 1);
  }

  std::string class_of(action const& a) const {
    auto const tint = index(a.stage) < local_.size() ? local_[index(a.stage)] % 4 : 0;
    return std::string(hue_of(a.kind).style) + std::to_string(tint);
  }
  box box_of(schedule_bar const& b) const {
    double const x = frame_.x(b.begin), width = frame_.scale * (b.end - b.begin),
                 y = frame_.row(index(b.rank));
    if (b.is_beside) return {x, y + frame_.row_height - 4, width, 4};
    double const lane = frame_.row_height / b.lanes;
    return {x, y + lane * b.lane, width, lane};
  }
  static std::string outline(box const& at) {
    auto const width = decimal_text(at.width, 1);
    return 'M' + decimal_text(at.x, 1) + ' ' + decimal_text(at.y, 1) + 'h' + width + 'v' +
           decimal_text(at.height, 1) + "h-" + width + 'z';
  }

  /// The microbatch in a bar, if there is room.
  void write_number(schedule_bar const& b, box const& at) {
    if (b.what.microbatch == no_microbatch || at.height < 10) return;
    auto const number = std::to_string(index(b.what.microbatch));
    if (at.width < 1 + 6.6 * static_cast<double>(number.size())) return;
    to_.element("text", {{"class", "number"}, {"x", at.x + at.width / 2}, {"y", at.y + at.height / 2 + 4}},
                number);
  }

  void write_bars() {
    for (auto const& b : bars_) {
      auto const at = box_of(b);
      to_.open("g", {{"class", "work"}});
      to_.element("title", "rank " + std::to_string(index(b.rank)) + ": " + action_text(b.what) + ", " +
                               time_text(t_, b.end - b.begin) + ", from " + time_text(t_, b.begin) + " to " +
                               time_text(t_, b.end));
      to_.empty("rect", {{"class", "bar " + class_of(b.what)},
                         {"data-rank", index(b.rank)},
                         {"data-action", action_text(b.what)},
                         {"x", at.x},
                         {"y", at.y},
                         {"width", at.width},
                         {"height", at.height}});
      write_number(b, at);
      to_.close("g");
    }
  }

  void write_plain_bars() {
    std::map<std::string, std::string> paths;
    for (auto const& b : bars_) paths[class_of(b.what)] += outline(box_of(b));
    for (auto const& [style, path] : paths) to_.empty("path", {{"class", "bar " + style}, {"d", path}});
    for (auto const& b : bars_) write_number(b, box_of(b));
  }

  /// Underlines what the makespan is made of.
  void write_critical() {
    std::string path;
    for (auto const& place : t_.critical) {
      auto const& span = t_.times.spans[index(place.rank)][place.position];
      double const y = frame_.row(index(place.rank)) + frame_.row_height;
      if (span.end > span.begin)
        path += 'M' + decimal_text(frame_.x(span.begin), 1) + ' ' + decimal_text(y, 1) + 'h' +
                decimal_text(frame_.scale * (span.end - span.begin), 1);
    }
    if (!path.empty()) to_.empty("path", {{"class", "critical"}, {"d", path}});
  }

  markup_writer& to_;
  timed_schedule const& t_;
  schedule_svg_options const& options_;
  schedule_frame frame_;
  std::vector<schedule_bar> bars_;
  std::vector<std::uint32_t> local_;
};

}  // namespace cleave::detail

namespace cleave {

/// A schedule in time as an SVG picture inside a page: a row a rank, a bar an action, bubbles hatched, and
/// below what each rank keeps. O(actions).
inline void write_schedule(markup_writer& to, timed_schedule const& t,
                           schedule_svg_options const& options = {}) {
  detail::schedule_drawing(to, t, options).write();
}

/// The same as a file of its own.
inline std::string schedule_svg(timed_schedule const& t, schedule_svg_options const& options = {}) {
  markup_writer to;
  write_schedule(to, t, options);
  return to.str();
}

}  // namespace cleave
