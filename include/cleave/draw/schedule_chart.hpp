// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/draw/timeline_svg.hpp"
#include "cleave/formats/timed_schedule.hpp"
#include "cleave/formats/units.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave::inline v0_2 {

/// Options of `schedule_chart`.
struct schedule_chart_options {
  enum class ink : std::uint8_t { plain, ansi };
  ink colours = ink::plain;
  std::size_t columns = 100;     ///< characters per line; at least 40
  std::size_t most_lines = 120;  ///< limit of the timeline; a longer one is drawn coarser
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Draws a schedule in characters. Helper of `schedule_chart`.
class schedule_chart_writer {
 public:
  schedule_chart_writer(timed_schedule const& t, schedule_chart_options const& options)
      : t_(t), options_(options), bars_(bars_of(t.order, t.times)), local_(local_numbers(t.order.place)) {
    auto const ranks = std::max<std::size_t>(1, t.order.ranks.size());
    margin_ = 7 + std::to_string(ranks - 1).size();
    room_ = std::max<std::size_t>(40, options.columns) - margin_;
    choose_scale(ranks);
  }

  std::string write() const {
    auto const lines = columns_of_bars();
    std::string text;
    for (std::size_t from = 0; from < total_; from += room_) {
      auto const to = (std::min)(total_, from + room_);
      if (from > 0) text += '\n';
      for (std::size_t r = 0; r < lines.size(); ++r)
        text += label("rank ", r) + bars_text(lines[r], from, to) + '\n';
      text += axis(from, to);
    }
    auto const most = most_of_all();
    if (!t_.memory.empty()) text += "\npeak memory " + memory_text(t_, most) + "\n";
    for (std::size_t r = 0; r < t_.memory.size(); ++r)
      text += label("rank ", r) + kept_text(t_.memory[r], static_cast<double>(most)) + '\n';
    return text;
  }

 private:
  static constexpr std::uint32_t nothing = 0xffffffff;

  /// Chooses the columns per unit of time so that the letter and microbatch of every bar fit. If this needs
  /// too many lines, only the letters fit. If these still need too many, the whole step is drawn on one line.
  void choose_scale(std::size_t ranks) {
    exponent_ = drawn_exponent(t_.times);
    double const whole = scaled(drawn_time(t_.times));
    double shortest = whole;
    for (auto const& b : bars_)
      if (!b.is_beside) shortest = (std::min)(shortest, scaled(b.end - b.begin) / b.lanes);
    auto const digits = std::to_string((std::max)(1u, t_.order.microbatches) - 1).size();
    double const most =
        static_cast<double>(std::max<std::size_t>(1, options_.most_lines / (ranks + 2)) * room_);
    for (std::size_t const letters : {digits + 1, std::size_t{1}}) {
      scale_ = static_cast<double>(letters) / shortest;
      if (scale_ * whole <= most) break;
      scale_ = static_cast<double>(room_) / whole;
    }
    total_ = column_at(drawn_time(t_.times));
  }

  std::string label(std::string_view what, std::size_t r) const {
    auto const number = std::to_string(r);
    return std::string(what) + std::string(margin_ - 7 - number.size(), ' ') + number + "  ";
  }

  /// Returns, for each rank, the bar that covers the middle of each column.
  std::vector<std::vector<std::uint32_t>> columns_of_bars() const {
    std::vector<std::vector<std::uint32_t>> lines(t_.order.ranks.size(),
                                                  std::vector<std::uint32_t>(total_, nothing));
    for (std::uint32_t i = 0; i < bars_.size(); ++i) {
      auto const& b = bars_[i];
      if (b.is_beside) continue;
      double const lane = (b.end - b.begin) / b.lanes, begin = b.begin + lane * b.lane;
      for (auto c = column_at(begin); c < (std::min)(total_, column_at(begin + lane)); ++c)
        lines[index(b.rank)][c] = i;
    }
    return lines;
  }
  double scaled(double time) const { return std::ldexp(time, -exponent_); }
  std::size_t column_at(double time) const {
    return static_cast<std::size_t>(std::lround(scaled(time) * scale_));
  }
  double time_at(std::size_t column) const {
    return std::ldexp(static_cast<double>(column) / scale_, exponent_);
  }

  std::string bars_text(std::vector<std::uint32_t> const& line, std::size_t from, std::size_t to) const {
    std::string text;
    for (auto c = from; c < to;) {
      auto end = c;
      while (end < to && line[end] == line[c]) ++end;
      if (line[c] == nothing)
        for (auto i = c; i < end; ++i) text += "\u00b7";
      else
        text += bar_text(bars_[line[c]].what, end - c, c == from && c > 0 && line[c - 1] == line[c]);
      c = end;
    }
    return text;
  }

