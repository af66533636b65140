// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "cleave/graph/csr.hpp"
#include "cleave/partition/units/label_runs.hpp"

namespace cleave::detail {

/// Gives rows of an acyclic table other labels, so that the labels can be ordered; `fewest_moved_rows` is its
/// one use. A way to do so is an order of the labels and of each row a rank in it which no need exceeds.
template <std::unsigned_integral Index>
class row_mover {
 public:
  row_mover(csr<Index> const& needs, std::vector<Index> const& label, Index labels,
            std::span<std::size_t const> weight)
      : needs_(needs),
        needed_by_(users_of(needs, needs.rows())),
        label_(label),
        weight_(weight),
        labels_(labels),
        runs_(fewest_label_runs(needs, label, labels)) {}

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
  struct way {
    std::vector<Index> at;    // labels by rank
    std::vector<Index> rank;  // of a row
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
    return std::ranges::find(stays, 0) == stays.end();
  }

  /// Of each label the heaviest run stays; those between two such join either, where that moves least.
  way slices() const {
    auto const runs = runs_.label.size();
    std::vector<std::size_t> weight(runs), kept(labels_, runs);
    for (std::size_t i = 0; i < runs; ++i) {
      for (Index const n : runs_.rows[i]) weight[i] += weight_[n];
      auto& k = kept[runs_.label[i]];
      if (k == runs || weight[i] > weight[k]) k = i;
    }
    std::ranges::sort(kept);
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

  /// The first run that goes with the run `b`, not with `a` before it.
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
    std::ranges::sort(order, {}, [&](Index l) { return std::pair(sum[l] / rows[l], l); });
    return order;
  }

  /// Each row as near to its own rank as those before it allow, or those behind it.
  way pushed(std::vector<Index> const& order, bool forward) const {
    way w{order, std::vector<Index>(label_.size())};
    auto const own = ranks(order);
    auto const& sorted = runs_.rows.item;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      Index const n = forward ? sorted[i] : sorted[sorted.size() - 1 - i];
      w.rank[n] = own[label_[n]];
      for (Index const m : forward ? needs_[n] : needed_by_[n])
        w.rank[n] = forward ? (std::max)(w.rank[n], w.rank[m]) : (std::min)(w.rank[n], w.rank[m]);
    }
    return settled(std::move(w));
  }

  std::vector<Index> ranks(std::vector<Index> const& order) const {
    std::vector<Index> own(labels_);
    for (Index r = 0; r < labels_; ++r) own[order[r]] = r;
    return own;
  }

  /// Takes rows back to their own label until none can go back alone.
  way settled(way w) const {
    auto const own = ranks(w.at);
    std::vector<Index> queue = runs_.rows.item;
    for (std::size_t i = 0; i < queue.size(); ++i) {
      Index const n = queue[i], home = own[label_[n]];
      if (w.rank[n] == home) continue;
      bool const fits = std::ranges::all_of(needs_[n], [&](Index m) { return w.rank[m] <= home; }) &&
                        std::ranges::all_of(needed_by_[n], [&](Index m) { return w.rank[m] >= home; });
      if (!fits) continue;
      w.rank[n] = home;
      for (auto const* table : {&needs_, &needed_by_})
        for (Index const m : (*table)[n])
          if (w.rank[m] != own[label_[m]]) queue.push_back(m);
    }
    return w;
  }

  csr<Index> const& needs_;
  csr<Index> needed_by_;
  std::vector<Index> const& label_;
  std::span<std::size_t const> weight_;
  Index labels_;
  label_runs<Index> runs_;
};

/// New labels for the rows of `needs`, which is acyclic, such that the labels can be ordered and each keeps a
/// row of its own: the best of a few ways, in which no row could have its old label back alone. Each label
/// has a row. O((rows + items) log rows) and the search of `fewest_label_runs`.
template <std::unsigned_integral Index>
std::vector<Index> fewest_moved_rows(csr<Index> const& needs, std::vector<Index> const& label, Index labels,
                                     std::span<std::size_t const> weight) {
  return row_mover<Index>(needs, label, labels, weight).find();
}

}  // namespace cleave::detail
