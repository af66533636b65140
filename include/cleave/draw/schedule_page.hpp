// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/core/real.hpp"
#include "cleave/draw/detail/schedule_zoom.hpp"
#include "cleave/draw/markup_writer.hpp"
#include "cleave/draw/report.hpp"
#include "cleave/draw/schedule_svg.hpp"
#include "cleave/formats/json/json_writer.hpp"
#include "cleave/formats/timed_schedule.hpp"
#include "cleave/formats/units.hpp"

namespace cleave::inline v0_2 {

/// A fact shown above the picture of a page: a term and its value.
struct page_fact {
  std::string what, value;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Writes a page. Helper of `schedule_page`.
class schedule_page_writer {
 public:
  schedule_page_writer(timed_schedule const& t, std::vector<page_fact> const& facts) : t_(t), facts_(facts) {}

  std::string write() {
    to_.markup("<!doctype html>\n").open("html", {{"lang", "en"}});
    head();
    to_.open("body").open("header").element("h1", title());
    to_.element("p", {{"class", "lead"}}, lead());
    totals();
    to_.close("header");
    picture();
    table();
    to_.element("footer", {{"class", "soft"}}, "Written by cleave. Point at a bar for exact figures.");
    to_.close("body").close("html");
    return to_.str();
  }

 private:
  std::string title() const { return printable(t_.name, 120); }
  static std::string counted(std::size_t n, std::string const& one, std::string const& many) {
    return count_text(n) + ' ' + (n == 1 ? one : many);
  }

