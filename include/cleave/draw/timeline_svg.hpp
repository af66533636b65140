// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/real.hpp"
#include "cleave/draw/markup_writer.hpp"
#include "cleave/formats/units.hpp"
#include "cleave/run/forward/forward.hpp"

namespace cleave::inline v0_2 {

/// Returns the distance between the ticks of an axis: 1, 2 or 5 times a power of ten. At most
/// `marks` of them fit in `length`.
inline double tick_step(double length, std::size_t marks) {
  if (!(length > 0)) return 1;
  double const least = length / static_cast<double>(marks);
  double const power = detail::power_of_ten(detail::decimal_exponent(least));
  for (double const step : {1.0, 2.0, 5.0})
    if (step * power >= least) return step * power;
  return 10 * power;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Draws a measured run into a page. Helper of `write_timeline`.
class timeline_writer {
 public:
  timeline_writer(markup_writer& to, std::span<interval const> timeline, std::size_t stages)
      : to_(to), timeline_(timeline), stages_(stages), times_(stage_times(timeline, stages)) {
    row_height_ = stages <= 12 ? 26 : stages <= 40 ? 18 : 12;
    scale_ = chart_width / static_cast<double>(std::max<std::int64_t>(1, timeline_end(timeline)));
  }

  void write() {
    double const height = bottom() + 34;
    to_.open("svg", {{"class", "timeline"},
                     {"role", "img"},
                     {"aria-labelledby", "timeline-title timeline-desc"},
                     {"viewBox", "0 0 1072 " + decimal_text(height, 2)},
                     {"width", 1072},
                     {"height", height}});
    to_.element("title", {{"id", "timeline-title"}}, "Measured timeline of the pipeline");
    to_.element("desc", {{"id", "timeline-desc"}}, description());
    axis();
    for (std::size_t s = 0; s < stages_; ++s) track(s);
    for (auto const& bar : timeline_)
      if (index(bar.stage) < stages_ && bar.what != activity::forward) wait(bar);
    for (auto const& bar : timeline_)
      if (index(bar.stage) < stages_ && bar.what == activity::forward) work(bar);
    to_.close("svg");
  }

 private:
  static constexpr double chart_left = 70, chart_width = 920, top = 6;

  double row(std::size_t s) const { return top + static_cast<double>(s) * (row_height_ + 5); }
  double bottom() const { return row(stages_); }
  double x(std::int64_t ns) const { return chart_left + scale_ * static_cast<double>(ns); }
  double idle(stage_time const& t) const { return 1 - scale_ * static_cast<double>(t.forward) / chart_width; }

  std::string description() const {
    std::string out = "The run took " + milliseconds_text(static_cast<double>(timeline_end(timeline_))) + ".";
    for (std::size_t s = 0; s < stages_; ++s)
      out += " Stage " + std::to_string(s) + " computed for " +
             milliseconds_text(static_cast<double>(times_[s].forward)) + " and was idle for " +
             percent_text(idle(times_[s])) + " of it.";
    return out;
  }

  void axis() {
    double const length = static_cast<double>(timeline_end(timeline_)) / 1e6;
    double const step = tick_step(length, 9);
    for (std::size_t i = 0; static_cast<double>(i) * step <= length; ++i) {
      double const ms = static_cast<double>(i) * step, at = chart_left + ms * 1e6 * scale_;
      to_.empty("line", {{"class", "grid"}, {"x1", at}, {"x2", at}, {"y1", 2}, {"y2", bottom() + 3}});
      write_svg_text(to_, "tick", at, bottom() + 17, "middle", decimal_text(ms, 6));
    }
    write_svg_text(to_, "tick", chart_left + chart_width + 82, bottom() + 17, "end", "ms");
  }

  void track(std::size_t s) {
    double const y = row(s), middle = y + row_height_ / 2 + 4;
    to_.empty(
        "rect",
        {{"class", "track"}, {"x", chart_left}, {"y", y}, {"width", chart_width}, {"height", row_height_}});
    write_svg_text(to_, "name", chart_left - 10, middle, "end", "stage\u00a0" + std::to_string(s));
    write_svg_text(to_, "detail", chart_left + chart_width + 82, middle, "end",
                   percent_text(idle(times_[s])) + " idle");
  }

  static std::string moments(interval const& bar) {
    return milliseconds_text(static_cast<double>(bar.end - bar.begin)) + ", from " +
           milliseconds_text(static_cast<double>(bar.begin)) + " to " +
           milliseconds_text(static_cast<double>(bar.end));
  }
  static std::string place(interval const& bar) {
    return "stage " + std::to_string(index(bar.stage)) + ", microbatch " +
           std::to_string(index(bar.microbatch));
  }

  void wait(interval const& bar) {
    double const width = x(bar.end) - x(bar.begin);
    if (width < 0.25) return;  // too narrow to be visible on a screen
    bool const sends = bar.what == activity::send;
    to_.open("rect", {{"class", sends ? "wait send" : "wait receive"},
                      {"x", x(bar.begin)},
                      {"y", row(index(bar.stage))},
                      {"width", width},
                      {"height", row_height_}});
    to_.element("title",
                place(bar) + (sends ? ", waits for room to send: " : ", waits for inputs: ") + moments(bar));
    to_.close("rect");
  }

  void work(interval const& bar) {
    double const width = x(bar.end) - x(bar.begin), y = row(index(bar.stage));
    auto const number = std::to_string(index(bar.microbatch));
    to_.open("g", {{"class", "work"}});
    to_.element("title", place(bar) + ": " + moments(bar));
    to_.empty("rect", {{"class", "bar hue" + std::to_string(index(bar.microbatch) % 8)},
                       {"data-stage", index(bar.stage)},
                       {"data-microbatch", index(bar.microbatch)},
                       {"x", x(bar.begin)},
                       {"y", y},
                       {"width", width},
                       {"height", row_height_}});
    if (width > 6 + 7 * static_cast<double>(number.size()))
      write_svg_text(to_, "number", x(bar.begin) + width / 2, y + row_height_ / 2 + 4, "middle", number);
    to_.close("g");
  }

  markup_writer& to_;
  std::span<interval const> timeline_;
  std::size_t stages_;
  std::vector<stage_time> times_;
  double row_height_, scale_;
};

/// Draws a measured run as an SVG picture inside a page. It has a row per stage and a bar for each microbatch
/// that the stage computed. Waiting and idle time are shown behind the bars, and milliseconds along the
/// bottom.
inline void write_timeline(markup_writer& to, std::span<interval const> timeline, std::size_t stages) {
  timeline_writer(to, timeline, stages).write();
}
}  // namespace cleave::detail
