// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/fixed_point.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/partition/slices/least_load.hpp"
#include "cleave/partition/slices/slice_bands.hpp"
#include "cleave/partition/slices/transfer_pairs.hpp"

namespace cleave::detail {

/// What slices of an order add to the cut, as pairs of positions: the price of each value that a slice
/// touches. All slices together pay that much more than the cut as all values cost once. O(units + touches).
template <std::unsigned_integral Index>
transfer_pairs<Index> cut_pairs_of(csr<Index> const& touched, std::span<std::int64_t const> price,
                                   std::span<Index const> order) {
  transfer_pairs<Index> pairs;
  pairs.alone.resize(order.size());
  std::vector<Index> last(price.size(), none<Index>);
  for (std::size_t j = 0; j < order.size(); ++j) {
    for (Index const v : touched[order[j]]) {
      pairs.alone[j] += price[v];
      if (auto const before = std::exchange(last[v], static_cast<Index>(j)); before != none<Index>) {
        pairs.earlier.push_back(before);
        pairs.saved.push_back(price[v]);
      }
    }
    pairs.first.push_back(narrow<Index>(pairs.earlier.size()));
  }
  return pairs;
}

/// Finds the slices of least cut; `best_cut_slices` is its one use.
template <std::unsigned_integral Index>
class cut_slicer {
 public:
  cut_slicer(slicing_task<Index> const& task, std::int64_t bound)
      : task_(task), bands_(task), bound_(bound) {}

  std::optional<slices<Index>> run() {
    std::int64_t unused = 0;
    auto const band = bands_.within(bound_, unused);
    if (!band) return std::nullopt;
    auto const parts = task_.parts();
    low_ = band->low;
    least_.assign(1, std::vector<std::int64_t>(1, 0));
    low_[0] = 0;
    for (std::size_t s = 0; s < parts; ++s) least_.push_back(ends_of(s, band->high[s + 1]));
    slices<Index> found{std::vector<Index>(parts + 1, static_cast<Index>(task_.units())), 0};
    found.load = least_[parts].back();
    if (found.load >= unreachable_load / 2) return std::nullopt;
    for (std::size_t s = parts; s-- > 0;) found.at[s] = begin_of(s, found.at[s + 1]);
    return found;
  }

 private:
  std::int64_t time(std::size_t s, std::size_t i, std::size_t j) const {
    auto const& before = task_.before[task_.speed_of[s]];
    return before[j] - before[i];
  }
  bool fits(std::size_t s, Index i, Index j) const {
    return (i < j || (i == j && task_.may_be_empty)) && time(s, i, j) <= bound_ && task_.fits_from(s, j) <= i;
  }

  /// For each end of part `s` from `low_[s + 1]` to `high` the least price of all slices up to it.
  std::vector<std::int64_t> ends_of(std::size_t s, Index high) {
    auto const& begins = least_[s];
    Index const first = low_[s], last = static_cast<Index>(first + begins.size() - 1), low = low_[s + 1];
    std::vector<std::int64_t> ends(high - low + std::size_t{1}, unreachable_load);
    tree_.reset(begins.size());
    std::int64_t next = 0;  // so that a slice from a place pays what the slices before it paid
    for (std::size_t i = begins.size(); i-- > 0;)
      if (begins[i] < unreachable_load / 2) tree_.add_later(i, begins[i] - std::exchange(next, begins[i]));
    tree_.rebuild();
    std::int64_t shared = 0;  // paid by slices from every begin
    std::size_t opened = 0, closed = 0;
    for (std::size_t j = first;; ++j) {
      if (j >= low) {
        while (closed < begins.size() && first + closed < j &&
               !fits(s, static_cast<Index>(first + closed), static_cast<Index>(j))) {
          opened = (std::max)(opened, closed + 1);
          tree_.close(closed++);
        }
        for (; opened < begins.size() && (first + opened < j || (task_.may_be_empty && first + opened == j));
             ++opened)
          if (begins[opened] < unreachable_load / 2) tree_.open(opened);
        if (auto const sum = tree_.least(); sum < unreachable_load / 2) ends[j - low] = shared + sum;
      }
      if (j == high) break;
      task_.pairs.each_change(j, [&](Index place, std::int64_t cost) {
        if (place >= last)
          shared += cost;
        else if (place >= first)
          tree_.add(place - first, cost);
      });
    }
    return ends;
  }

  /// Where the slice of part `s` begins that ends at `end`.
  Index begin_of(std::size_t s, Index end) const {
    auto const& begins = least_[s];
    Index const first = low_[s];
    std::vector<std::int64_t> cost(end - first + std::size_t{1});
    for (std::size_t j = first; j < end; ++j)
      task_.pairs.each_change(j, [&](Index place, std::int64_t c) {
        if (place >= first) cost[place - first] += c;
      });
    std::int64_t sum = 0, least = unreachable_load;
    Index best = end;
    for (Index i = end;; --i) {
      sum += cost[i - first];
      if (i - first < begins.size() && begins[i - first] + sum < least && fits(s, i, end)) {
        least = begins[i - first] + sum;
        best = i;
      }
      if (i == first) break;
    }
    return best;
  }

  slicing_task<Index> const& task_;
  slice_bands<Index> bands_;
  std::int64_t bound_;
  std::vector<Index> low_;                        // of a boundary: its first place
  std::vector<std::vector<std::int64_t>> least_;  // of a boundary and a place: the least price up to it
  least_load tree_;
};

/// Of all slices of an order that take no more time than `bound`, fit into memory and obey pins, those that
/// cut least, exactly; their `load` is the sum of `cut_pairs_of`, which `task.pairs` must be. Nothing if
/// there are none. O(windows log band), where a window is the stretch from the first begin to the last end
/// that a part can have.
template <std::unsigned_integral Index>
std::optional<slices<Index>> best_cut_slices(slicing_task<Index> const& task, std::int64_t bound) {
  return cut_slicer<Index>(task, bound).run();
}

}  // namespace cleave::detail
