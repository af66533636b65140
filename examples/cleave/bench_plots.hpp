// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cleave/core/printable.hpp>
#include <cleave/core/real.hpp>
#include <cleave/draw/markup_writer.hpp>
#include <cleave/draw/timeline_svg.hpp>
#include <cleave/formats/units.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench_summary.hpp"
#include "terminal.hpp"

namespace tool {

/// Style of the plots, in a page or alone, in the system's light or dark mode. Each algorithm has a hue;
/// after eight, hues repeat with another dash.
inline constexpr std::string_view bench_plot_style = R"(
.bench { font: 12px system-ui, -apple-system, Roboto, Arial, sans-serif; }
.bench .ground { fill: #ffffff; }
.bench text { fill: #17202a; }
.bench .tick { fill: #566573; }
.bench .grid { stroke: #dde3e9; }
.bench .base, .bench .leader { stroke: #7f95aa; }
.bench .leader { stroke-dasharray: 1 4; }
.bench .curve { fill: none; stroke-width: 2px; stroke-linejoin: round; }
.bench .ours { stroke-width: 3.5px; }
.bench .range { stroke-width: 1.5px; stroke-opacity: 0.6; }
.bench .s0 { stroke: #2f7ed8; } .bench .s1 { stroke: #d1701c; } .bench .s2 { stroke: #2e9e6b; }
.bench .s3 { stroke: #b04a9c; } .bench .s4 { stroke: #c93c3c; } .bench .s5 { stroke: #98851f; }
.bench .s6 { stroke: #2fa3b8; } .bench .s7 { stroke: #7c70ee; }
.bench .d1 { stroke-dasharray: 7 4; } .bench .d2 { stroke-dasharray: 2 4; }
.bench .dot { fill: #ffffff; stroke-width: 2.5px; }
.bench circle.f0 { fill: #2f7ed8; } .bench circle.f1 { fill: #d1701c; } .bench circle.f2 { fill: #2e9e6b; }
.bench circle.f3 { fill: #b04a9c; } .bench circle.f4 { fill: #c93c3c; } .bench circle.f5 { fill: #98851f; }
.bench circle.f6 { fill: #2fa3b8; } .bench circle.f7 { fill: #7c70ee; }
@media (prefers-color-scheme: dark) {
  .bench .ground, .bench .dot { fill: #11161c; }
  .bench text { fill: #e7edf3; }
  .bench .tick { fill: #9fb0c0; }
  .bench .grid { stroke: #2c3742; }
  .bench .base, .bench .leader { stroke: #587189; }
}
)";

/// Formats a ratio for an axis: `1.05`, `12`.
inline std::string ratio_text(double r) { return cleave::decimal_text(r, r < 0.1 ? 3 : r < 10 ? 2 : 0); }

/// The base of both plots: a frame with room for names on the right, and axes of ratios.
class bench_plot {
 public:
  bench_plot(cleave::markup_writer& to, bench_summary const& from, std::string id)
      : to_(to), from_(from), id_(std::move(id)) {}

 protected:
  static constexpr double left = 64, right = 800, top = 20, bottom = 360, width = 1072, height = 420;

  void open(std::string_view title, std::string_view description) {
    to_.open("svg", {{"xmlns", "http://www.w3.org/2000/svg"},
                     {"class", "bench"},
                     {"id", id_},
                     {"role", "img"},
                     {"aria-labelledby", id_ + "-title " + id_ + "-desc"},
                     {"viewBox", "0 0 1072 420"},
                     {"width", width},
                     {"height", height}});
    to_.element("title", {{"id", id_ + "-title"}}, title);
    to_.element("desc", {{"id", id_ + "-desc"}}, description);
    to_.open("style").markup(bench_plot_style).close("style");
    to_.empty("rect", {{"class", "ground"}, {"width", width}, {"height", height}});
  }
  void line(std::string const& kind, double x1, double y1, double x2, double y2) {
    to_.empty("line", {{"class", kind}, {"x1", x1}, {"y1", y1}, {"x2", x2}, {"y2", y2}});
  }
  void tick(double x, double y, std::string_view anchor, std::string_view text) {
    write_svg_text(to_, "tick", x, y, anchor, text);
  }
  std::string const& name(std::size_t a) const { return from_.algorithms()[a]; }
  bool ours(std::size_t a) const { return name(a).starts_with("cleave"); }
  static std::string hue(std::size_t a) {
    return "s" + std::to_string(a % 8) + " d" + std::to_string(a / 8 % 3);
  }

  cleave::markup_writer& to_;
  bench_summary const& from_;
  std::string id_;
};

/// A performance profile: for each algorithm, the share of problems that it solves within a factor of the
/// best cut, or of the least time.
class profile_plot : bench_plot {
 public:
  enum class measure : std::uint8_t { cut, time };

  profile_plot(cleave::markup_writer& to, bench_summary const& from, std::string id = "profile",
               measure of = measure::cut)
      : bench_plot(to, from, std::move(id)), of_(of), most_(of == measure::cut ? 1.05 : 2) {
    for (std::size_t a = 0; a < from.algorithms().size(); ++a)
      profiles_.push_back(of == measure::cut ? from.profile(a) : from.time_profile(a));
    for (auto const& p : profiles_)
      if (!p.empty()) most_ = std::max(most_, p.back());
    most_ = std::min(most_ * 1.02, of == measure::cut ? 2.0 : 100.0);
  }

  void write() {
    bool const cuts = of_ == measure::cut;
    std::string const best = cuts ? "best cut" : "least time";
    open("Performance profile of the " + std::string(cuts ? "cuts" : "times"),
         "For each algorithm the share of problems that it solves, within the balance, with at most so many "
         "times the " +
             best + ".");
    for (double const share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      line("grid", left, y(share), right, y(share));
      tick(left - 10, y(share) + 4, "end", cleave::decimal_text(100 * share, 0) + "\u00a0%");
    }
    for (double const ratio : {1.0, 1.01, 1.03, 1.1, 1.2, 1.5, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0}) {
      if (ratio > most_ || (!cuts && ratio > 1 && ratio < 1.5)) continue;
      line("grid", x(ratio), top, x(ratio), bottom);
      tick(x(ratio), bottom + 20, "middle", cleave::decimal_text(ratio, 2));
    }
    tick((left + right) / 2, bottom + 44, "middle",
         cuts ? "cut, in multiples of the best one" : "time, in multiples of the least one");
    tick(width - 8, top, "end", "best on");
    auto const order = by_area();
    for (auto a = order.rbegin(); a != order.rend(); ++a) curve(*a);
    for (std::size_t i = 0; i < order.size(); ++i) legend(order[i], i);
    to_.close("svg");
  }

 private:
  /// The axis of cuts is stretched near 1, where algorithms differ.
  double x(double ratio) const {
    double const part = std::log(std::clamp(ratio, 1.0, most_)) / std::log(most_);
    return left + (right - left) * (of_ == measure::cut ? std::sqrt(part) : part);
  }
  static double y(double share) { return bottom - (bottom - top) * share; }
  double share(std::size_t solved) const {
    return static_cast<double>(solved) /
           static_cast<double>(std::max<std::size_t>(1, from_.problems().size()));
  }

  double area(std::size_t a) const {
    double sum = 0;
    for (double const ratio : profiles_[a]) sum += right - x(ratio);
    return sum;
  }
  std::vector<std::size_t> by_area() const {
    std::vector<std::size_t> order(profiles_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t a) { return std::pair(-area(a), a); });
    return order;
  }
  std::size_t best_on(std::size_t a) const {
    return static_cast<std::size_t>(std::ranges::count(profiles_[a], 1.0));
  }

  void curve(std::size_t a) {
    auto const& p = profiles_[a];
    std::string path = "M" + cleave::decimal_text(left, 1) + " " + cleave::decimal_text(y(0), 1);
    for (std::size_t i = 0; i < p.size() && p[i] <= most_; ++i)
      path += "H" + cleave::decimal_text(x(p[i]), 1) + "V" + cleave::decimal_text(y(share(i + 1)), 1);
    path += "H" + cleave::decimal_text(right, 1);
    to_.open(
        "path",
        {{"class", "curve " + hue(a) + (ours(a) ? " ours" : "")}, {"data-algorithm", name(a)}, {"d", path}});
    auto const within = std::ranges::count_if(p, [&](double ratio) { return ratio <= most_; });
    to_.element("title",
                cleave::printable(name(a)) + ": the " + (of_ == measure::cut ? "best cut" : "least time") +
                    " on " + std::to_string(best_on(a)) + " of " + std::to_string(from_.problems().size()) +
                    " problems, within " + cleave::decimal_text(most_, 2) + " times it on " +
                    std::to_string(within) + ", an answer within the balance on " + std::to_string(p.size()));
    to_.close("path");
  }
  void legend(std::size_t a, std::size_t row) {
    double const at = top + 22 + 20 * static_cast<double>(row);
    line("curve " + hue(a) + (ours(a) ? " ours" : ""), right + 22, at, right + 56, at);
    write_svg_text(to_, "name", right + 66, at + 4, "start", cleave::printable(name(a), 24));
    tick(width - 8, at + 4, "end", cleave::decimal_text(100 * share(best_on(a)), 0) + "\u00a0%");
  }

  measure of_;
  std::vector<std::vector<double>> profiles_;
  double most_;
};

/// The plot of time and cut: each algorithm at its means relative to the baseline, with one standard
/// deviation to each side.
class time_plot : bench_plot {
 public:
  time_plot(cleave::markup_writer& to, bench_summary const& from, std::string id = "times")
      : bench_plot(to, from, std::move(id)) {
    auto const any = [](auto const&) { return true; };
    for (std::size_t a = 0; a < from.algorithms().size(); ++a) {
      point const p{a, from.mean(&bench_summary::time_ratio, a, any),
                    from.mean(&bench_summary::cut_ratio, a, any)};
      if (p.time.count > 0 && p.cut.count > 0 && cleave::is_finite(p.time.mean * p.cut.mean))
        points_.push_back(p);
    }
    for (auto const& p : points_) {  // points outside are drawn at the edge
      x_least_ = std::min(x_least_, p.time.mean / 1.5);
      x_most_ = std::max(x_most_, p.time.mean * 1.5);
      y_least_ = std::min(y_least_, p.cut.mean / std::clamp(p.cut.deviation, 1.04, 1.3));
      y_most_ = std::max(y_most_, p.cut.mean * std::clamp(p.cut.deviation, 1.04, 1.3));
    }
  }

  void write() {
    x_least_ = std::max(x_least_, 1e-3), x_most_ = std::min(x_most_, 1e4);
    y_least_ = std::max(y_least_, 1e-2), y_most_ = std::min(y_most_, 50.0);
    auto const base = cleave::printable(from_.baseline_name());
    open("Time and cut, in times those of " + base,
         "Each algorithm at its geometric means over the problems that it and " + base + " solved.");
    for (double const r : {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0})
      if (r >= x_least_ && r <= x_most_) {
        line(r == 1 ? "base" : "grid", x(r), top, x(r), bottom);
        tick(x(r), bottom + 20, "middle", ratio_text(r));
      }
    for (double const r : y_ticks()) {
      line(r == 1 ? "base" : "grid", left, y(r), right, y(r));
      tick(left - 10, y(r) + 4, "end", ratio_text(r));
    }
    tick((left + right) / 2, bottom + 44, "middle", "time, in times that of " + base);
    tick(left, 12, "start", "cut, in times that of " + base);
    for (auto const& p : points_) spread(p);
    for (auto const& p : points_) dot(p);
    names();
    to_.close("svg");
  }

 private:
  struct point {
    std::size_t algorithm;
    ratio_mean time, cut;
  };

  static double place(double value, double least, double most) {
    return std::log(std::clamp(value, least, most) / least) / std::log(most / least);
  }
  double x(double r) const { return left + (right - left) * place(r, x_least_, x_most_); }
  double y(double r) const { return bottom - (bottom - top - 8) * place(r, y_least_, y_most_); }
  std::vector<double> y_ticks() const {
    double const step = cleave::tick_step(y_most_ - y_least_, 10);
    std::vector<double> ticks;
    for (auto i = std::ceil(y_least_ / step); i * step <= y_most_; ++i) ticks.push_back(i * step);
    return ticks;
  }

  void spread(point const& p) {
    auto const kind = "range " + hue(p.algorithm);
    line(kind, x(p.time.mean / p.time.deviation), y(p.cut.mean), x(p.time.mean * p.time.deviation),
         y(p.cut.mean));
    line(kind, x(p.time.mean), y(p.cut.mean / p.cut.deviation), x(p.time.mean),
         y(p.cut.mean * p.cut.deviation));
  }
  void dot(point const& p) {
    to_.open("circle", {{"class", "dot s" + std::to_string(p.algorithm % 8) +
                                      (ours(p.algorithm) ? " f" + std::to_string(p.algorithm % 8) : "")},
                        {"data-algorithm", name(p.algorithm)},
                        {"cx", x(p.time.mean)},
                        {"cy", y(p.cut.mean)},
                        {"r", 6}});
    to_.element("title", cleave::printable(name(p.algorithm)) + ": cut " + ratio_text(p.cut.mean) + " (" +
                             ratio_text(p.cut.least) + " to " + ratio_text(p.cut.most) + "), time " +
                             ratio_text(p.time.mean) + " (" + ratio_text(p.time.least) + " to " +
                             ratio_text(p.time.most) + "), " + plural(p.cut.count, "problem"));
    to_.close("circle");
  }

  /// Draws the names in a column at the right, near the heights of their dots but not overlapping, each with
  /// a line to its dot.
  void names() {
    auto order = points_;
    std::ranges::sort(order, {}, [&](point const& p) { return std::pair(y(p.cut.mean), p.algorithm); });
    double constexpr apart = 19;
    std::vector<double> at;
    for (auto const& p : order) at.push_back(std::max(y(p.cut.mean), at.empty() ? top : at.back() + apart));
    for (std::size_t i = at.size(); i-- > 0;)
      at[i] = std::min(at[i], i + 1 == at.size() ? bottom : at[i + 1] - apart);
    for (std::size_t i = 0; i < order.size(); ++i) {
      auto const& p = order[i];
      line("leader", x(p.time.mean) + 7, y(p.cut.mean), right + 14, at[i]);
      write_svg_text(to_, "name", right + 20, at[i] + 4, "start",
                     cleave::printable(name(p.algorithm), 24) + "  " + ratio_text(p.cut.mean) + " at " +
                         ratio_text(p.time.mean) + "\u00a0×");
    }
  }

  std::vector<point> points_;
  double x_least_ = 0.5, x_most_ = 2, y_least_ = 0.9, y_most_ = 1.05;
};

}  // namespace tool