  /// Returns the text of a bar, such as `F3`. Every second stage of a rank has lower-case letters. If there
  /// is no room for the number, the letter stands alone. A continuation from the line above has no label.
  std::string bar_text(action const& a, std::size_t width, bool goes_on) const {
    bool const second = index(a.stage) < local_.size() && local_[index(a.stage)] % 2 == 1;
    char const capital = is_compute(a.kind) ? name_of(a.kind).front() : 'X';
    std::string text(1, second ? static_cast<char>(capital - 'A' + 'a') : capital);
    if (goes_on)
      text.clear();
    else if (a.microbatch != no_microbatch && 1 + std::to_string(index(a.microbatch)).size() <= width)
      text += std::to_string(index(a.microbatch));
    text +=
        std::string(width - text.size(), options_.colours == schedule_chart_options::ink::ansi ? ' ' : '-');
    return options_.colours == schedule_chart_options::ink::ansi ? colour(a.kind, second) + text + "\x1b[0m"
                                                                 : text;
  }

  static std::string colour(action_kind k, bool second) {
    constexpr std::array<std::array<int, 2>, 5> colours = {
        {{153, 75}, {151, 72}, {222, 179}, {183, 140}, {252, 246}}};
    auto const hue =
        is_compute(k) ? static_cast<std::size_t>(k) - static_cast<std::size_t>(action_kind::forward) : 4;
    return "\x1b[38;5;16;48;5;" + std::to_string(colours[hue][second]) + 'm';
  }

  std::string axis(std::size_t from, std::size_t to) const {
    double const first = time_at(from), last = time_at(to);
    auto const shown = (std::min)(room_, total_);
    double const step = tick_step(time_at(shown), std::max<std::size_t>(2, shown / 8));
    std::string line(margin_, ' ');
    bool const has_ticks = step >= (std::numeric_limits<double>::min)();  // smaller ones have too few digits
    for (auto i = static_cast<std::size_t>(has_ticks ? first / step : 0);
         has_ticks && static_cast<double>(i) * step <= last; ++i) {
      double const time = static_cast<double>(i) * step;
      if (time < first) continue;
      auto const at = margin_ + column_at(time) - from;
      auto const text = decimal_text(time, 6);
      if (at < line.size() && i > 0 && line.size() > margin_) continue;
      line += std::string(at - line.size(), ' ') + text + ' ';
    }
    return line.substr(0, line.find_last_not_of(' ') + 1) + (t_.time_unit.empty() ? "" : ' ' + t_.time_unit) +
           '\n';
  }

  std::uint64_t most_of_all() const {
    std::uint64_t most = 0;
    for (auto const& steps : t_.memory) most = (std::max)(most, most_memory(steps));
    return most;
  }

  /// Returns the memory of the whole step in one line: the maximum within the time of each column. A block
  /// of full height stands for `all` bytes.
  std::string kept_text(std::vector<memory_step> const& steps, double all) const {
    constexpr std::array<std::string_view, 9> eighths = {" ",      "\u2581", "\u2582", "\u2583", "\u2584",
                                                         "\u2585", "\u2586", "\u2587", "\u2588"};
    double const width = scaled(drawn_time(t_.times)) / static_cast<double>(room_);
    std::string text;
    std::uint64_t now = 0;
    std::size_t next = 0;
    for (std::size_t c = 0; c < room_; ++c) {
      auto most = now;
      for (; next < steps.size() && scaled(steps[next].time) < width * static_cast<double>(c + 1); ++next)
        most = (std::max)(most, now = steps[next].bytes);
      auto const eighth = all > 0 ? static_cast<std::size_t>(8 * static_cast<double>(most) / all + 0.999) : 0;
      text += eighths[std::min<std::size_t>(8, eighth)];
    }
    return text.substr(0, text.find_last_not_of(' ') + 1);
  }

  timed_schedule const& t_;
  schedule_chart_options const& options_;
  std::vector<schedule_bar> bars_;
  std::vector<std::uint32_t> local_;
  std::size_t margin_, room_, total_ = 0;
  int exponent_ = 0;  ///< times are divided by 2^exponent_ before they are multiplied by scale_
  double scale_ = 1;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a timed schedule as text with one line per rank. `F3` is the forward pass of microbatch 3, `-`
/// continues a pass, and a dot is a bubble. Below are the memory profiles of the ranks. Lines are wrapped at
/// `columns`. O(actions + characters).
inline std::string schedule_chart(timed_schedule const& t, schedule_chart_options const& options = {}) {
  return detail::schedule_chart_writer(t, options).write();
}

}  // namespace cleave
