// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/core/printable.hpp>
#include <cleave/draw/markup_writer.hpp>
#include <cleave/draw/report.hpp>
#include <cleave/formats/units.hpp>
#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench_changes.hpp"
#include "bench_plots.hpp"
#include "bench_sections.hpp"
#include "bench_tables.hpp"

namespace tool {

inline constexpr std::string_view bench_page_style = R"(
td small { display: block; color: var(--soft); font-size: 0.75rem; }
td.best { font-weight: 650; }
td.bad, .worse, td small.worse { color: var(--bad); }
.better, td small.better { color: var(--good); }
td.begin, th.begin { border-left: 1px solid var(--line); }
th.group { text-align: left; }
thead th { white-space: normal; min-width: 4.5rem; }
table.narrow { font-size: 0.85rem; }
table.narrow th, table.narrow td { padding-left: 0.4rem; padding-right: 0.4rem; }
table.narrow tr > :first-child { padding-left: 0; }
tr.base th, tr.base td { background: var(--panel); }
tr.worse th, tr.worse td { color: var(--bad); }
tr.better th, tr.better td { color: var(--good); }
h2.kind { font-size: 1.5rem; margin-top: 3.5rem; padding-top: 1.5rem; border-top: 1px solid var(--frame); }
h3 { margin: 2.75rem 0 0.35rem; font-size: 1.2rem; font-weight: 650; letter-spacing: -0.005em; }
h4 { margin: 1.75rem 0 0.35rem; font-size: 1rem; font-weight: 650; }
.verdict { margin: 1.25rem 0 0; padding: 0.7rem 0.95rem; max-width: none; border: 1px solid var(--line);
  border-left: 4px solid var(--good); border-radius: 4px; }
.verdict.worse { border-left-color: var(--bad); color: var(--bad); }
:root { --bad: #b3372a; --good: #1f7a4d; }
@media (prefers-color-scheme: dark) { :root { --bad: #f08a7d; --good: #6fcf9b; } }
)";

/// Writes runs as a page; used by `write_bench_page`.
class bench_page_writer {
 public:
  explicit bench_page_writer(std::span<bench_section const> sections) : sections_(sections) {}

  std::string write() {
    to_.markup("<!doctype html>\n").open("html", {{"lang", "en"}});
    to_.open("head").empty("meta", {{"charset", "utf-8"}});
    to_.empty("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}});
    to_.element("title", title);
    to_.open("style").markup(cleave::report_style).markup(bench_page_style).close("style").close("head");
    to_.open("body").open("header").element("h1", title);
    to_.element(
        "p", {{"class", "lead"}},
        "Medians over seeds, geometric means over problems: an instance and a number of parts. Cut, "
        "balance and empty parts are recounted from the parts. Runs that broke the balance, timed out "
        "or failed have no cut here; their numbers are below.");
    facts();
    verdict();
    to_.close("header");
    for (auto const& s : sections_) section(s);
    to_.element("footer", {{"class", "soft"}},
                "Written by cleave. Hover over a curve or a dot for exact figures.");
    to_.close("body").close("html");
    return to_.str();
  }

 private:
  static constexpr std::string_view title = "Partitioners side by side";

  bench_summary const& s() const { return now_->summary; }
  std::string base_name() const { return cleave::printable(s().baseline_name()); }

  void facts() {
    std::set<std::string> algorithms, instances;
    std::size_t problems = 0, runs = 0, good = 0, infeasible = 0;
    for (auto const& from : sections_) {
      auto const& s = from.summary;
      algorithms.insert(s.algorithms().begin(), s.algorithms().end());
      for (auto const& p : s.problems()) instances.insert(p.instance);
      problems += s.problems().size();
      runs += from.rows.size();
      for (std::size_t a = 0; a < s.algorithms().size(); ++a) {
        auto const n = counts_of(s, a);
        good += n.good, infeasible += n.infeasible;
      }
    }
    to_.open("dl");
    auto const fact = [&](std::string_view what, std::size_t n, bool bad = false) {
      to_.open("div").element("dt", what);
      to_.element("dd", {{"class", bad && n > 0 ? "worse" : "plain"}}, cleave::count_text(n)).close("div");
    };
    fact("Algorithms", algorithms.size());
    fact("Instances", instances.size());
    fact("Problems", problems);
    fact("Runs", runs);
    fact("Runs that broke the balance", infeasible, true);
    fact("Runs without an answer", runs - good - infeasible, true);
    to_.close("dl");
  }

  /// Says how the runs changed since the recorded ones.
  void verdict() {
    std::vector<bench_changes> all;
    for (auto const& from : sections_)
      if (from.changes) all.push_back(*from.changes);
    if (all.empty()) return;
    bool const worse = std::ranges::any_of(all, [](auto const& c) { return c.worse_by(notable_growth) > 0; });
    to_.element("p", {{"class", worse ? "verdict worse" : "verdict"}}, changes_sentence(all));
  }

  void section(bench_section const& from) {
    now_ = &from;
    if (sections_.size() > 1)
      to_.element("h2", {{"class", "kind"}, {"id", id("kind")}}, heading_of(from.metric));
    headline();
    if (from.changes) changes(*from.changes);
    picture(
        "plot", "Time and cut", [&] { time_plot(to_, s(), id("times")).write(); },
        "Each algorithm at its geometric means; thin lines reach one geometric standard deviation to each "
        "side. Lower is a smaller cut, further left is faster.");
    picture(
        "profiles", "Performance profile of the cuts", [&] { profile_plot(to_, s(), id("profile")).write(); },
        "Share of the problems that an algorithm solves with a cut of at most this multiple of the best one. "
        "A curve further up and left is better. It ends below 100 % if cuts beyond the right edge remain, or "
        "runs that broke the balance, timed out or failed.");
    picture(
        "time-profiles", "Performance profile of the times",
        [&] { profile_plot(to_, s(), id("time-profile"), profile_plot::measure::time).write(); },
        "The same of times: share of the problems solved within this multiple of the least time.");
    if (s().classes().size() > 1 && has_class_of_two_sizes()) by_class_and_size();
    means("classes", "By class of instance", groups_by_class(s()));
    means("counts", "By number of parts", groups_by_parts(s()));
    runs();
    problems();
  }

  std::string id(std::string_view name) const {
    return sections_.size() > 1 ? std::string(name_of(now_->metric)) + "-" + std::string(name)
                                : std::string(name);
  }
  void open_section(std::string_view name, std::string_view heading) {
    to_.open("section", {{"aria-labelledby", id(name)}});
    to_.element(sections_.size() > 1 ? "h3" : "h2", {{"id", id(name)}}, heading);
  }
  void open_wide(std::string_view name) {
    to_.open("div",
             {{"class", "wide"}, {"tabindex", "0"}, {"role", "region"}, {"aria-labelledby", id(name)}});
  }
  void open_table(std::string_view name, std::vector<std::string> const& columns) {
    open_wide(name);
    to_.open("table").open("thead").open("tr");
    for (auto const& c : columns) to_.element("th", {{"scope", "col"}}, c);
    to_.close("tr").close("thead").open("tbody");
  }
  void close_table() { to_.close("tbody").close("table").close("div"); }
  void open_row(std::size_t algorithm) {
    to_.open("tr", {{"class", s().is_baseline(algorithm) ? "base" : "other"}});
    to_.element("th", {{"scope", "row"}}, cleave::printable(s().algorithms()[algorithm]));
  }

  template <class Draw>
  void picture(std::string_view name, std::string_view heading, Draw draw, std::string_view caption) {
    open_section(name, heading);
    to_.open("figure");
    open_wide(name);
    draw();
    to_.close("div").element("figcaption", caption).close("figure").close("section");
  }

  /// Writes cut and time of an algorithm on a group, with the number of problems.
  void mean_cell(std::size_t algorithm, problem_group const& on, bool begins, bool with_spread) {
    auto const r = result_of(s(), algorithm, on);
    to_.open("td", {{"class", begins ? "begin" : "none"}});
    if (!r.known()) to_.text("–");
    if (r.known())
      to_.text(r.means()).element(
          "small", (with_spread ? r.spread() + " (" : "(") + std::to_string(r.cut.count) + ")");
    to_.close("td");
  }

  /// The first table: means by size, small first, beside those by class.
  void headline() {
    open_section("headline", "By size and by class");
    to_.element("p", "Geometric means of cut / time, both as ratios to " + base_name() +
                         " on the same problem; below 1 is less cut, and less time. In brackets: the number "
                         "of problems that both solved within the balance. " +
                         runs_sentence(s()));
    auto sizes = groups_by_size(s()), classes = groups_by_class(s());
    sizes.push_back(all_problems());
    if (classes.size() > 1)
      classes.pop_back();  // `all` stands beside the sizes
    else
      classes.clear();
    open_wide("headline");
    to_.open("table", {{"class", "narrow"}}).open("thead");
    if (sizes.size() > 1 && !classes.empty()) {
      to_.open("tr").element("th", {{"scope", "col"}}, "");
      auto const over = [&](std::string_view name, std::size_t columns) {
        to_.element("th", {{"class", "group begin"}, {"scope", "colgroup"}, {"colspan", columns}}, name);
      };
      over("by size", sizes.size());
      over("by class", classes.size());
      to_.close("tr");
    }
    to_.open("tr").element("th", {{"scope", "col"}}, "Algorithm");
    auto const every = [&](auto cell) {
      for (auto const* const groups : {&sizes, &classes})
        for (auto const& g : *groups) cell(g, &g == groups->data());
    };
    every([&](problem_group const& g, bool begins) {
      to_.element("th", {{"class", begins ? "begin" : "none"}, {"scope", "col"}}, g.name);
    });
    to_.close("tr").close("thead").open("tbody");
    for (std::size_t a = 0; a < s().algorithms().size(); ++a) {
      open_row(a);
      every([&](problem_group const& g, bool begins) { mean_cell(a, g, begins, false); });
      to_.close("tr");
    }
    close_table();
    to_.element("p", {{"class", "soft"}}, sizes_sentence(s())).close("section");
  }

  void changes(bench_changes const& since) {
    open_section("changes", "Changes since the recorded run");
    to_.element("p", changes_sentence(std::span(&since, 1)) +
                         " A result is one algorithm on one problem. Times are not compared: they depend on "
                         "the machine.");
    auto const ranked = since.ranked();
    if (!ranked.empty()) {
      open_table("changes", {"Instance", "k", "Algorithm", "Cut", "Change"});
      for (auto const& c : ranked) {
        to_.open("tr", {{"class", c.is_worse() ? "worse" : "better"}});
        to_.element("th", {{"scope", "row"}}, cleave::printable(s().problems()[c.problem].instance));
        to_.element("td", std::to_string(s().problems()[c.problem].parts));
        to_.element("td", cleave::printable(s().algorithms()[c.algorithm]));
        to_.element("td", cuts_text(c)).element("td", change_text(c)).close("tr");
      }
      close_table();
    }
    to_.close("section");
  }

  bool has_class_of_two_sizes() const {
    std::set<std::pair<std::string_view, size_band>> both;
    for (auto const& p : s().problems()) both.emplace(class_of(p), band_of(p.nodes));
    return both.size() > s().classes().size();
  }

  /// Each class with its small instances above the larger ones.
  void by_class_and_size() {
    open_section("classes-by-size", "By class and size");
    to_.element("p", "Cut / time, × " + base_name() +
                         ", as above; the small instances of a class stand above the larger ones.");
    std::vector<std::string> columns{"Class", "Size"};
    for (auto const& name : s().algorithms()) columns.push_back(cleave::printable(name));
    open_table("classes-by-size", columns);
    for (auto const kind : s().classes())
      for (auto const band : s().bands()) {
        problem_group const group{
            "", [&](bench_problem const& p) { return class_of(p) == kind && band_of(p.nodes) == band; }};
        if (std::ranges::none_of(s().problems(), group.has)) continue;
        to_.open("tr").element("th", {{"scope", "row"}}, kind).element("td", name_of(band));
        for (std::size_t a = 0; a < s().algorithms().size(); ++a) mean_cell(a, group, false, false);
        to_.close("tr");
      }
    close_table();
    to_.close("section");
  }

  void means(std::string_view name, std::string_view heading, std::vector<problem_group> const& groups) {
    open_section(name, heading);
    to_.element("p",
                "Geometric means of cut / time, each with its smallest and largest ratio and the number of "
                "problems that both algorithms solved.");
    std::vector<std::string> columns{"Algorithm"};
    for (auto const& g : groups) columns.push_back(g.name);
    open_table(name, columns);
    for (std::size_t a = 0; a < s().algorithms().size(); ++a) {
      open_row(a);
      for (auto const& g : groups) mean_cell(a, g, false, true);
      to_.close("tr");
    }
    close_table();
    to_.close("section");
  }

  void runs() {
    open_section("runs", "Outcomes of the runs");
    open_table("runs", {"Algorithm", "Good", "Infeasible", "Timed out", "Crashed", "Refused",
                        "Problems not tried", "Problems with the least cut"});
    for (std::size_t a = 0; a < s().algorithms().size(); ++a) {
      auto const n = counts_of(s(), a);
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
                         ", whose own cells show cut and CPU seconds. Bold: the smallest cut." +
                         (now_->changes ? " Below: the change since the recorded run." : ""));
    for (auto const kind : s().classes()) problems_of(kind);
    to_.close("section");
  }
  void problems_of(std::string_view kind) {
    if (s().classes().size() > 1) to_.element("h4", kind);
    std::vector<std::string> columns{"Instance", "Nodes", "k"};
    for (auto const& name : s().algorithms()) columns.push_back(cleave::printable(name));
    open_table("problems", columns);
    for (std::size_t p = 0; p < s().problems().size(); ++p) {
      auto const& problem = s().problems()[p];
      if (class_of(problem) != kind) continue;
      to_.open("tr").element("th", {{"scope", "row"}}, cleave::printable(problem.instance));
      to_.element("td", problem.nodes > 0 ? cleave::count_text(problem.nodes) : "–");
      to_.element("td", std::to_string(problem.parts));
      for (std::size_t a = 0; a < s().algorithms().size(); ++a) problem_cell(p, a);
      to_.close("tr");
    }
    close_table();
  }
  void problem_cell(std::size_t p, std::size_t a) {
    bool const bad = s().at(p, a).good < s().at(p, a).runs();
    to_.open("td", {{"class", has_best_cut(s(), p, a) ? "best" : bad ? "bad" : "none"}});
    to_.text(problem_text(s(), p, a));
    auto const* const change = now_->changes ? now_->changes->find(p, a) : nullptr;
    if (change != nullptr && (change->is_worse() || change->is_better()))
      to_.element("small", {{"class", change->is_worse() ? "worse" : "better"}}, change_text(*change));
    to_.close("td");
  }

  std::span<bench_section const> sections_;
  bench_section const* now_ = nullptr;
  cleave::markup_writer to_;
};

inline std::string write_bench_page(std::span<bench_section const> sections) {
  return bench_page_writer(sections).write();
}

}  // namespace tool
