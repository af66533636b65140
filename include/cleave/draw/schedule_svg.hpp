// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/language.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/draw/markup_writer.hpp"
#include "cleave/draw/timeline_svg.hpp"
#include "cleave/formats/timed_schedule.hpp"
#include "cleave/formats/units.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave::inline v0_2::detail {

/// The colour class of a kind of pass and its name in the legend. Class X is for all other actions that take
/// time.
struct pass_hue {
  std::string_view style, name;
};
constexpr pass_hue hue_of(action_kind k) {
  switch (k) {
    case action_kind::forward:
      return {"F", "forward"};
    case action_kind::backward:
      return {"B", "backward"};
    case action_kind::input_gradient:
      return {"I", "input gradient"};
    case action_kind::weight_gradient:
      return {"W", "weight gradient"};
    default:
      return {"X", "other"};
  }
}

/// Lays out a drawn schedule and draws everything around its bars. Helper of `schedule_drawing`.
class schedule_frame {
 public:
  static constexpr double left = 64, top = 30, right = 100, narrowest = 908;

  /// Returns the width that a bar needs for the number of a microbatch.
  static double width_of_number(std::size_t digits) { return 1 + 6.6 * static_cast<double>(digits); }

  /// Returns the width of a time axis on which each pass has room for the number of the last microbatch.
  static double width_of_numbers(timed_schedule const& t) {
    double shortest = drawn_time(t.times);
    for (auto const& b : bars_of(t.order, t.times))
      if (!b.is_beside && b.what.microbatch != no_microbatch)
        shortest = (std::min)(shortest, b.end - b.begin);
    auto const digits = std::to_string((std::max)(1u, t.order.microbatches) - 1).size();
    return 1.001 * width_of_number(digits) * drawn_time(t.times) / shortest;
  }

  /// `asked` is the width of the time axis in pixels; 0 derives it from the number of passes and from the
  /// room that the number of the last microbatch needs in the shortest pass.
  /// If `small`, rows of many ranks are narrower than their names, and some names are left out.
  schedule_frame(timed_schedule const& t, double asked, bool small)
      : t_(t), axis_(axis_unit_of(t.time_unit, t.times.makespan)) {
    std::size_t longest = 0;
    for (auto const& row : t.order.ranks)
      longest = (std::max)(longest, static_cast<std::size_t>(std::ranges::count_if(
                                        row, [](action const& a) { return is_compute(a.kind); })));
    width = asked > 0 ? asked
                      : std::clamp((std::max)(13.0 * static_cast<double>(longest), width_of_numbers(t)),
                                   narrowest, 16000.0);
    row_height = ranks() <= 12 ? 24 : ranks() <= 40 ? 17 : small ? 5 : 11;
    exponent_ = drawn_exponent(t.times);
    scale_ = width / std::ldexp(drawn_time(t.times), -exponent_);
    for (auto const& steps : t.memory) most_ = (std::max)(most_, most_memory(steps));
  }

  double width, row_height;

  std::size_t ranks() const { return t_.order.ranks.size(); }
  double row(std::size_t r) const {
    return top + static_cast<double>(r) * (row_height + (ranks() > 40 ? 1 : 4));
  }
  double bottom() const { return row(ranks()); }
  double x(double time) const { return left + pixels(time); }
  /// Returns the width that a time has.
  double pixels(double time) const { return scale_ * std::ldexp(time, -exponent_); }
  double full_width() const { return left + width + right; }
  double full_height() const { return t_.memory.empty() ? bottom() + 34 : strip(ranks()) + 8; }

  /// Draws everything except the bars, which are drawn on top. `bars` is what the legend says about them.
  void write(markup_writer& to, std::array<bool, 5> const& hues, std::size_t tints,
             std::string const& bars) const {
    write_hatch(to);
    to.empty("rect", {{"class", "ground"}, {"width", full_width()}, {"height", full_height()}});
    write_legend(to, hues, tints, bars);
    for (std::size_t r = 0; r < ranks(); ++r) write_track(to, r);
    for (std::size_t r = 0; r < t_.memory.size(); ++r) write_strip_ground(to, r);
    write_axis(to);
    for (std::size_t r = 0; r < t_.memory.size(); ++r) write_strip(to, r);
  }

 private:
  double strip_height() const { return (std::max)(4.0, row_height - 4); }
  double strip(std::size_t r) const { return bottom() + 52 + static_cast<double>(r) * (row_height + 2); }

