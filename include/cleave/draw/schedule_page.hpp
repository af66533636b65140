// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/printable.hpp"
#include "cleave/draw/markup_writer.hpp"
#include "cleave/draw/report.hpp"
#include "cleave/draw/schedule_svg.hpp"
#include "cleave/formats/timed_schedule.hpp"
#include "cleave/formats/units.hpp"

namespace cleave {

/// A fact shown above the picture of a page: a term and its value.
struct page_fact {
  std::string what, value;
};

}  // namespace cleave

namespace cleave::detail {

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
    to_.element("footer", {{"class", "soft"}}, "Written by cleave. Hover over a bar for exact figures.");
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
    to_.open("style").markup(report_style).markup(".wide svg.schedule { max-width: none; margin: 0; }\n");
    to_.close("style").close("head");
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

  void picture() {
    to_.open("section", {{"aria-labelledby", "time"}}).element("h2", {{"id", "time"}}, "Timeline");
    to_.open("figure").open(
        "div", {{"class", "wide"}, {"tabindex", "0"}, {"role", "region"}, {"aria-labelledby", "time"}});
    write_schedule(to_, t_);
    to_.close("div").close("figure").close("section");
  }

  void table() {
    to_.open("section", {{"aria-labelledby", "ranks"}}).element("h2", {{"id", "ranks"}}, "Ranks");
    to_.open("div", {{"class", "wide"}, {"tabindex", "0"}, {"role", "region"}, {"aria-labelledby", "ranks"}});
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

namespace cleave {

/// Returns a timed schedule as a self-contained HTML page. It shows totals and `facts`, the picture with a
/// tooltip for each bar, and a table of the ranks. O(actions).
inline std::string schedule_page(timed_schedule const& t, std::vector<page_fact> const& facts = {}) {
  return detail::schedule_page_writer(t, facts).write();
}

}  // namespace cleave
