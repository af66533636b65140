// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench_classes.hpp"
#include "bench_row.hpp"

namespace tool {

/// A problem: an instance and a number of parts.
struct bench_problem {
  std::string instance;
  std::uint32_t parts;
  double eps;
  bool by_bottleneck;  ///< for DAGs: the largest load is compared, not the cut
  bench_metric metric = bench_metric::edge_cut;
  std::uint64_t nodes = 0;  ///< 0 if no row says it; not compared

  bool operator==(bench_problem const& b) const {
    return instance == b.instance && parts == b.parts && eps == b.eps && by_bottleneck == b.by_bottleneck &&
           metric == b.metric;
  }
};

inline std::string_view class_of(bench_problem const& p) {
  return class_of_instance(p.instance, p.metric != bench_metric::edge_cut);
}

/// The result of an algorithm on a problem over all seeds: medians of the runs that kept the balance.
struct bench_cell {
  std::size_t good = 0, infeasible = 0, late = 0, crashed = 0, refused = 0;
  double cut = 0;  ///< or the bottleneck
  double cpu_s = 0, wall_s = 0;
  double worst_imbalance = 0;  ///< of the infeasible runs
  std::string first_fault;     ///< status of the first run without an answer

  std::size_t runs() const { return good + infeasible + late + crashed + refused; }
};

/// Returns whether a part exceeds the allowed weight. Tables round to four decimals.
inline bool is_infeasible(bench_row const& r) {
  if (r.bottleneck) return false;
  return r.imbalance > r.eps + 0.000075 || (r.empty > 0 && r.nodes >= r.parts);
}

inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  std::size_t const half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

inline bench_cell cell_of(std::vector<bench_row const*> const& rows) {
  bench_cell c;
  std::vector<double> cuts, cpu, wall;
  for (auto const* r : rows) {
    if (r->cut && is_infeasible(*r)) {
      ++c.infeasible;
      c.worst_imbalance = std::max(c.worst_imbalance, r->imbalance);
    } else if (r->cut) {
      ++c.good;
      cuts.push_back(r->bottleneck.value_or(*r->cut));
      cpu.push_back(r->cpu_s);
      wall.push_back(r->wall_s);
    } else {
      if (c.first_fault.empty()) c.first_fault = r->status;
      ++(r->status.starts_with("no answer")                                              ? c.late
         : r->status.starts_with("SIG") || r->status.find("no result") != r->status.npos ? c.crashed
                                                                                         : c.refused);
    }
  }
  if (c.good > 0) {
    c.cut = median(cuts);
    c.cpu_s = median(cpu);
    c.wall_s = median(wall);
  }
  return c;
}

/// Geometric mean of ratios, their geometric standard deviation (a factor of at least 1), and the smallest
/// and largest ratio.
struct ratio_mean {
  double mean = 0, deviation = 1, least = 0, most = 0;
  std::size_t count = 0;
};

inline ratio_mean mean_of(std::vector<double> const& ratios) {
  if (ratios.empty()) return {};
  auto const count = static_cast<double>(ratios.size());
  double logs = 0, squares = 0;
  for (double const r : ratios) logs += std::log(r);
  for (double const r : ratios) squares += std::pow(std::log(r) - logs / count, 2);
  auto const [least, most] = std::ranges::minmax(ratios);
  return {std::exp(logs / count), std::exp(std::sqrt(squares / count)), least, most, ratios.size()};
}

/// Rows grouped by problem and algorithm, in input order. An algorithm with several threads counts as a
/// separate algorithm.
class bench_summary {
 public:
  explicit bench_summary(std::span<bench_row const> rows) {
    for (auto const& r : rows)
      if (r.bottleneck) levelling_.insert(r.algorithm);
    std::map<std::pair<std::size_t, std::size_t>, std::vector<bench_row const*>> groups;
    for (auto const& r : rows) {
      auto const p = place_in(problems_, problem_of(r));
      problems_[p].nodes = std::max(problems_[p].nodes, r.nodes);
      auto const a = place_in(algorithms_, name_of_algorithm(r));
      if (a == threads_.size()) threads_.push_back(r.threads);
      groups[{p, a}].push_back(&r);
    }
    cells_.resize(problems_.size() * algorithms_.size());
    for (auto const& [at, group] : groups) cells_[at.first * algorithms_.size() + at.second] = cell_of(group);
  }

  std::vector<bench_problem> const& problems() const { return problems_; }
  std::vector<std::string> const& algorithms() const { return algorithms_; }
  bench_cell const& at(std::size_t problem, std::size_t algorithm) const {
    return cells_[problem * algorithms_.size() + algorithm];
  }
  std::optional<std::size_t> find_algorithm(std::string_view name) const {
    auto const found = std::ranges::find(algorithms_, name);
    if (found == algorithms_.end()) return {};
    return static_cast<std::size_t>(found - algorithms_.begin());
  }
  /// Returns the problem and the algorithm of a row of any table, or nothing if they are not in this one.
  std::optional<std::pair<std::size_t, std::size_t>> find(bench_row const& r) const {
    auto const p = std::ranges::find(problems_, problem_of(r));
    auto const a = find_algorithm(name_of_algorithm(r));
    if (p == problems_.end() || !a) return {};
    return std::pair(static_cast<std::size_t>(p - problems_.begin()), *a);
  }
  std::vector<std::string_view> classes() const {
    std::vector<std::string_view> found;
    for (auto const& p : problems_) place_in(found, class_of(p));
    return found;
  }
  /// The size bands of the problems, in ascending order.
  std::set<size_band> bands() const {
    std::set<size_band> found;
    for (auto const& p : problems_) found.insert(band_of(p.nodes));
    return found;
  }