  /// Defines the hatch pattern of bubbles.
  static void write_hatch(markup_writer& to) {
    to.open("defs").open("pattern", {{"id", "bubble"},
                                     {"width", 6},
                                     {"height", 6},
                                     {"patternUnits", "userSpaceOnUse"},
                                     {"patternTransform", "rotate(45)"}});
    to.empty("rect", {{"class", "track"}, {"width", 6}, {"height", 6}});
    to.empty("line", {{"class", "hatch"}, {"x1", 0}, {"x2", 0}, {"y1", 0}, {"y2", 6}});
    to.close("pattern").close("defs");
  }

  void write_legend(markup_writer& to, std::array<bool, 5> const& hues, std::size_t tints,
                    std::string const& bars) const {
    double at = left;
    auto const entry = [&](markup_attribute const& look, std::string_view text) {
      to.empty("rect", {look, {"x", at}, {"y", 8}, {"width", 14}, {"height", 11}});
      write_svg_text(to, "tick", at + 19, 18, "start", text);
      at += 19 + 6 * static_cast<double>(text.size()) + 16;
    };
    for (std::size_t k = 0; k < hues.size(); ++k) {
      if (!hues[k]) continue;
      auto const hue = hue_of(k < 4 ? static_cast<action_kind>(k + 1) : action_kind::unshard);
      entry({"class", std::string(hue.style) + '0'}, hue.name);
    }
    entry({"fill", "url(#bubble)"}, "bubble");
    if (!t_.critical.empty()) {
      to.empty("path", {{"class", "critical"}, {"d", 'M' + decimal_text(at, 1) + " 14h14"}});
      write_svg_text(to, "tick", at + 19, 18, "start", "critical path");
    }
    auto const text = tints > 1 ? "tints: the " + std::to_string(tints) + " stages of a rank" +
                                      (bars.empty() ? "" : "; " + bars)
                                : bars;
    write_svg_text(to, "tick", left + width, 18, "end", text);
  }

  void write_track(markup_writer& to, std::size_t r) const {
    to.empty("rect", {{"class", "bubble"},
                      {"fill", "url(#bubble)"},
                      {"x", left},
                      {"y", row(r)},
                      {"width", width},
                      {"height", row_height}});
    double const bubble = 1 - t_.times.busy[r] / drawn_time(t_.times);
    write_side(to, r, row(r) + row_height / 2 + 4, "bubble " + percent_text(bubble));
  }

  /// Writes the name of a row and a note about it, unless the texts of rows above need the room.
  void write_side(markup_writer& to, std::size_t r, double y, std::string const& detail) const {
    if (row_height < 11 && r % 4 != 0) return;
    write_svg_text(to, "name", left - 10, y, "end", "rank\u00a0" + std::to_string(r));
    write_svg_text(to, "detail", full_width() - 6, y, "end", detail);
  }

  void write_axis(markup_writer& to) const {
    double const length = drawn_time(t_.times) * axis_.scale;
    double const step = tick_step(length, static_cast<std::size_t>(std::clamp(width / 100, 4.0, 200.0)));
    bool const has_ticks = step >= (std::numeric_limits<double>::min)();  // smaller ones have too few digits
    for (std::size_t i = 0; has_ticks && static_cast<double>(i) * step <= length * (1 + 1e-9); ++i) {
      double const time = static_cast<double>(i) * step, at = x(time / axis_.scale);
      write_tick(to, at, bottom(), bottom() + 5);
      if (!t_.memory.empty()) write_tick(to, at, strip(0), strip(ranks()) - 6);
      write_svg_text(to, "tick", at, bottom() + 17, "middle",
                     step < 1e-5 ? short_text(time) : decimal_text(time, 6));
    }
    if (!axis_.name.empty())
      write_svg_text(to, "tick", full_width() - 6, bottom() + 17, "end", printable(axis_.name, 12));
  }
  static void write_tick(markup_writer& to, double x, double from, double until) {
    to.empty("line", {{"class", "grid"}, {"x1", x}, {"x2", x}, {"y1", from}, {"y2", until}});
  }

  void write_strip_ground(markup_writer& to, std::size_t r) const {
    to.empty(
        "rect",
        {{"class", "strip"}, {"x", left}, {"y", strip(r)}, {"width", width}, {"height", strip_height()}});
  }

