// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/core/real.hpp>
#include <cleave/draw/markup_writer.hpp>
#include <cleave/draw/timeline_svg.hpp>
#include <cleave/formats/units.hpp>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tool {

inline constexpr std::string_view plot_style = R"(
.plot .grid { stroke: var(--line); }
.plot .tick { fill: var(--soft); }
.plot .curve { fill: none; stroke-linejoin: round; }
.plot .curve0 { stroke: var(--fill); stroke-width: 9px; stroke-linecap: round; }
.plot .curve1 { stroke: var(--accent); stroke-width: 1.5px; }
.plot .curve2 { stroke: #c4681a; stroke-width: 1.5px; stroke-dasharray: 2 5; stroke-linecap: round; }
.plot .dot1 { fill: var(--page); stroke: var(--accent); stroke-width: 1.5px; }
.plot .dot2 { fill: #c4681a; }
)";

/// A curve of a plot: its name and a value for each step.
struct plotted {
  std::string name;
  std::vector<double> values;
};

/// Draws values over steps. The first curve is broad, so that curves on top of it stay visible.
class plot_writer {
 public:
  plot_writer(cleave::markup_writer& to, std::vector<plotted> const& lines) : to_(to), lines_(lines) {
    for (auto const& line : lines)
      for (double const y : line.values)
        if (cleave::is_finite(y)) most_ = std::max(most_, y), least_ = std::min(least_, y);
    // Losses that differ by rounding alone would need long labels.
    step_ = cleave::tick_step(std::max(most_ - least_, 0.05 * std::abs(most_)), 6);
    least_ = step_ * static_cast<double>(static_cast<long>(least_ / step_));
    if (!(most_ > least_)) most_ = least_ + 1;
  }

  void write(std::string_view title, std::string_view description) {
    to_.open("svg", {{"class", "plot"},
                     {"role", "img"},
                     {"aria-labelledby", "plot-title plot-desc"},
                     {"viewBox", "0 0 1072 400"},
                     {"width", 1072},
                     {"height", 400}});
    to_.element("title", {{"id", "plot-title"}}, title);
    to_.element("desc", {{"id", "plot-desc"}}, description);
    axes();
    for (std::size_t i = 0; i < lines_.size(); ++i) curve(i);
    for (std::size_t i = 0; i < lines_.size(); ++i) legend(i);
    to_.close("svg");
  }

 private:
  static constexpr double left = 60, right = 1052, top = 16, bottom = 350;

  std::size_t steps() const { return lines_.front().values.size(); }
  double x(std::size_t step) const {
    return steps() < 2 ? left
                       : left + (right - left) * static_cast<double>(step) / static_cast<double>(steps() - 1);
  }
  double y(double value) const { return bottom - (bottom - top) * (value - least_) / (most_ - least_); }

  void text(double at_x, double at_y, std::string_view anchor, std::string_view content) {
    to_.element("text", {{"class", "tick"}, {"x", at_x}, {"y", at_y}, {"text-anchor", anchor}}, content);
  }

  void axes() {
    for (std::size_t i = 0; least_ + static_cast<double>(i) * step_ <= most_; ++i) {
      double const value = least_ + static_cast<double>(i) * step_, at = y(value);
      to_.empty("line", {{"class", "grid"}, {"x1", left}, {"x2", right}, {"y1", at}, {"y2", at}});
      text(left - 10, at + 4, "end", cleave::decimal_text(value, 6));
    }
    std::size_t const each = std::max<std::size_t>(1, steps() / 20);
    for (std::size_t s = 0; s < steps(); s += each) text(x(s), bottom + 22, "middle", std::to_string(s + 1));
    text(right, bottom + 42, "end", "step");
  }

  void curve(std::size_t i) {
    std::string points;
    auto const& values = lines_[i].values;
    for (std::size_t s = 0; s < values.size(); ++s)
      if (cleave::is_finite(values[s]))
        points += cleave::decimal_text(x(s), 2) + "," + cleave::decimal_text(y(values[s]), 2) + " ";
    auto const number = std::to_string(i);
    to_.empty("polyline", {{"class", "curve curve" + number}, {"points", points}});
    if (i == 0) return;
    for (std::size_t s = 0; s < values.size(); ++s) {
      if (!cleave::is_finite(values[s])) continue;
      to_.open("circle",
               {{"class", "dot" + number}, {"cx", x(s)}, {"cy", y(values[s])}, {"r", i == 1 ? 4 : 2}});
      to_.element("title", lines_[i].name + ", step " + std::to_string(s + 1) + ": " +
                               cleave::decimal_text(values[s], 12));
      to_.close("circle");
    }
  }

  void legend(std::size_t i) {
    double const at = top + 14 + 20 * static_cast<double>(i), from = right - 230;
    auto const number = std::to_string(i);
    to_.empty("line",
              {{"class", "curve curve" + number}, {"x1", from}, {"x2", from + 36}, {"y1", at}, {"y2", at}});
    if (i > 0)
      to_.empty("circle", {{"class", "dot" + number}, {"cx", from + 18}, {"cy", at}, {"r", i == 1 ? 4 : 2}});
    to_.element("text", {{"x", from + 48}, {"y", at + 4}}, lines_[i].name);
  }

  cleave::markup_writer& to_;
  std::vector<plotted> const& lines_;
  double most_ = -HUGE_VAL, least_ = HUGE_VAL, step_ = 1;
};

}  // namespace tool