  /// Sets the baselines. On each problem, the first of them that was run is the baseline.
  void compare_with(std::vector<std::size_t> algorithms) { baselines_ = std::move(algorithms); }
  std::size_t base_of(std::size_t problem) const {
    for (auto const a : baselines_)
      if (at(problem, a).runs() > 0) return a;
    return baselines_.front();
  }
  bool is_baseline(std::size_t algorithm) const {
    return std::ranges::find(baselines_, algorithm) != baselines_.end();
  }
  /// Returns `metis`, or `metis, else cleave-slices`.
  std::string baseline_name() const {
    std::string text;
    for (auto const a : baselines_) text += (text.empty() ? "" : ", else ") + algorithms_[a];
    return text;
  }

  /// Cut of `algorithm` divided by that of the baseline, if both kept the balance; empty if only one cut is
  /// 0.
  std::optional<double> cut_ratio(std::size_t problem, std::size_t algorithm) const {
    auto const &a = at(problem, algorithm), &b = at(problem, base_of(problem));
    if (a.good == 0 || b.good == 0) return {};
    if (a.cut == 0 && b.cut == 0) return 1.0;
    if (a.cut == 0 || b.cut == 0) return {};
    return a.cut / b.cut;
  }
  /// The same for CPU seconds, or for wall seconds if the algorithm had several threads. Times below the
  /// clock's resolution count as that resolution.
  std::optional<double> time_ratio(std::size_t problem, std::size_t algorithm) const {
    auto const &a = at(problem, algorithm), &b = at(problem, base_of(problem));
    if (a.good == 0 || b.good == 0) return {};
    if (threads_[algorithm] > 1) return std::max(a.wall_s, clock_step) / std::max(b.wall_s, clock_step);
    return std::max(a.cpu_s, clock_step) / std::max(b.cpu_s, clock_step);
  }

  template <class Ratio, class Wanted>
  ratio_mean mean(Ratio ratio, std::size_t algorithm, Wanted wanted) const {
    std::vector<double> all;
    for (std::size_t p = 0; p < problems_.size(); ++p)
      if (wanted(problems_[p]))
        if (auto const r = (this->*ratio)(p, algorithm)) all.push_back(*r);
    return mean_of(all);
  }

  /// The smallest cut of all algorithms that kept the balance.
  std::optional<double> best_cut(std::size_t problem) const {
    std::optional<double> best;
    for (std::size_t a = 0; a < algorithms_.size(); ++a)
      if (at(problem, a).good > 0 && (!best || at(problem, a).cut < *best)) best = at(problem, a).cut;
    return best;
  }
  /// The ratio of cut to best cut on each problem, in ascending order: a performance profile (Dolan, Moré,
  /// 2002). Leaves out problems without a good answer, and those where only the best cut is 0.
  std::vector<double> profile(std::size_t algorithm) const {
    std::vector<double> ratios;
    for (std::size_t p = 0; p < problems_.size(); ++p) {
      auto const& c = at(p, algorithm);
      if (c.good == 0) continue;
      double const best = *best_cut(p);
      if (best > 0 || c.cut == 0) ratios.push_back(best > 0 ? c.cut / best : 1);
    }
    std::ranges::sort(ratios);
    return ratios;
  }
  /// Returns the ratios of an algorithm's times to the least time of any that kept the balance, ascending.
  std::vector<double> time_profile(std::size_t algorithm) const {
    std::vector<double> ratios;
    for (std::size_t p = 0; p < problems_.size(); ++p) {
      if (at(p, algorithm).good == 0) continue;
      double least = seconds(p, algorithm);
      for (std::size_t a = 0; a < algorithms_.size(); ++a)
        if (at(p, a).good > 0) least = std::min(least, seconds(p, a));
      ratios.push_back(seconds(p, algorithm) / least);
    }
    std::ranges::sort(ratios);
    return ratios;
  }

 private:
  static std::string name_of_algorithm(bench_row const& r) {
    return r.algorithm + (r.threads > 1 ? " (" + std::to_string(r.threads) + " threads)" : std::string());
  }
  bench_problem problem_of(bench_row const& r) const {
    return {r.instance, r.parts, r.eps, levelling_.contains(r.algorithm), r.metric};
  }
  /// Wall seconds if the algorithm had several threads, else CPU seconds. Times below the clock's resolution
  /// count as that resolution.
  double seconds(std::size_t problem, std::size_t algorithm) const {
    auto const& c = at(problem, algorithm);
    return std::max(threads_[algorithm] > 1 ? c.wall_s : c.cpu_s, clock_step);
  }
  static constexpr double clock_step = 1e-4;

  template <class List, class Item>
  static std::size_t place_in(List& list, Item item) {
    auto const found = std::ranges::find(list, item);
    auto const at = static_cast<std::size_t>(found - list.begin());
    if (found == list.end()) list.push_back(std::move(item));
    return at;
  }

  std::set<std::string, std::less<>> levelling_;  ///< algorithms that minimise the bottleneck
  std::vector<bench_problem> problems_;
  std::vector<std::string> algorithms_;
  std::vector<std::uint32_t> threads_;
  std::vector<std::size_t> baselines_{0};
  std::vector<bench_cell> cells_;
};

}  // namespace tool