  /// Draws the memory of rank `r` over time as steps. All ranks have the same scale.
  void write_strip(markup_writer& to, std::size_t r) const {
    bool const bytes = t_.memory_unit == timed_schedule::unit::bytes;
    if (r == 0)
      write_svg_text(to, "tick", left, strip(0) - 9, "start",
                     bytes ? "memory of each rank" : "forward passes kept by each rank");
    double const base = strip(r) + strip_height();
    double const unit = most_ > 0 ? strip_height() / static_cast<double>(most_) : 0;
    std::string path = 'M' + decimal_text(left, 1) + ' ' + decimal_text(base, 1);
    for (auto const& step : drawn_steps(t_.memory[r]))
      path += 'H' + decimal_text(x(step.time), 1) + 'V' +
              decimal_text(base - unit * static_cast<double>(step.bytes), 1);
    double const end = t_.memory[r].empty() ? left : (std::max)(left + width, x(t_.memory[r].back().time));
    path += 'H' + decimal_text(end, 1) + 'V' + decimal_text(base, 1) + 'z';
    to.empty("path", {{"class", "kept"}, {"data-rank", r}, {"d", path}});
    write_side(to, r, strip(r) + strip_height() / 2 + 4,
               "most " + memory_text(t_, most_memory(t_.memory[r])));
  }

  /// Returns the steps of a memory profile. If there are more than the picture can show, returns the largest
  /// amount within each pixel, where it changes.
  std::vector<memory_step> drawn_steps(std::vector<memory_step> const& steps) const {
    if (static_cast<double>(steps.size()) <= width) return steps;
    std::vector<memory_step> drawn;
    std::uint64_t now = 0;
    for (std::size_t i = 0, column = 0; i < steps.size(); ++column) {
      auto most = now;
      double const begin = time_at(column), end = time_at(column + 1);
      for (; i < steps.size() && (steps[i].time < end || static_cast<double>(column) > width); ++i)
        most = (std::max)(most, now = steps[i].bytes);
      if (drawn.empty() || drawn.back().bytes != most) drawn.push_back({begin, most});
    }
    drawn.push_back(steps.back());
    return drawn;
  }

  double time_at(std::size_t pixel) const {
    return std::ldexp(static_cast<double>(pixel) / scale_, exponent_);
  }

  timed_schedule const& t_;
  axis_unit axis_;
  int exponent_ = 0;  ///< times are divided by 2^exponent_ before they are multiplied by scale_
  double scale_ = 1;
  std::uint64_t most_ = 0;
};