  void head() {
    to_.open("head").empty("meta", {{"charset", "utf-8"}});
    to_.empty("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}});
    to_.element("title", title());
    to_.open("style").markup(report_style).markup(schedule_zoom_style);
    to_.markup("#schedule-all svg { max-width: none; margin: 0; }\n").close("style").close("head");
  }

  std::string lead() const {
    return counted(t_.order.ranks.size(), "rank", "ranks") + ", " +
           counted(t_.order.place.stages(), "stage", "stages") + ", " +
           counted(t_.order.microbatches, "microbatch", "microbatches") + ".";
  }

  void totals() {
    std::vector<page_fact> list = {{"Time of the step", time_text(t_, t_.times.makespan)},
                                   {"Bubble", percent_text(bubble_rate(t_.times))},
                                   {"Messages", count_text(count_messages(t_.order))}};
    list.insert(list.end(), facts_.begin(), facts_.end());
    to_.open("dl", {{"class", "totals"}});
    for (auto const& f : list)
      to_.open("div").element("dt", printable(f.what)).element("dd", printable(f.value, 200)).close("div");
    to_.close("dl");
  }

  /// Draws the whole step in the width of the page. If passes are too narrow for their numbers, a script
  /// draws the part of it that the reader chooses; without scripts, a wide picture shows the passes, unless
  /// there are too many for it.
  void picture() {
    constexpr std::size_t most_bars = 4096;
    to_.open("section", {{"aria-labelledby", "time"}}).element("h2", {{"id", "time"}}, "Timeline");
    to_.open("figure", {{"id", "schedule-whole"}});
    open_wide("time");
    schedule_svg_options all{.bars = schedule_svg_options::detail::hover, .width = schedule_frame::narrowest};
    bool const readable = schedule_drawing(to_, t_, all).shows_numbers();
    if (!readable) all.bars = schedule_svg_options::detail::overview;
    write_schedule(to_, t_, all);
    to_.close("div");
    if (readable) {
      to_.close("figure").close("section");
      return;
    }
    to_.element("figcaption", "The whole step. Click on it to see the passes around that time.");
    to_.close("figure");
    auto const bars = bars_of(t_.order, t_.times);
    to_.open("noscript");
    if (bars.size() > most_bars) {
      to_.element("p", {{"class", "soft"}}, "Single passes are shown by a script, which is turned off here.");
    } else {
      to_.open("figure", {{"id", "schedule-all"}});
      open_wide("time");
      write_schedule(to_, t_, {.bars = schedule_svg_options::detail::plain, .id = "passes"});
      to_.close("div").close("figure");
    }
    to_.close("noscript");
    zoom();
    to_.open("script", {{"type", "application/json"}, {"id", "bars"}}).markup(data(bars)).close("script");
    to_.open("script").markup(schedule_script).close("script").close("section");
  }
  /// Opens a block that scrolls if it is wider than the page. `heading` is the id of its heading.
  void open_wide(std::string_view heading) {
    to_.open("div", {{"class", "wide"}, {"tabindex", "0"}, {"role", "region"}, {"aria-labelledby", heading}});
  }

  /// Writes the empty picture and the buttons of `schedule_script`.
  void zoom() {
    to_.open("figure", {{"id", "zoom"}, {"hidden", "hidden"}}).open("div", {{"id", "zoom-tools"}});
    auto const button = [&](char const* id, char const* label, char const* text) {
      to_.element("button", {{"type", "button"}, {"id", id}, {"aria-label", label}}, text);
    };
    button("zoom-in", "zoom in", "+");
    button("zoom-out", "zoom out", "−");
    button("zoom-numbers", "zoom until numbers fit", "numbers");
    button("zoom-all", "show the whole step", "whole step");
    to_.element("output", {{"id", "zoom-place"}}, "").close("div");
    to_.open("div",
             {{"id", "zoom-scroll"}, {"tabindex", "0"}, {"role", "region"}, {"aria-labelledby", "time"}});
    to_.open("div", {{"id", "zoom-space"}});
    to_.element("svg", {{"id", "zoom-picture"}, {"class", "schedule"}, {"aria-hidden", "true"}}, "");
    to_.close("div").close("div").element("output", {{"id", "zoom-bar"}}, "");
    to_.element(
        "figcaption",
        "The passes; numbers are microbatches, where they fit. Scroll to move, hold Ctrl and turn the "
        "wheel to zoom, and point at a pass for its time.");
    to_.close("figure");
  }

  /// Returns what `schedule_script` reads, as JSON without characters that end an element.
  std::string data(std::vector<schedule_bar> const& bars) const {
    auto const unit = axis_unit_of(t_.time_unit, t_.times.makespan);
    double const length = drawn_time(t_.times) * unit.scale;
    int const decimals = std::clamp(6 - decimal_exponent(length), 0, 15);
    json::writer w;
    w.open_object().member("unit", printable(unit.name, 12)).member("length", length);
    w.member("row", t_.order.ranks.size() <= 12 ? 24 : t_.order.ranks.size() <= 40 ? 17 : 13);
    w.member("left", schedule_frame::left).member("width", schedule_frame::narrowest);
    w.member("scale", 1.2 * schedule_frame::width_of_numbers(t_) / length);
    w.key("tints").open_array();
    for (auto const local : local_numbers(t_.order.place)) w.value(local);
    w.close_array().key("ranks").open_array();
    std::vector<std::set<std::size_t>> critical(t_.order.ranks.size());
    for (auto const& at : t_.critical) critical[index(at.rank)].insert(at.position);
    for (std::size_t r = 0, next = 0; r < t_.order.ranks.size(); ++r)
      w.value(next < bars.size() && index(bars[next].rank) == r
                  ? schedule_bars_text(bars, next, critical[r], unit.scale, decimals)
                  : "");
    auto text = w.close_array().close_object().text();
    for (auto const& [character, code] : {std::pair('<', "\\u003c"), {'&', "\\u0026"}})
      for (auto at = text.find(character); at != std::string::npos; at = text.find(character, at))
        text.replace(at, 1, code);
    return text;
  }

  void table() {
    to_.open("section", {{"aria-labelledby", "ranks"}}).element("h2", {{"id", "ranks"}}, "Ranks");
    open_wide("ranks");
    to_.open("table").open("thead").open("tr");
    for (std::string_view const name : {"Rank", "Stages", "Computes", "Bubble", "Begins", "Ends"})
      column(name);
    if (!t_.memory.empty())
      column(t_.memory_unit == timed_schedule::unit::bytes ? "Peak memory" : "Peak kept");
    to_.close("tr").close("thead").open("tbody");
    for (std::size_t r = 0; r < t_.order.ranks.size(); ++r) row(r);
    to_.close("tbody").close("table").close("div").close("section");
  }
  void column(std::string_view name) { to_.element("th", {{"scope", "col"}}, name); }

  void row(std::size_t r) {
    std::string stages;
    auto const& rank_of = t_.order.place.rank_of;
    for (std::size_t s = 0; s < rank_of.size(); ++s)
      if (index(rank_of[s]) == r) stages += (stages.empty() ? "" : ", ") + std::to_string(s);
    to_.open("tr").element("th", {{"scope", "row"}}, std::to_string(r)).element("td", printable(stages, 40));
    to_.element("td", time_text(t_, t_.times.busy[r]));
    to_.element("td", percent_text(1 - t_.times.busy[r] / drawn_time(t_.times)));
    to_.element("td", time_text(t_, t_.times.first[r])).element("td", time_text(t_, t_.times.last[r]));
    if (!t_.memory.empty()) to_.element("td", memory_text(t_, most_memory(t_.memory[r])));
    to_.close("tr");
  }

  timed_schedule const& t_;
  std::vector<page_fact> const& facts_;
  markup_writer to_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a timed schedule as a self-contained HTML page. It shows totals and `facts`, a picture of the
/// whole step, and a table of the ranks. If passes are too narrow for the numbers of their microbatches, a
/// script draws any part of the step at any scale. O(actions).
inline std::string schedule_page(timed_schedule const& t, std::vector<page_fact> const& facts = {}) {
  return detail::schedule_page_writer(t, facts).write();
}

}  // namespace cleave
