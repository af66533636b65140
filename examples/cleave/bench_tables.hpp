// SPDX-License-Identifier: MIT
#pragma once
#include <cleave/core/printable.hpp>
#include <cleave/formats/units.hpp>
#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench_changes.hpp"
#include "bench_summary.hpp"
#include "terminal.hpp"

namespace tool {

/// Formats a ratio of cuts with three digits: `0.953`, `1.04`, `12.5`.
inline std::string precise_ratio(double r) { return cleave::fixed_text(r, r < 10 ? 3 : 1); }

/// A named group of problems.
struct problem_group {
  std::string name;
  std::function<bool(bench_problem const&)> has;
};

inline problem_group all_problems() {
  return {"all", [](bench_problem const&) { return true; }};
}

inline std::vector<problem_group> groups_by_class(bench_summary const& s) {
  std::vector<problem_group> groups;
  for (auto const kind : s.classes())
    groups.push_back({std::string(kind), [kind](bench_problem const& p) { return class_of(p) == kind; }});
  if (groups.size() > 1) groups.push_back(all_problems());
  return groups;
}

/// Groups by size, the small ones first; empty if all problems are of one size.
inline std::vector<problem_group> groups_by_size(bench_summary const& s) {
  std::vector<problem_group> groups;
  auto const bands = s.bands();
  for (auto const band : bands)
    if (bands.size() > 1)
      groups.push_back(
          {std::string(name_of(band)), [band](bench_problem const& p) { return band_of(p.nodes) == band; }});
  return groups;
}

/// Says which sizes the problems have.
inline std::string sizes_sentence(bench_summary const& s) {
  auto const bands = s.bands();
  if (bands.size() > 1) return std::string(size_bands_sentence);
  switch (*bands.begin()) {
    case size_band::small:
      return "All instances are small: fewer than 20 000 nodes. On larger ones the ratios differ; try cleave "
             "bench rgg2d_18.";
    case size_band::medium:
      return "All instances are of medium size: 20 000 to 500 000 nodes.";
    case size_band::large:
      return "All instances are large: 500 000 nodes or more.";
    case size_band::unknown:
      return "The table does not give the sizes of the instances.";
  }
  return "";
}

inline std::vector<problem_group> groups_by_parts(bench_summary const& s) {
  std::set<std::uint32_t> counts;
  for (auto const& p : s.problems()) counts.insert(p.parts);
  std::vector<problem_group> groups;
  for (auto const k : counts)
    groups.push_back({"k = " + std::to_string(k), [k](bench_problem const& p) { return p.parts == k; }});
  return groups;
}

/// The result of an algorithm on a group of problems: mean ratios and their spread.
struct group_result {
  ratio_mean cut, time;

