// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <utility>
#include <vector>

#include "cleave/graph/csr.hpp"

namespace cleave::detail {

/// The rows of an acyclic table in an order in which each follows those it needs, seen as runs: neighbours of
/// one label.
template <std::unsigned_integral Index>
struct label_runs {
  csr<Index> rows;           ///< of a run: its rows, in order
  std::vector<Index> label;  ///< of a run: that of its rows
  std::size_t least = 0;     ///< no order has fewer runs than that
};

struct label_run_options {
  std::size_t steps = 20'000'000;  ///< how much a search beyond the greedy order may cost
};

/// Finds few runs; `fewest_label_runs` is its one use. Once a run has begun, it takes every row of its label
/// that is ready: to leave one for later never helps, and what is done at the end of a run says all that
/// matters.
template <std::unsigned_integral Index>
class label_run_finder {
 public:
  label_run_finder(csr<Index> const& needs, std::vector<Index> const& label, Index labels)
      : needs_(needs), label_(label), labels_(labels), needed_by_(users_of(needs, needs.rows())) {
    sort_rows();
    find_tails();
  }

  label_runs<Index> find(label_run_options const& options) {
    auto best = greedy();
    std::size_t proven = least_runs();
    auto const step = std::max<std::size_t>(1, best.size() * labels_ * (label_.size() + needs_.item.size()));
    auto const width = std::min<std::size_t>(options.steps / step, 200);
    if (best.size() > proven && width > 1) {
      bool complete = true;
      auto const found = search(best.size(), width, complete);
      if (!found.empty()) best = found;
      if (complete) proven = best.size();
    }
    return written(best, proven);
  }

 private:
  using label_list = std::vector<Index>;  // of the runs, in order

  /// What is done after some runs.
  struct state {
    std::vector<Index> missing;  // of a row: the needs that are not done; none: it is done itself
    std::vector<char> ready;     // of a label: a row of it is ready
    label_list runs{};
    std::size_t done = 0, least = 0;  // no continuation has fewer runs than that
  };

  void sort_rows() {
    std::vector<Index> missing;
    for (std::size_t n = 0; n < label_.size(); ++n) {
      missing.push_back(static_cast<Index>(needs_[n].size()));
      if (missing[n] == 0) sorted_.push_back(static_cast<Index>(n));
    }
    for (std::size_t i = 0; i < sorted_.size(); ++i)
      for (Index const user : needed_by_[sorted_[i]])
        if (--missing[user] == 0) sorted_.push_back(user);
  }

  /// The most runs on any path that begins at a row.
  void find_tails() {
    tail_.assign(label_.size(), 1);
    for (auto n = sorted_.rbegin(); n != sorted_.rend(); ++n)
      for (Index const user : needed_by_[*n])
        tail_[*n] = (std::max)(tail_[*n], tail_[user] + (label_[user] != label_[*n] ? 1 : 0));
  }

  /// A label has at least as many runs as any path has of it. The sum over the labels, where that is cheap;
  /// else the most runs of a path.
  std::size_t least_runs() const {
    std::size_t path = 0, sum = 0;
    for (auto const t : tail_) path = std::max<std::size_t>(path, t);
    if (labels_ > 50'000'000 / (1 + label_.size() + needs_.item.size())) return path;
    std::vector<Index> runs;
    for (Index label = 0; label < labels_; ++label) {
      Index most = 0;
      runs.assign(label_.size(), 0);
      for (Index const n : sorted_) {  // how many runs of `label` a path to n has
        for (Index const m : needs_[n])
          runs[n] =
              (std::max)(runs[n], runs[m] + (label_[n] == label && label_[m] != label ? Index{1} : Index{0}));
        if (label_[n] == label) runs[n] = (std::max)(runs[n], Index{1});
        most = (std::max)(most, runs[n]);
      }
      sum += most;
    }
    return (std::max)(path, sum);
  }

  /// The label of the row with the longest way to go comes next. O((rows + items) log rows).
  label_list greedy() const {
    std::vector<Index> missing;
    std::vector<label_list> ready(labels_);
    std::vector<Index> longest(labels_);        // tail of a ready row of the label
    std::vector<std::pair<Index, Index>> heap;  // that and the label; old ones are skipped
    auto const arrive = [&](Index n) {
      Index const l = label_[n];
      ready[l].push_back(n);
      if (tail_[n] <= longest[l]) return;
      heap.emplace_back(longest[l] = tail_[n], labels_ - 1 - l);
      std::ranges::push_heap(heap);
    };
    for (std::size_t n = 0; n < label_.size(); ++n)
      if (missing.emplace_back(static_cast<Index>(needs_[n].size())) == 0) arrive(static_cast<Index>(n));
    label_list runs;
    while (!heap.empty()) {
      std::ranges::pop_heap(heap);
      auto const [tail, mirrored] = heap.back();
      heap.pop_back();
      Index const l = labels_ - 1 - mirrored;
      if (longest[l] != tail) continue;
      longest[l] = static_cast<Index>(label_.size());  // nothing that joins the run asks for another
      for (std::size_t i = 0; i < ready[l].size(); ++i)
        for (Index const user : needed_by_[ready[l][i]])
          if (--missing[user] == 0) arrive(user);
      ready[l].clear();
      longest[l] = 0;
      runs.push_back(l);
    }
    return runs;
  }

