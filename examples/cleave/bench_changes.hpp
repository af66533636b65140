// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/core/printable.hpp>
#include <cleave/formats/units.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench_row.hpp"
#include "bench_summary.hpp"
#include "terminal.hpp"

namespace tool {

/// The change of an algorithm's result on one problem since a recorded run.
struct bench_change {
  enum class kind : std::uint8_t {
    equal,
    better,
    worse,
    lost,      ///< fewer runs than recorded have an answer within the balance
    gained,    ///< more do
    unsolved,  ///< neither run has one
  };
  std::size_t problem, algorithm;
  kind what;
  double then = 0, now = 0;  ///< cuts, or bottlenecks; 0 without an answer

  bool is_worse() const { return what == kind::worse || what == kind::lost; }
  bool is_better() const { return what == kind::better || what == kind::gained; }
  /// The growth of the cut: 0.02 is 2 %. Infinite from a cut of 0, and where answers were lost.
  double growth() const {
    if (what == kind::lost) return std::numeric_limits<double>::infinity();
    if (what == kind::gained) return -std::numeric_limits<double>::infinity();
    if (then == now) return 0;
    return then > 0 ? now / then - 1 : std::numeric_limits<double>::infinity();
  }
};

/// Describes a change: `+1.2 %`, `was 0`, `no longer feasible`.
inline std::string change_text(bench_change const& c) {
  using enum bench_change::kind;
  if (c.what == lost) return c.now > 0 ? "feasible less often" : "no longer feasible";
  if (c.what == gained) return c.then > 0 ? "feasible more often" : "was not feasible";
  if (c.what == unsolved) return "feasible in neither";
  if (c.what == equal) return "equal";
  if (c.then == 0) return "was 0";
  auto const percent = 100 * c.growth();
  auto const digits = percent < 0.1 && percent > -0.1 ? 3 : 1;
  return (percent > 0 ? "+" : "−") + cleave::fixed_text(percent > 0 ? percent : -percent, digits) + "\u00a0%";
}

/// All changes of a table since a recorded run, and the results that cannot be compared.
struct bench_changes {
  std::vector<bench_change> all;
  std::size_t not_recorded = 0;  ///< results without a recorded run of the same seed
  std::size_t other_graphs = 0;  ///< results whose recorded graph has other numbers of nodes or edges

  bench_change const* find(std::size_t problem, std::size_t algorithm) const {
    auto const at = std::ranges::find_if(
        all, [&](auto const& c) { return c.problem == problem && c.algorithm == algorithm; });
    return at == all.end() ? nullptr : &*at;
  }
  /// The number of results that are worse by more than a share, with those that lost their answer.
  std::size_t worse_by(double share) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(all, [&](auto const& c) { return c.is_worse() && c.growth() > share; }));
  }
  /// The changes that are not equal, the worst first.
  std::vector<bench_change> ranked() const {
    auto changed = all;
    std::erase_if(changed, [](auto const& c) { return !c.is_worse() && !c.is_better(); });
    std::ranges::sort(changed, [](auto const& a, auto const& b) {
      if (a.growth() != b.growth()) return a.growth() > b.growth();
      return a.problem != b.problem ? a.problem < b.problem : a.algorithm < b.algorithm;
    });
    return changed;
  }
};

/// Compares the rows of `s` with recorded ones, on equal seeds; of a run that is recorded twice, the last row
/// counts. Times are not compared, since they depend on the machine.
inline bench_changes changes_since(bench_summary const& s, std::span<bench_row const> now,
                                   std::span<bench_row const> recorded) {
  using runs = std::map<std::uint64_t, bench_row const*>;  // by seed
  std::map<std::pair<std::size_t, std::size_t>, std::pair<runs, runs>> results;
  for (auto const& r : now)
    if (auto const at = s.find(r)) results[*at].first[r.seed] = &r;
  for (auto const& r : recorded)
    if (auto const at = s.find(r)) results[*at].second[r.seed] = &r;
  bench_changes changes;
  for (auto const& [at, both] : results) {
    auto const& [rows_now, rows_then] = both;
    std::vector<bench_row const*> ours, theirs;
    bool other_graph = false;
    for (auto const& [seed, row] : rows_now) {
      auto const found = rows_then.find(seed);
      if (found == rows_then.end()) continue;
      auto const differ = [](std::uint64_t a, std::uint64_t b) { return a != 0 && b != 0 && a != b; };
      other_graph |= differ(row->nodes, found->second->nodes) || differ(row->edges, found->second->edges);
      ours.push_back(row), theirs.push_back(found->second);
    }
    if (ours.empty() || other_graph) {
      ++(other_graph ? changes.other_graphs : changes.not_recorded);
      continue;
    }
    using enum bench_change::kind;
    auto const a = cell_of(ours), b = cell_of(theirs);
    auto const what = a.good == 0 && b.good == 0 ? unsolved
                      : a.good < b.good          ? lost
                      : a.good > b.good          ? gained
                      : a.cut > b.cut            ? worse
                      : a.cut < b.cut            ? better
                                                 : equal;
    changes.all.push_back({at.first, at.second, what, b.cut, a.cut});
  }
  return changes;
}

/// The share above which a summary counts a result as worse.
inline constexpr double notable_growth = 0.005;

/// Sums up the changes of several tables in one or two sentences.
inline std::string changes_sentence(std::span<bench_changes const> tables, double share = notable_growth) {
  std::size_t compared = 0, worse = 0, better = 0, notable = 0, not_recorded = 0, other_graphs = 0;
  for (auto const& t : tables) {
    compared += t.all.size();
    notable += t.worse_by(share);
    not_recorded += t.not_recorded, other_graphs += t.other_graphs;
    for (auto const& c : t.all) worse += c.is_worse(), better += c.is_better();
  }
  auto const outside = [&] {
    std::string text;
    if (not_recorded > 0) text += " Not recorded: " + cleave::count_text(not_recorded) + ".";
    if (other_graphs > 0)
      text += " Recorded on another graph of the same name: " + cleave::count_text(other_graphs) + ".";
    return text;
  };
  if (compared == 0) return "No result was recorded with the same graph and seed." + outside();
  auto text = cleave::count_text(notable) + " of " + plural(compared, "result") +
              (notable == 1 ? " is" : " are") + " worse by more than " +
              cleave::decimal_text(100 * share, 2) + "\u00a0% than recorded";
  if (worse > notable) text += ", " + cleave::count_text(worse - notable) + " by less";
  text += "; " + cleave::count_text(better) + " better, " + cleave::count_text(compared - worse - better) +
          " equal.";
  return text + outside();
}

/// Returns the recorded cut and the present one: `462 → 470`; `–` without an answer.
inline std::string cuts_text(bench_change const& c) {
  using enum bench_change::kind;
  bool const no_then = c.what == unsolved || (c.what == gained && c.then == 0),
             no_now = c.what == unsolved || (c.what == lost && c.now == 0);
  return (no_then ? "–" : cleave::decimal_text(c.then, 2)) + " → " +
         (no_now ? "–" : cleave::decimal_text(c.now, 2));
}

}  // namespace tool