  bool known() const { return cut.count > 0; }
  /// Returns cut and time: `0.95 / 0.41`.
  std::string means() const { return precise_ratio(cut.mean) + " / " + cleave::fixed_text(time.mean, 2); }
  std::string spread() const {
    return precise_ratio(cut.least) + "–" + precise_ratio(cut.most) + " / " +
           cleave::fixed_text(time.least, 2) + "–" + cleave::fixed_text(time.most, 2);
  }
};

inline group_result result_of(bench_summary const& s, std::size_t algorithm, problem_group const& on) {
  return {s.mean(&bench_summary::cut_ratio, algorithm, on.has),
          s.mean(&bench_summary::time_ratio, algorithm, on.has)};
}

/// Describes runs that do not count: `2 infeasible (18.3 %), 1 timed out`; empty if all count.
inline std::string faults_text(bench_cell const& c) {
  std::string text;
  auto const add = [&](std::size_t count, std::string const& what) {
    if (count == 0) return;
    text += (text.empty() ? "" : ", ") + (c.runs() == 1 ? "" : std::to_string(count) + " ") + what;
  };
  add(c.infeasible, "infeasible (" + cleave::percent_text(c.worst_imbalance) + ")");
  add(c.late, "timed out");
  add(c.crashed, "crashed: " + cleave::printable(c.first_fault, 40));
  add(c.refused, cleave::printable(c.first_fault, 60));
  return text;
}

/// Returns a cell of a problem: cut and seconds for the baseline, ratios for the others, and failures.
inline std::string problem_text(bench_summary const& s, std::size_t problem, std::size_t algorithm) {
  auto const& c = s.at(problem, algorithm);
  if (c.runs() == 0) return "–";
  std::string text;
  if (c.good > 0) {
    auto const ratio = s.cut_ratio(problem, algorithm);
    text = algorithm == s.base_of(problem) || !ratio
               ? (s.problems()[problem].by_bottleneck ? "load " : "cut ") + cleave::decimal_text(c.cut, 2) +
                     ", " + cleave::short_text(c.cpu_s) + " s"
               : precise_ratio(*ratio) + " / " + cleave::fixed_text(*s.time_ratio(problem, algorithm), 2);
  }
  auto const faults = faults_text(c);
  return text + (text.empty() || faults.empty() ? "" : "; ") + faults;
}

inline bool has_best_cut(bench_summary const& s, std::size_t problem, std::size_t algorithm) {
  auto const& c = s.at(problem, algorithm);
  return c.good > 0 && c.cut == s.best_cut(problem);
}

/// Counts the runs of an algorithm that count, and those that do not.
struct run_counts {
  std::size_t good = 0, infeasible = 0, late = 0, crashed = 0, refused = 0, missing = 0, best = 0;
};

inline run_counts counts_of(bench_summary const& s, std::size_t algorithm) {
  run_counts n;
  for (std::size_t p = 0; p < s.problems().size(); ++p) {
    auto const& c = s.at(p, algorithm);
    n.good += c.good;
    n.infeasible += c.infeasible;
    n.late += c.late;
    n.crashed += c.crashed;
    n.refused += c.refused;
    n.missing += c.runs() == 0;
    n.best += has_best_cut(s, p, algorithm);
  }
  return n;
}

/// Says how many runs count: `All 40 runs kept the balance.`, or `3 of 40 runs do not count: 2 broke the
/// balance, 1 timed out.`
inline std::string runs_sentence(bench_summary const& s) {
  run_counts sum;
  for (std::size_t a = 0; a < s.algorithms().size(); ++a) {
    auto const n = counts_of(s, a);
    sum.good += n.good, sum.infeasible += n.infeasible, sum.late += n.late;
    sum.crashed += n.crashed, sum.refused += n.refused;
  }
  auto const bad = sum.infeasible + sum.late + sum.crashed + sum.refused;
  if (bad == 0)
    return (sum.good == 1 ? std::string("The run") : "All " + plural(sum.good, "run")) + " kept the balance.";
  std::string why;
  auto const add = [&](std::size_t count, char const* what) {
    if (count > 0) why += (why.empty() ? "" : ", ") + cleave::count_text(count) + what;
  };
  add(sum.infeasible, " broke the balance");
  add(sum.late, " timed out");
  add(sum.crashed, " crashed");
  add(sum.refused, " ended with an error");
  return cleave::count_text(bad) + " of " + plural(sum.good + bad, "run") + (bad == 1 ? " does" : " do") +
         " not count: " + why + ".";
}

/// Returns the means by size and by class, and the counts of runs, for a terminal.
inline std::string terminal_table(bench_summary const& s) {
  auto const rows_of = [&](std::vector<problem_group> const& groups, bool counts) {
    std::vector<std::vector<std::string>> rows{
        {"cut / time, × " + cleave::printable(s.baseline_name(), 100)}};
    for (auto const& g : groups) rows[0].push_back(g.name);
    if (counts) rows[0].insert(rows[0].end(), {"good", "infeasible", "no answer"});
    for (std::size_t a = 0; a < s.algorithms().size(); ++a) {
      std::vector<std::string> row{cleave::printable(s.algorithms()[a], 40)};
      for (auto const& g : groups) {
        auto const r = result_of(s, a, g);
        row.push_back(r.known() ? r.means() + " (" + std::to_string(r.cut.count) + ")" : "–");
      }
      auto const n = counts_of(s, a);
      if (counts)
        row.insert(row.end(), {std::to_string(n.good), std::to_string(n.infeasible),
                               std::to_string(n.late + n.crashed + n.refused)});
      rows.push_back(row);
    }
    return rows;
  };
  auto sizes = groups_by_size(s);
  sizes.push_back(all_problems());
  auto text = table_text(rows_of(sizes, true)) + "  " + sizes_sentence(s) + " " + runs_sentence(s) + "\n";
  if (s.classes().size() > 1) text += "\n" + table_text(rows_of(groups_by_class(s), false));
  return text;
}

/// Lists the results that are worse than recorded, the worst first, and then the number of those left out.
inline std::string terminal_changes(bench_summary const& s, bench_changes const& changes) {
  constexpr std::size_t most = 20;
  std::vector<std::vector<std::string>> rows{{"worse than recorded", "k", "algorithm", "cut", "change"}};
  std::size_t worse = 0;
  for (auto const& c : changes.ranked()) {
    if (!c.is_worse() || ++worse > most) continue;
    rows.push_back({cleave::printable(s.problems()[c.problem].instance, 40),
                    std::to_string(s.problems()[c.problem].parts),
                    cleave::printable(s.algorithms()[c.algorithm], 40), cuts_text(c), change_text(c)});
  }
  if (worse == 0) return "";
  return table_text(rows) + (worse > most ? "  and " + std::to_string(worse - most) + " more\n" : "");
}

/// Returns a text as Markdown shows it in a cell, without markup of HTML.
inline std::string markdown_cell(std::string const& text) {
  std::string cell;
  for (char const c : cleave::printable(text, 1'000))
    if (c == '|' || c == '<' || c == '&')
      cell += c == '|' ? "\\|" : c == '<' ? "&lt;" : "&amp;";
    else
      cell += c;
  return cell;
}

/// Returns the tables in Markdown, as in docs/performance/partitioning.md; with the changes since a recorded
/// run if they are given.
inline std::string markdown_of(bench_summary const& s, bench_changes const* changes = nullptr) {
  std::string text;
  auto const row = [&](std::vector<std::string> const& cells) {
    text += "|";
    for (auto const& c : cells) text += " " + markdown_cell(c) + " |";
    text += "\n";
  };
  auto const head = [&](std::vector<std::string> const& cells) {
    row(cells);
    text += "|";
    for (std::size_t i = 0; i < cells.size(); ++i) text += "---|";
    text += "\n";
  };
  auto const table = [&](std::vector<problem_group> const& groups) {
    std::vector<std::string> cells{"cut / time, × " + s.baseline_name()};
    for (auto const& g : groups) cells.push_back(g.name);
    head(cells);
    for (std::size_t a = 0; a < s.algorithms().size(); ++a) {
      cells = {s.algorithms()[a]};
      for (auto const& g : groups) {
        auto const r = result_of(s, a, g);
        cells.push_back(r.known() ? r.means() + " (" + std::to_string(r.cut.count) + ")" : "–");
      }
      row(cells);
    }
    text += "\n";
  };
  std::string under;  // of the first table
  if (auto sizes = groups_by_size(s); !sizes.empty()) {
    sizes.push_back(all_problems());
    table(sizes);
    text += sizes_sentence(s) + " " + runs_sentence(s) + "\n\n";
  } else {
    under = sizes_sentence(s) + " " + runs_sentence(s) + "\n\n";
  }
  table(groups_by_class(s));
  text += under;
  table(groups_by_parts(s));
  if (auto const ranked = changes != nullptr ? changes->ranked() : std::vector<bench_change>();
      !ranked.empty()) {
    head({"changed since the recorded run", "k", "algorithm", "cut", "change"});
    for (auto const& c : ranked)
      row({cleave::printable(s.problems()[c.problem].instance), std::to_string(s.problems()[c.problem].parts),
           s.algorithms()[c.algorithm], cuts_text(c),
           c.is_worse() ? "**" + change_text(c) + "**" : change_text(c)});
    text += "\n";
  }
  std::vector<std::string> columns{"instance", "k"};
  columns.insert(columns.end(), s.algorithms().begin(), s.algorithms().end());
  head(columns);
  for (std::size_t p = 0; p < s.problems().size(); ++p) {
    std::vector<std::string> cells{cleave::printable(s.problems()[p].instance),
                                   std::to_string(s.problems()[p].parts)};
    for (std::size_t a = 0; a < s.algorithms().size(); ++a) {
      auto const shown = problem_text(s, p, a);
      cells.push_back(has_best_cut(s, p, a) ? "**" + shown + "**" : shown);
    }
    row(cells);
  }
  return text;
}

}  // namespace tool