/// The style sheet of a drawn schedule, alone or within a report, for light and dark mode. Each kind of pass
/// has a hue, and the stages of a rank are tints of it.
inline constexpr std::string_view schedule_style = R"(
.schedule { font: 11.5px system-ui, -apple-system, Roboto, Arial, sans-serif; }
.schedule .ground { fill: #ffffff; }
.schedule text { fill: #17202a; }
.schedule .name { font-weight: 600; }
.schedule .tick, .schedule .detail { fill: #566573; }
.schedule .grid { stroke: #dde3e9; stroke-width: 1px; }
.schedule .track { fill: #eef1f4; }
.schedule .hatch { stroke: #c3ccd5; stroke-width: 1.5px; }
.schedule .bar { stroke: #ffffff; stroke-width: 0.6px; }
.schedule .critical { fill: none; stroke: #d0402f; stroke-width: 2.5px; }
.schedule .number { fill: #17202a; text-anchor: middle; pointer-events: none; }
.schedule .work:hover .bar { stroke: #17202a; stroke-width: 1.5px; }
.schedule .kept { fill: #9fb7cf; }
.schedule .strip { fill: #f5f7f9; }
.schedule .F0 { fill: #a3cbee; } .schedule .F1 { fill: #6ea8d8; }
.schedule .F2 { fill: #c9e1f6; } .schedule .F3 { fill: #8fb9de; }
.schedule .B0 { fill: #a6d9bc; } .schedule .B1 { fill: #6fbd92; }
.schedule .B2 { fill: #cdebd9; } .schedule .B3 { fill: #8fcfab; }
.schedule .I0 { fill: #f6c993; } .schedule .I1 { fill: #e8a65e; }
.schedule .I2 { fill: #fbe0bd; } .schedule .I3 { fill: #efb87b; }
.schedule .W0 { fill: #d6c5ea; } .schedule .W1 { fill: #b598d8; }
.schedule .W2 { fill: #e9dff5; } .schedule .W3 { fill: #c7b0e2; }
.schedule .X0, .schedule .X1, .schedule .X2, .schedule .X3 { fill: #c9cdd2; }
@media (prefers-color-scheme: dark) {
  .schedule .ground { fill: #11161c; }
  .schedule text { fill: #e7edf3; }
  .schedule .tick, .schedule .detail { fill: #9fb0c0; }
  .schedule .grid { stroke: #2c3742; }
  .schedule .track { fill: #19212a; }
  .schedule .hatch { stroke: #3a4652; }
  .schedule .bar { stroke: #11161c; }
  .schedule .number { fill: #17202a; }
  .schedule .work:hover .bar { stroke: #ffffff; }
  .schedule .kept { fill: #587189; }
  .schedule .strip { fill: #19212a; }
}
)";

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Options of `schedule_svg` and `write_schedule`.
struct schedule_svg_options {
  enum class detail : std::uint8_t {
    hover,  ///< each bar is an element with a tooltip that describes it
    plain,  ///< much smaller: all bars of one colour are a single path
    /// The smallest. Bars narrower than a pixel are drawn as shares: of each few pixels, how much of the time
    /// the rank spends on which kind of pass. Numbers are written if there is room for all of them.
    overview,
  };
  detail bars = detail::hover;
  double width = 0;  ///< width of the time axis in pixels; 0: wide enough to tell bars apart, at least 908
  std::string id = "schedule";  ///< HTML id of the picture; must be unique within a page
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Draws a schedule. Helper of `write_schedule`.
class schedule_drawing {
 public:
  schedule_drawing(markup_writer& to, timed_schedule const& t, schedule_svg_options const& options)
      : to_(to),
        t_(t),
        options_(options),
        frame_(t, options.width, options.bars == schedule_svg_options::detail::overview),
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
    using enum schedule_svg_options::detail;
    bool const sums_up = options_.bars == overview && narrowest_bar() < 1;
    numbered_ = options_.bars != overview || shows_numbers();
    auto const stages = local_.empty() ? 0 : *std::ranges::max_element(local_) + 1;
    write_frame(sums_up ? 0 : stages, sums_up     ? "height: share of the time"
                                      : numbered_ ? "numbers: microbatches"
                                                  : "");
    if (sums_up)
      write_shares();
    else
      options_.bars == hover ? write_bars() : write_plain_bars();
    write_critical();
    to_.close("svg");
  }

  /// Returns true if each bar of a microbatch has room for its number.
  bool shows_numbers() const {
    return std::ranges::all_of(bars_, [&](schedule_bar const& b) {
      return b.what.microbatch == no_microbatch || has_room(b, box_of(b));
    });
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

  void write_frame(std::size_t tints, std::string const& bars) {
    std::array<bool, 5> hues{};
    for (auto const& b : bars_) hues[hue_number(b.what)] = true;
    frame_.write(to_, hues, tints, bars);
  }
  static std::size_t hue_number(action const& a) {
    return is_compute(a.kind) ? static_cast<std::size_t>(a.kind) - 1 : 4;
  }

  /// Returns the width of the narrowest bar in pixels.
  double narrowest_bar() const {
    double least = frame_.width;
    for (auto const& b : bars_) least = (std::min)(least, frame_.pixels(b.end - b.begin));
    return least;
  }

  /// Draws, for each rank and each few pixels, the share of the time that each kind of pass takes, as heights
  /// on top of each other. O(actions + ranks × pixels).
  void write_shares() {
    constexpr double pixels = 4;
    auto const columns = static_cast<std::size_t>(frame_.width / pixels) + 1;
    std::array<std::string, 5> paths;
    std::vector<std::array<double, 5>> spent;
    for (std::size_t b = 0, r = 0; r < frame_.ranks(); ++r) {
      spent.assign(columns, {});
      for (; b < bars_.size() && index(bars_[b].rank) == r; ++b) {
        auto const& bar = bars_[b];
        double const begin = frame_.pixels(bar.begin) / pixels, end = frame_.pixels(bar.end) / pixels;
        for (auto c = static_cast<std::size_t>(begin); c < columns && static_cast<double>(c) < end; ++c) {
          double const from = (std::max)(begin, static_cast<double>(c)),
                       to = (std::min)(end, static_cast<double>(c + 1));
          spent[c][hue_number(bar.what)] += (std::max)(0.0, to - from) / bar.lanes;
        }
      }
      for (auto& column : spent)  // from here on: each kind with those below it
        for (std::size_t k = 1; k < column.size(); ++k) column[k] += column[k - 1];
      for (std::size_t k = 0; k < paths.size(); ++k)
        if (std::ranges::any_of(spent, [&](auto const& c) { return c[k] > (k > 0 ? c[k - 1] : 0); }))
          paths[k] += shares_outline(spent, k, pixels, frame_.row(r) + frame_.row_height);
    }
    for (std::size_t k = paths.size(); k-- > 0;)  // the lower kinds cover the upper ones
      if (!paths[k].empty())
        to_.empty(
            "path",
            {{"class",
              std::string(hue_of(k < 4 ? static_cast<action_kind>(k + 1) : action_kind::unshard).style) +
                  '0'},
             {"d", paths[k]}});
  }

  /// Returns the outline of the sums up to kind `k`, above `base`.
  std::string shares_outline(std::vector<std::array<double, 5>> const& sums, std::size_t k, double pixels,
                             double base) const {
    auto path = 'M' + decimal_text(schedule_frame::left, 0) + ' ' + decimal_text(base, 1);
    double height = 0;
    for (std::size_t c = 0; c <= sums.size(); ++c) {
      double const now = c < sums.size() ? rounded_half((std::min)(1.0, sums[c][k]) * frame_.row_height) : 0;
      if (now == height) continue;
      path += 'H' + decimal_text(
                        schedule_frame::left + (std::min)(frame_.width, pixels * static_cast<double>(c)), 1);
      path += 'V' + decimal_text(base - now, 1);
      height = now;
    }
    return path + 'z';
  }
  static double rounded_half(double x) { return static_cast<double>(rounded(2 * x)) / 2; }

  std::string class_of(action const& a) const {
    auto const tint = index(a.stage) < local_.size() ? local_[index(a.stage)] % 4 : 0;
    return std::string(hue_of(a.kind).style) + std::to_string(tint);
  }
  box box_of(schedule_bar const& b) const {
    double const x = frame_.x(b.begin), width = frame_.pixels(b.end - b.begin), y = frame_.row(index(b.rank));
    if (b.is_beside) return {x, y + frame_.row_height - 4, width, 4};
    double const lane = frame_.row_height / b.lanes;
    return {x, y + lane * b.lane, width, lane};
  }
  static std::string outline(box const& at) {
    auto const width = decimal_text(at.width, 1);
    return 'M' + decimal_text(at.x, 1) + ' ' + decimal_text(at.y, 1) + 'h' + width + 'v' +
           decimal_text(at.height, 1) + "h-" + width + 'z';
  }

  static bool has_room(schedule_bar const& b, box const& at) {
    auto const digits = std::to_string(index(b.what.microbatch)).size();
    return at.height >= 10 && at.width >= schedule_frame::width_of_number(digits);
  }
  /// Writes the microbatch into a bar if there is room.
  void write_number(schedule_bar const& b, box const& at) {
    if (!numbered_ || b.what.microbatch == no_microbatch || !has_room(b, at)) return;
    to_.element("text", {{"class", "number"}, {"x", at.x + at.width / 2}, {"y", at.y + at.height / 2 + 4}},
                std::to_string(index(b.what.microbatch)));
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

  /// Underlines the actions of the critical path.
  void write_critical() {
    std::string path;
    for (auto const& place : t_.critical) {
      auto const& span = t_.times.spans[index(place.rank)][place.position];
      double const y = frame_.row(index(place.rank)) + frame_.row_height;
      if (span.end > span.begin)
        path += 'M' + decimal_text(frame_.x(span.begin), 1) + ' ' + decimal_text(y, 1) + 'h' +
                decimal_text(frame_.pixels(span.end - span.begin), 1);
    }
    if (!path.empty()) to_.empty("path", {{"class", "critical"}, {"d", path}});
  }

  markup_writer& to_;
  timed_schedule const& t_;
  schedule_svg_options const& options_;
  schedule_frame frame_;
  std::vector<schedule_bar> bars_;
  std::vector<std::uint32_t> local_;
  bool numbered_ = true;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Draws a timed schedule as an SVG picture inside a page. It has a row per rank and a bar per action;
/// bubbles are hatched. Below are the memory profiles of the ranks. O(actions).
inline void write_schedule(markup_writer& to, timed_schedule const& t,
                           schedule_svg_options const& options = {}) {
  detail::schedule_drawing(to, t, options).write();
}

/// Returns a timed schedule as an SVG file. O(actions).
inline std::string schedule_svg(timed_schedule const& t, schedule_svg_options const& options = {}) {
  markup_writer to;
  write_schedule(to, t, options);
  return to.str();
}

}  // namespace cleave
