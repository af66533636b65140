// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/core/printable.hpp>
#include <cleave/draw/markup_writer.hpp>
#include <cleave/draw/report.hpp>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench_plots.hpp"
#include "bench_tables.hpp"

namespace tool {

inline constexpr std::string_view bench_page_style = R"(
td small { display: block; color: var(--soft); font-size: 0.75rem; }
td.best { font-weight: 650; }
td.bad { color: var(--bad); }
tr.base th, tr.base td { background: var(--panel); }
:root { --bad: #b3372a; }
@media (prefers-color-scheme: dark) { :root { --bad: #f08a7d; } }
)";

/// Writes runs as a page; used by `write_bench_page`.
class bench_page_writer {
 public:
  bench_page_writer(bench_summary const& from, std::size_t rows) : s_(from), rows_(rows) {}

  std::string write() {
    to_.markup("<!doctype html>\n").open("html", {{"lang", "en"}});
    to_.open("head").empty("meta", {{"charset", "utf-8"}});
    to_.empty("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}});
    to_.element("title", title);
    to_.open("style").markup(cleave::report_style).markup(bench_page_style).close("style").close("head");
    to_.open("body").open("header").element("h1", title).element("p", {{"class", "lead"}}, lead());
    facts();
    to_.close("header");
    picture(
        "plot", "Time and cut", [&] { time_plot(to_, s_).write(); },
        "Each algorithm at its geometric means; thin lines reach one geometric standard deviation to each "
        "side. Lower is a smaller cut, further left is faster.");
    picture(
        "profiles", "Performance profile", [&] { profile_plot(to_, s_).write(); },
        "Share of the problems solved with a cut of at most this multiple of the smallest cut found. Runs "
        "that "
        "broke the balance, timed out or crashed do not count.");
    means("classes", "By class of instance", groups_by_class(s_));
    means("counts", "By number of parts", groups_by_parts(s_));
    runs();
    problems();
    to_.element("footer", {{"class", "soft"}},
                "Written by cleave. Hover over a curve or a dot for exact figures.");
    to_.close("body").close("html");
    return to_.str();
  }

 private:
  static constexpr std::string_view title = "Partitioners side by side";

  std::string base_name() const { return cleave::printable(s_.baseline_name()); }
  std::string lead() const {
    return "Ratios of cut and of time to " + base_name() +
           " on the same instance and number of parts. Medians over seeds, geometric means over problems. "
           "Cut, balance and empty parts are recounted from the parts. For DAGs, algorithms that minimise "
           "the "
           "largest load are compared by it.";
  }
  void facts() {
    std::vector<std::string> instances;
    for (auto const& p : s_.problems())
      if (std::ranges::find(instances, p.instance) == instances.end()) instances.push_back(p.instance);
    to_.open("dl");
    auto const fact = [&](std::string_view what, std::size_t n) {
      to_.open("div").element("dt", what).element("dd", cleave::count_text(n)).close("div");
    };
    fact("Algorithms", s_.algorithms().size());
    fact("Instances", instances.size());
    fact("Problems", s_.problems().size());
    fact("Runs", rows_);
    to_.close("dl");
  }

  void open_section(std::string_view id, std::string_view heading) {
    to_.open("section", {{"aria-labelledby", id}}).element("h2", {{"id", id}}, heading);
  }
  void open_wide(std::string_view id) {
    to_.open("div", {{"class", "wide"}, {"tabindex", "0"}, {"role", "region"}, {"aria-labelledby", id}});
  }
  void open_table(std::string_view id, std::vector<std::string> const& columns) {
    open_wide(id);
    to_.open("table").open("thead").open("tr");
    for (auto const& c : columns) to_.element("th", {{"scope", "col"}}, c);
    to_.close("tr").close("thead").open("tbody");
  }
  void close_table() { to_.close("tbody").close("table").close("div"); }
  void open_row(std::size_t algorithm) {
    to_.open("tr", {{"class", s_.is_baseline(algorithm) ? "base" : "other"}});
    to_.element("th", {{"scope", "row"}}, cleave::printable(s_.algorithms()[algorithm]));
  }

  template <class Draw>
  void picture(std::string_view id, std::string_view heading, Draw draw, std::string_view caption) {
    open_section(id, heading);
    to_.open("figure");
    open_wide(id);
    draw();
    to_.close("div").element("figcaption", caption).close("figure").close("section");
  }

  void means(std::string_view id, std::string_view heading, std::vector<problem_group> const& groups) {
    open_section(id, heading);
    to_.element("p",
                "Geometric means of cut / time, each with its smallest and largest ratio and the number of "
                "problems that both algorithms solved.");
    std::vector<std::string> columns{"Algorithm"};
    for (auto const& g : groups) columns.push_back(g.name);
    open_table(id, columns);
    for (std::size_t a = 0; a < s_.algorithms().size(); ++a) {
      open_row(a);
      for (auto const& g : groups) {
        auto const r = result_of(s_, a, g);
        to_.open("td");
        if (!r.known()) to_.text("–");
        if (r.known())
          to_.text(r.means()).element("small", r.spread() + " (" + std::to_string(r.cut.count) + ")");
        to_.close("td");
      }
      to_.close("tr");
    }
    close_table();
    to_.close("section");
  }

  void runs() {
    open_section("runs", "Outcomes of the runs");
    open_table("runs", {"Algorithm", "Good", "Infeasible", "Timed out", "Crashed", "Refused",
                        "Problems not tried", "Problems with the least cut"});
    for (std::size_t a = 0; a < s_.algorithms().size(); ++a) {
      auto const n = counts_of(s_, a);
      open_row(a);
      to_.element("td", std::to_string(n.good));
      for (auto const bad : {n.infeasible, n.late, n.crashed, n.refused})
        to_.element("td", {{"class", bad > 0 ? "bad" : "none"}}, std::to_string(bad));
      to_.element("td", std::to_string(n.missing)).element("td", std::to_string(n.best));
      to_.close("tr");
    }
    close_table();
    to_.close("section");
  }

  void problems() {
    open_section("problems", "Problem by problem");
    to_.element("p", "Cut / time, × " + base_name() +
                         ", whose own cells show cut and CPU seconds. Bold: the smallest cut.");
    std::vector<std::string> columns{"Instance", "k"};
    for (auto const& name : s_.algorithms()) columns.push_back(cleave::printable(name));
    open_table("problems", columns);
    for (std::size_t p = 0; p < s_.problems().size(); ++p) {
      to_.open("tr").element("th", {{"scope", "row"}}, cleave::printable(s_.problems()[p].instance));
      to_.element("td", std::to_string(s_.problems()[p].parts));
      for (std::size_t a = 0; a < s_.algorithms().size(); ++a) {
        bool const bad = s_.at(p, a).good < s_.at(p, a).runs();
        to_.element("td",
                    {{"class", has_best_cut(s_, p, a) ? "best"
                               : bad                  ? "bad"
                                                      : "none"}},
                    problem_text(s_, p, a));
      }
      to_.close("tr");
    }
    close_table();
    to_.close("section");
  }

  bench_summary const& s_;
  std::size_t rows_;
  cleave::markup_writer to_;
};

inline std::string write_bench_page(bench_summary const& from, std::size_t rows) {
  return bench_page_writer(from, rows).write();
}

}  // namespace tool
