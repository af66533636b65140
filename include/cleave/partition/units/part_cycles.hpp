// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/check_graph_concepts.hpp"
#include "cleave/graph/components.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/model/validity.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::inline v0_2::detail {

/// A topological order of the rows of an acyclic table, split into runs of consecutive rows with equal
/// labels.
template <std::unsigned_integral Index>
struct label_runs {
  csr<Index> rows;           ///< per run: its rows, in order
  std::vector<Index> label;  ///< per run: the label of its rows
  std::size_t least = 0;     ///< lower bound on the number of runs of any order
};

struct label_run_options {
  std::size_t steps = 20'000'000;  ///< limit on the steps of the search that follows the greedy order
};

/// Searches for an order with few runs. Used by `fewest_label_runs`. A run takes every ready row of its
/// label, because delaying a row never helps. The set of finished rows at the end of a run is therefore the
/// whole state.
template <std::unsigned_integral Index>
class label_run_finder {
 public:
  label_run_finder(csr<Index> const& predecessors, std::vector<Index> const& label, Index labels)
      : predecessors_(predecessors),
        label_(label),
        labels_(labels),
        successors_(users_of(predecessors, predecessors.rows())) {
    sort_rows();
    find_tails();
  }

  label_runs<Index> find(label_run_options const& options) {
    auto best = greedy();
    std::size_t proven = least_runs();
    auto const step =
        std::max<std::size_t>(1, best.size() * labels_ * (label_.size() + predecessors_.item.size()));
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
  using label_list = std::vector<Index>;  // labels of the runs, in order

  /// State of the search after some runs.
  struct state {
    std::vector<Index> missing;  // per row: unfinished predecessors; `none` if it is done
    std::vector<char> ready;     // per label: true if one of its rows is ready
    label_list runs{};
    std::size_t done = 0, least = 0;  // least: lower bound on the number of further runs
  };

  void sort_rows() {
    sorted_ = order_of_arcs(static_cast<Index>(label_.size()), [&](Index n) { return successors_[n]; });
  }

  /// Computes for each row the largest number of runs on any path that starts there.
  void find_tails() {
    tail_.assign(label_.size(), 1);
    for (auto n = sorted_.rbegin(); n != sorted_.rend(); ++n)
      for (Index const user : successors_[*n])
        tail_[*n] = (std::max)(tail_[*n], tail_[user] + (label_[user] != label_[*n] ? 1 : 0));
  }

  /// Returns a lower bound on the number of runs. A label needs at least as many runs as it has on any path.
  /// These numbers are summed over all labels if that is cheap. Otherwise returns the most runs of any path.
  std::size_t least_runs() const {
    std::size_t path = 0, sum = 0;
    for (auto const t : tail_) path = std::max<std::size_t>(path, t);
    if (labels_ > 50'000'000 / (1 + label_.size() + predecessors_.item.size())) return path;
    std::vector<Index> runs;
    for (Index label = 0; label < labels_; ++label) {
      Index most = 0;
      runs.assign(label_.size(), 0);
      for (Index const n : sorted_) {  // largest number of runs of `label` on a path to n
        for (Index const m : predecessors_[n])
          runs[n] =
              (std::max)(runs[n], runs[m] + (label_[n] == label && label_[m] != label ? Index{1} : Index{0}));
        if (label_[n] == label) runs[n] = (std::max)(runs[n], Index{1});
        most = (std::max)(most, runs[n]);
      }
      sum += most;
    }
    return (std::max)(path, sum);
  }

  /// Returns the runs of a greedy order, which continues with the label of the ready row with the longest
  /// tail. O((rows + items) log rows).
  label_list greedy() const {
    std::vector<Index> missing;
    std::vector<label_list> ready(labels_);
    std::vector<Index> longest(labels_);        // largest tail of a ready row of the label
    std::vector<std::pair<Index, Index>> heap;  // (tail, mirrored label); stale entries are skipped
    auto const arrive = [&](Index n) {
      Index const l = label_[n];
      ready[l].push_back(n);
      if (tail_[n] <= longest[l]) return;
      heap.emplace_back(longest[l] = tail_[n], labels_ - 1 - l);
      std::push_heap(heap.begin(), heap.end());
    };
    for (std::size_t n = 0; n < label_.size(); ++n)
      if (missing.emplace_back(static_cast<Index>(predecessors_[n].size())) == 0)
        arrive(static_cast<Index>(n));
    label_list runs;
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end());
      auto const [tail, mirrored] = heap.back();
      heap.pop_back();
      Index const l = labels_ - 1 - mirrored;
      if (longest[l] != tail) continue;
      longest[l] = static_cast<Index>(label_.size());  // rows that join the run need no new heap entry
      for (std::size_t i = 0; i < ready[l].size(); ++i)
        for (Index const user : successors_[ready[l][i]])
          if (--missing[user] == 0) arrive(user);
      ready[l].clear();
      longest[l] = 0;
      runs.push_back(l);
    }
    return runs;
  }

  /// Beam search over sequences of runs, which keeps the `width` best states per step. Returns an order with
  /// fewer than `known` runs, or an empty list. Sets `complete` to false if states were dropped.
  label_list search(std::size_t known, std::size_t width, bool& complete) const {
    state start{{}, std::vector<char>(labels_)};
    for (std::size_t n = 0; n < label_.size(); ++n)
      if (start.missing.emplace_back(static_cast<Index>(predecessors_[n].size())) == 0)
        start.ready[label_[n]] = 1;
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
      for (Index const user : successors_[queue[i]])
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

  /// Removes dominated states, whose finished rows another state has finished too. Then keeps the `width`
  /// most promising ones.
  static void keep_best(std::vector<state>& layer, std::size_t width, bool& complete) {
    std::sort(layer.begin(), layer.end(), [](state const& a, state const& b) {
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
      if (missing.emplace_back(static_cast<Index>(predecessors_[n].size())) == 0)
        ready[label_[n]].push_back(static_cast<Index>(n));
    for (Index const l : runs) {
      for (std::size_t i = 0; i < ready[l].size(); ++i) {
        out.rows.add(ready[l][i]);
        for (Index const user : successors_[ready[l][i]])
          if (--missing[user] == 0) ready[label_[user]].push_back(user);
      }
      ready[l].clear();
      out.rows.close();
    }
    return out;
  }

  csr<Index> const& predecessors_;
  std::vector<Index> const& label_;
  Index labels_;
  csr<Index> successors_;
  std::vector<Index> sorted_, tail_;
};

/// Returns an order of the rows of `predecessors`, which must be acyclic, with few runs of equal labels.
/// Labels are below `labels`. Minimising the number of runs is NP-hard; for chains it is the shortest common
/// supersequence (Maier, J. ACM 25(2), 1978). The result is optimal if `least` equals the number of runs,
/// which small tables achieve. Otherwise it is at least as good as a greedy order. O((rows + items) log
/// rows), plus the search that `options` allows.
template <std::unsigned_integral Index>
label_runs<Index> fewest_label_runs(csr<Index> const& predecessors, std::vector<Index> const& label,
                                    Index labels, label_run_options const& options = {}) {
  return label_run_finder<Index>(predecessors, label, labels).find(options);
}

/// Relabels rows of an acyclic table so that the labels can be ordered. Used by `fewest_moved_rows`. A
/// solution is an order of the labels and a rank per row, such that no predecessor has a higher rank.
template <std::unsigned_integral Index>
class row_mover {
 public:
  row_mover(csr<Index> const& predecessors, std::vector<Index> const& label, Index labels,
            std::span<std::size_t const> weight)
      : predecessors_(predecessors),
        successors_(users_of(predecessors, predecessors.rows())),
        label_(label),
        weight_(weight),
        labels_(labels),
        runs_(fewest_label_runs(predecessors, label, labels)) {}

  std::vector<Index> find() {
    auto best = slices();
    auto const by_slice = best.at;
    for (auto const& order : {by_slice, labels_by_mean_place()})
      for (bool const forward : {true, false}) {
        auto other = pushed(order, forward);
        if (each_label_stays(other) && moved(other) < moved(best)) best = std::move(other);
      }
    std::vector<Index> to;
    for (Index const r : best.rank) to.push_back(best.at[r]);
    return to;
  }

 private:
  struct way {                ///< a solution
    std::vector<Index> at;    // labels by rank
    std::vector<Index> rank;  // per row
  };

  std::size_t moved(way const& w) const {
    std::size_t sum = 0;
    for (std::size_t n = 0; n < label_.size(); ++n)
      if (w.at[w.rank[n]] != label_[n]) sum += weight_[n];
    return sum;
  }

  bool each_label_stays(way const& w) const {
    std::vector<char> stays(labels_);
    for (std::size_t n = 0; n < label_.size(); ++n)
      if (w.at[w.rank[n]] == label_[n]) stays[label_[n]] = 1;
    return std::find(stays.begin(), stays.end(), 0) == stays.end();
  }

  /// Returns the solution that keeps the heaviest run of each label. Runs between two kept runs join one of
  /// the two such that the moved weight is minimal.
  way slices() const {
    auto const runs = runs_.label.size();
    std::vector<std::size_t> weight(runs), kept(labels_, runs);
    for (std::size_t i = 0; i < runs; ++i) {
      for (Index const n : runs_.rows[i]) weight[i] += weight_[n];
      auto& k = kept[runs_.label[i]];
      if (k == runs || weight[i] > weight[k]) k = i;
    }
    std::sort(kept.begin(), kept.end());
    way w{{}, std::vector<Index>(label_.size())};
    for (auto const k : kept) w.at.push_back(runs_.label[k]);
    std::size_t begin = 0;
    for (Index r = 0; r < labels_; ++r) {
      auto const end =
          r + std::size_t{1} < labels_ ? border(weight, kept[r], kept[r + std::size_t{1}]) : runs;
      for (; begin < end; ++begin)
        for (Index const n : runs_.rows[begin]) w.rank[n] = r;
    }
    return settled(std::move(w));
  }

  /// Returns the first run that joins run `b`. The runs before it join `a`.
  std::size_t border(std::vector<std::size_t> const& weight, std::size_t a, std::size_t b) const {
    std::size_t stays = 0;
    for (std::size_t i = a + 1; i < b; ++i)
      if (runs_.label[i] == runs_.label[b]) stays += weight[i];
    std::size_t most = stays, border = a + 1;
    for (std::size_t i = a + 1; i < b; ++i) {
      if (runs_.label[i] == runs_.label[b]) stays -= weight[i];
      if (runs_.label[i] == runs_.label[a]) stays += weight[i];
      if (stays > most) most = stays, border = i + 1;
    }
    return border;
  }

  std::vector<Index> labels_by_mean_place() const {
    std::vector<double> sum(labels_), rows(labels_);
    for (std::size_t i = 0; i < runs_.rows.item.size(); ++i) {
      sum[label_[runs_.rows.item[i]]] += static_cast<double>(i);
      rows[label_[runs_.rows.item[i]]] += 1;
    }
    std::vector<Index> order(labels_);
    std::iota(order.begin(), order.end(), Index{});
    std::sort(order.begin(), order.end(), [&](Index a, Index b) {
      return std::pair(sum[a] / rows[a], a) < std::pair(sum[b] / rows[b], b);
    });
    return order;
  }

  /// Returns the solution in which each row has the rank closest to its own that its predecessors allow, or,
  /// if not `forward`, its successors.
  way pushed(std::vector<Index> const& order, bool forward) const {
    way w{order, std::vector<Index>(label_.size())};
    auto const own = ranks(order);
    auto const& sorted = runs_.rows.item;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      Index const n = forward ? sorted[i] : sorted[sorted.size() - 1 - i];
      w.rank[n] = own[label_[n]];
      for (Index const m : forward ? predecessors_[n] : successors_[n])
        w.rank[n] = forward ? (std::max)(w.rank[n], w.rank[m]) : (std::min)(w.rank[n], w.rank[m]);
    }
    return settled(std::move(w));
  }

  std::vector<Index> ranks(std::vector<Index> const& order) const {
    std::vector<Index> own(labels_);
    for (Index r = 0; r < labels_; ++r) own[order[r]] = r;
    return own;
  }

  /// Returns rows to their own label until no single row can return.
  way settled(way w) const {
    auto const own = ranks(w.at);
    std::vector<Index> queue = runs_.rows.item;
    for (std::size_t i = 0; i < queue.size(); ++i) {
      Index const n = queue[i], owner = own[label_[n]];
      if (w.rank[n] == owner) continue;
      bool const fits = std::ranges::all_of(predecessors_[n], [&](Index m) { return w.rank[m] <= owner; }) &&
                        std::ranges::all_of(successors_[n], [&](Index m) { return w.rank[m] >= owner; });
      if (!fits) continue;
      w.rank[n] = owner;
      for (auto const* table : {&predecessors_, &successors_})
        for (Index const m : (*table)[n])
          if (w.rank[m] != own[label_[m]]) queue.push_back(m);
    }
    return w;
  }

  csr<Index> const& predecessors_;
  csr<Index> successors_;
  std::vector<Index> const& label_;
  std::span<std::size_t const> weight_;
  Index labels_;
  label_runs<Index> runs_;
};

/// Returns new labels for the rows of `predecessors`, which must be acyclic, such that the labels can be
/// ordered and each label keeps one of its rows. Each label must have a row. The result is the best of a few
/// heuristics, and no single row could return to its old label. O((rows + items) log rows), plus the search
/// of `fewest_label_runs`.
template <std::unsigned_integral Index>
std::vector<Index> fewest_moved_rows(csr<Index> const& predecessors, std::vector<Index> const& label,
                                     Index labels, std::span<std::size_t const> weight) {
  return row_mover<Index>(predecessors, label, labels, weight).find();
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Policies for parts that depend on each other in a cycle. All other parts stay unchanged.
enum class cycle_policy : std::uint8_t {
  refuse,  ///< throw an error that shows a short cycle
  cut,     ///< cut parts into instances, as few as the search can find
  merge,   ///< merge all parts of a cycle into one
  move,    ///< move nodes between these parts, as few as can be found; each part keeps some nodes
};

/// A node that the policy moved to another part.
struct moved_node {
  std::size_t node;
  part_id from, to;

  bool operator==(moved_node const&) const = default;
};

/// A partition without cycles between parts, and the changes made to obtain it.
struct acyclic_partition {
  partition parts;
  /// Per part: the original parts that it consists of, in ascending order. There is one unless parts were
  /// merged. The first instance of a part that was cut keeps its number. Further instances are numbered after
  /// all original parts, in an order in which they can run.
  detail::csr<std::uint32_t> made_of;
  std::vector<moved_node> moved;  ///< in ascending order of nodes
  std::size_t new_cuts = 0;       ///< instances in addition to one per part
  std::size_t least_cuts = 0;     ///< lower bound on `new_cuts`; equal if proven optimal
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Makes a partition acyclic. Used by `acyclic_parts`. Companions count as predecessors of all readers of
/// their value, because it is not known yet which readers will be in another part.
template <std::unsigned_integral Index>
class part_cycle_breaker {
 public:
  part_cycle_breaker(basic_snapshot_arrays<Index> const& s, partition const& p) : s_(s), units_(units_of(s)) {
    result_.parts = p;
  }

  acyclic_partition merge() && {
    auto const predecessors = part_graph_of(s_, parts()).dependents;
    auto const component = components_of(predecessors);
    std::vector<std::uint32_t> number(parts().parts, index(no_part)), of(parts().parts);
    std::uint32_t count = 0;
    for (std::uint32_t i = 0; i < parts().parts; ++i) {
      auto& n = number[component[i]];
      if (n == index(no_part)) n = count++;
      of[i] = n;
    }
    csr<std::uint32_t> joined;
    for (auto const n : of) joined.add(n), joined.close();
    result_.made_of = users_of(joined, count);
    for (auto& part : parts().of)
      if (part != no_part) part = part_id{of[index(part)]};
    parts().parts = count;
    return std::move(result_);
  }

  acyclic_partition cut() && {
    label_units();
    auto const before = parts().parts;
    std::vector<std::uint32_t> instance_of;
    each_tangle([&](tangle const& t) {
      for (Index const u : t.unit)
        for (Index const n : units_.members[u])
          if (index(parts().of[n]) != label_[u]) refuse_cut(n, units_.members[u].front());
      auto const runs = fewest_label_runs(t.predecessors, t.label, narrow<Index>(t.part.size()));
      result_.least_cuts += runs.least - t.part.size();
      std::vector<char> met(t.part.size());
      for (std::size_t i = 0; i < runs.label.size(); ++i) {
        auto const part = t.part[runs.label[i]];
        if (!std::exchange(met[runs.label[i]], 1)) continue;  // the first instance keeps the number
        auto const added = part_id{before + narrow<std::uint32_t>(instance_of.size())};
        instance_of.push_back(part);
        for (Index const row : runs.rows[i])
          for (Index const n : units_.members[t.unit[row]]) parts().of[n] = added;
      }
    });
    result_.new_cuts = instance_of.size();
    parts().parts = before + narrow<std::uint32_t>(instance_of.size());
    if (auto const cycle = find_cycle_between_parts(s_, parts()))
      refuse_cut(cycle->front().producer, cycle->front().consumer);
    keep_numbers(before);
    for (auto const part : instance_of) result_.made_of.add(part), result_.made_of.close();
    return std::move(result_);
  }

  acyclic_partition move() && {
    label_units();
    auto const before = parts().of;
    for (Index u = 0; u < units_.size(); ++u)
      for (Index const n : units_.members[u]) parts().of[n] = part_id{label_[u]};
    each_tangle([&](tangle const& t) {
      std::vector<std::size_t> nodes;
      for (Index const u : t.unit) nodes.push_back(units_.members[u].size());
      auto const to = fewest_moved_rows(t.predecessors, t.label, narrow<Index>(t.part.size()), nodes);
      for (std::size_t row = 0; row < to.size(); ++row)
        for (Index const n : units_.members[t.unit[row]]) parts().of[n] = part_id{t.part[to[row]]};
    });
    for (std::size_t n = 0; n < before.size(); ++n)
      if (parts().of[n] != before[n]) result_.moved.push_back({n, before[n], parts().of[n]});
    keep_numbers(parts().parts);
    return std::move(result_);
  }

  acyclic_partition keep() && {
    keep_numbers(parts().parts);
    return std::move(result_);
  }

 private:
  /// Parts that depend on each other, as a table with a row per unit and a label per part.
  struct tangle {
    std::vector<std::uint32_t> part;  ///< per label
    std::vector<Index> unit, label;   ///< per row
    csr<Index> predecessors;
  };

  partition& parts() { return result_.parts; }

  /// Determines the part of each unit: the one that has most of its nodes.
  void label_units() {
    std::vector<std::size_t> votes(parts().parts);
    for (Index u = 0; u < units_.size(); ++u) {
      auto most = index(parts().of[units_.members[u].front()]);
      for (Index const n : units_.members[u])
        if (auto const part = index(parts().of[n]); ++votes[part] > votes[most]) most = part;
      for (Index const n : units_.members[u]) votes[index(parts().of[n])] = 0;
      label_.push_back(most);
    }
  }

  [[noreturn]] void refuse_cut(std::size_t a, std::size_t b) const {
    raise(partition_error("parts that depend on each other in a cycle cannot be cut into instances: " +
                              s_.label(a) + " and " + s_.label(b) +
                              " are in different parts, and one of them lies between nodes that must share "
                              "the other part; use cycle_policy::merge or cycle_policy::move",
                          {a, b}));
  }

  /// Calls `f` with each strongly connected component of at least two parts.
  template <class F>
  void each_tangle(F f) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
    for (Index u = 0; u < units_.size(); ++u)
      for (Index const m : units_.predecessors[u])
        if (label_[m] != label_[u]) edges.emplace_back(label_[u], label_[m]);
    auto const component = components_of(rows_of(parts().parts, edges));
    if (component.empty()) return;
    csr<std::uint32_t> parts_in, units_in;
    for (auto const c : component) parts_in.add(c), parts_in.close();
    for (auto const l : label_) units_in.add(component[l]), units_in.close();
    auto const part = users_of(parts_in, component.size()), unit = users_of(units_in, component.size());
    std::vector<Index> row(units_.size(), none<Index>);
    std::vector<std::uint32_t> label(parts().parts);
    for (std::size_t c = 0; c < component.size(); ++c) {
      if (part[c].size() < 2) continue;
      tangle t;
      for (auto const i : part[c]) label[i] = static_cast<std::uint32_t>(t.part.size()), t.part.push_back(i);
      for (auto const u : unit[c]) {
        row[u] = static_cast<Index>(t.unit.size());
        t.unit.push_back(static_cast<Index>(u));
        t.label.push_back(static_cast<Index>(label[label_[u]]));
      }
      for (Index const u : t.unit) {
        for (Index const m : units_.predecessors[u])
          if (component[label_[m]] == c) t.predecessors.add(row[m]);
        t.predecessors.close();
      }
      f(t);
    }
  }

  void keep_numbers(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) result_.made_of.add(i), result_.made_of.close();
  }

  basic_snapshot_arrays<Index> const& s_;
  unit_graph<Index> units_;
  std::vector<std::uint32_t> label_;  // per unit
  acyclic_partition result_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns `p` made acyclic by the policy, or `p` itself if it has no cycle. Cutting into the fewest
/// instances and moving the fewest nodes are NP-hard. The number of cuts is optimal if `least_cuts` equals
/// `new_cuts`. The number of moves is never proven optimal, but no single moved node could return in the
/// order of parts found. Expected O((V + E) log V + parts log parts), plus a bounded search.
///
/// \throws partition_error as check_partition does, but for cycles only under `refuse`. Under `cut` it is
/// also thrown if a part lies between nodes that must share another part.
template <std::unsigned_integral Index>
acyclic_partition acyclic_parts(basic_snapshot_arrays<Index> const& s, partition const& p,
                                cycle_policy policy) {
  policy == cycle_policy::refuse ? check_partition(s, p) : detail::check_assignment(s, p);
  detail::part_cycle_breaker<Index> breaker(s, p);
  if (policy == cycle_policy::refuse || !detail::find_cycle_between_parts(s, p))
    return std::move(breaker).keep();
  return policy == cycle_policy::cut     ? std::move(breaker).cut()
         : policy == cycle_policy::merge ? std::move(breaker).merge()
                                         : std::move(breaker).move();
}

/// Returns `p` made acyclic for a user's graph.
/// \throws the errors of `acyclic_parts` for a snapshot, and of `snapshot_of`
template <std::unsigned_integral Index = std::uint32_t, dataflow_graph Graph>
acyclic_partition acyclic_parts(Graph const& g, partition const& p, cycle_policy policy) {
  return acyclic_parts(snapshot_of<Index>(g), p, policy);
}

template <std::unsigned_integral Index = std::uint32_t, detail::unfinished_graph Graph>
detail::refused acyclic_parts(Graph const&, partition const&, cycle_policy) {
  detail::refuse_graph<Graph>();
}

}  // namespace cleave