  /// All that can be done in so many runs, run by run, of which the `width` best go on; `complete` says that
  /// these were all. Labels of fewer than `known` runs, or nothing.
  label_list search(std::size_t known, std::size_t width, bool& complete) const {
    state start{{}, std::vector<char>(labels_)};
    for (std::size_t n = 0; n < label_.size(); ++n)
      if (start.missing.emplace_back(static_cast<Index>(needs_[n].size())) == 0) start.ready[label_[n]] = 1;
    std::vector<state> layer{start}, next;
    for (std::size_t used = 1; used < known && !layer.empty(); ++used) {
      next.clear();
      for (auto const& s : layer)
        for (Index l = 0; l < labels_; ++l) {
          if (!s.ready[l]) continue;
          auto after = run(s, l);
          if (after.done == label_.size()) return after.runs;
          if (used + after.least < known) next.push_back(std::move(after));
        }
      keep_best(next, width, complete);
      layer.swap(next);
    }
    return {};
  }

  state run(state s, Index l) const {
    label_list queue;
    for (std::size_t n = 0; n < label_.size(); ++n)
      if (label_[n] == l && s.missing[n] == 0) queue.push_back(static_cast<Index>(n));
    for (std::size_t i = 0; i < queue.size(); ++i) {
      s.missing[queue[i]] = none<Index>;
      for (Index const user : needed_by_[queue[i]])
        if (--s.missing[user] == 0)
          label_[user] == l ? queue.push_back(user) : void(s.ready[label_[user]] = 1);
    }
    s.ready[l] = 0;
    s.done += queue.size();
    s.runs.push_back(l);
    s.least = 0;
    for (std::size_t n = 0; n < label_.size(); ++n)
      if (s.missing[n] == 0) s.least = std::max<std::size_t>(s.least, tail_[n]);
    return s;
  }

  /// Leaves out what others have done all of, then all but the `width` most promising.
  static void keep_best(std::vector<state>& layer, std::size_t width, bool& complete) {
    std::ranges::sort(layer, [](state const& a, state const& b) {
      if (a.least != b.least) return a.least < b.least;
      return a.done != b.done ? a.done > b.done : a.runs < b.runs;
    });
    auto const covers = [](state const& a, state const& b) {
      for (std::size_t n = 0; n < a.missing.size(); ++n)
        if (b.missing[n] == none<Index> && a.missing[n] != none<Index>) return false;
      return true;
    };
    std::vector<state> kept;
    for (auto& s : layer) {
      if (std::ranges::any_of(kept, [&](state const& k) { return covers(k, s); })) continue;
      if (kept.size() == width) {
        complete = false;
        break;
      }
      kept.push_back(std::move(s));
    }
    layer = std::move(kept);
  }

  label_runs<Index> written(label_list const& runs, std::size_t least) const {
    label_runs<Index> out;
    out.label = runs;
    out.least = least;
    std::vector<Index> missing;
    std::vector<label_list> ready(labels_);
    for (std::size_t n = 0; n < label_.size(); ++n)
      if (missing.emplace_back(static_cast<Index>(needs_[n].size())) == 0)
        ready[label_[n]].push_back(static_cast<Index>(n));
    for (Index const l : runs) {
      for (std::size_t i = 0; i < ready[l].size(); ++i) {
        out.rows.add(ready[l][i]);
        for (Index const user : needed_by_[ready[l][i]])
          if (--missing[user] == 0) ready[label_[user]].push_back(user);
      }
      ready[l].clear();
      out.rows.close();
    }
    return out;
  }

  csr<Index> const& needs_;
  std::vector<Index> const& label_;
  Index labels_;
  csr<Index> needed_by_;
  std::vector<Index> sorted_, tail_;
};

/// An order of the rows of `needs`, which is acyclic, with few runs of equal labels, which are below
/// `labels`. To find the fewest is NP-hard (for chains it is the shortest common supersequence; Maier, J. ACM
/// 25(2), 1978): the result is the fewest where `least` is the number of runs, which small tables reach,
/// and a greedy order's or better where it is not. O((rows + items) log rows) and what `options` allows.
template <std::unsigned_integral Index>
label_runs<Index> fewest_label_runs(csr<Index> const& needs, std::vector<Index> const& label, Index labels,
                                    label_run_options const& options = {}) {
  return label_run_finder<Index>(needs, label, labels).find(options);
}

}  // namespace cleave::detail
