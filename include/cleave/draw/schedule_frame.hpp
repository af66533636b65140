// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cleave/draw/markup_writer.hpp"
#include "cleave/draw/timeline_svg.hpp"
#include "cleave/formats/timed_schedule.hpp"
#include "cleave/formats/units.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave::detail {

/// The tint of each kind of pass and the name in a legend; X is all else that takes time.
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

/// Where the parts of a drawn schedule are, and what is drawn around its bars. `schedule_drawing` is its use.
class schedule_frame {
 public:
  static constexpr double left = 64, top = 30, right = 100;

  /// `asked`: the width of the time axis, in pixels; 0: by the passes.
  schedule_frame(timed_schedule const& t, double asked) : t_(t) {
    std::size_t longest = 0;
    for (auto const& row : t.order.ranks)
      longest = (std::max)(longest, static_cast<std::size_t>(std::ranges::count_if(
                                        row, [](action const& a) { return is_compute(a.kind); })));
    width = asked > 0 ? asked : std::clamp(13.0 * static_cast<double>(longest), 908.0, 16000.0);
    row_height = ranks() <= 12 ? 24 : ranks() <= 40 ? 17 : 11;
    scale = width / drawn_time(t.times);
    for (auto const& steps : t.memory) most_ = (std::max)(most_, most_memory(steps));
  }

  double width, row_height, scale;

  std::size_t ranks() const { return t_.order.ranks.size(); }
  double row(std::size_t r) const { return top + static_cast<double>(r) * (row_height + 4); }
  double bottom() const { return row(ranks()); }
  double x(double time) const { return left + scale * time; }
  double full_width() const { return left + width + right; }
  double full_height() const { return t_.memory.empty() ? bottom() + 34 : strip(ranks()) + 8; }

  /// All but the bars, which are to be drawn above it.
  void write(markup_writer& to, std::array<bool, 5> const& hues, std::size_t tints) const {
    write_hatch(to);
    to.empty("rect", {{"class", "ground"}, {"width", full_width()}, {"height", full_height()}});
    write_legend(to, hues, tints);
    for (std::size_t r = 0; r < ranks(); ++r) write_track(to, r);
    for (std::size_t r = 0; r < t_.memory.size(); ++r) write_strip_ground(to, r);
    write_axis(to);
    for (std::size_t r = 0; r < t_.memory.size(); ++r) write_strip(to, r);
  }

 private:
  double strip_height() const { return row_height - 4; }
  double strip(std::size_t r) const { return bottom() + 52 + static_cast<double>(r) * (row_height + 2); }

  /// What bubbles are filled with.
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

  void write_legend(markup_writer& to, std::array<bool, 5> const& hues, std::size_t tints) const {
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
    auto const numbers = std::string("numbers: microbatches");
    auto const text =
        tints > 1 ? "tints: the " + std::to_string(tints) + " stages of a rank; " + numbers : numbers;
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

  void write_side(markup_writer& to, std::size_t r, double y, std::string const& detail) const {
    write_svg_text(to, "name", left - 10, y, "end", "rank\u00a0" + std::to_string(r));
    write_svg_text(to, "detail", full_width() - 6, y, "end", detail);
  }

  void write_axis(markup_writer& to) const {
    double const length = drawn_time(t_.times);
    double const step = tick_step(length, static_cast<std::size_t>(std::clamp(width / 100, 4.0, 200.0)));
    for (std::size_t i = 0; static_cast<double>(i) * step <= length * (1 + 1e-9); ++i) {
      double const time = static_cast<double>(i) * step, at = x(time);
      write_tick(to, at, bottom(), bottom() + 5);
      if (!t_.memory.empty()) write_tick(to, at, strip(0), strip(ranks()) - 6);
      write_svg_text(to, "tick", at, bottom() + 17, "middle", decimal_text(time, 6));
    }
    if (!t_.time_unit.empty())
      write_svg_text(to, "tick", full_width() - 6, bottom() + 17, "end", printable(t_.time_unit, 12));
  }
  static void write_tick(markup_writer& to, double x, double from, double until) {
    to.empty("line", {{"class", "grid"}, {"x1", x}, {"x2", x}, {"y1", from}, {"y2", until}});
  }

  void write_strip_ground(markup_writer& to, std::size_t r) const {
    to.empty(
        "rect",
        {{"class", "strip"}, {"x", left}, {"y", strip(r)}, {"width", width}, {"height", strip_height()}});
  }

  /// What rank `r` keeps over time, as steps; all ranks have one scale.
  void write_strip(markup_writer& to, std::size_t r) const {
    bool const bytes = t_.memory_unit == timed_schedule::unit::bytes;
    if (r == 0)
      write_svg_text(to, "tick", left, strip(0) - 9, "start",
                     bytes ? "memory of each rank" : "forward passes that each rank keeps");
    double const base = strip(r) + strip_height();
    double const unit = most_ > 0 ? strip_height() / static_cast<double>(most_) : 0;
    std::string path = 'M' + decimal_text(left, 1) + ' ' + decimal_text(base, 1);
    for (auto const& step : t_.memory[r])
      path += 'H' + decimal_text(x(step.time), 1) + 'V' +
              decimal_text(base - unit * static_cast<double>(step.bytes), 1);
    double const end = t_.memory[r].empty() ? left : (std::max)(left + width, x(t_.memory[r].back().time));
    path += 'H' + decimal_text(end, 1) + 'V' + decimal_text(base, 1) + 'z';
    to.empty("path", {{"class", "kept"}, {"data-rank", r}, {"d", path}});
    write_side(to, r, strip(r) + strip_height() / 2 + 4,
               "most " + memory_text(t_, most_memory(t_.memory[r])));
  }

  timed_schedule const& t_;
  std::uint64_t most_ = 0;
};

}  // namespace cleave::detail
