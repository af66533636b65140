// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/fixed_point.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/acyclic/acyclic_options.hpp"
#include "cleave/partition/acyclic/level.hpp"
#include "cleave/partition/slices/slicing.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::inline v0_2::detail {

/// Returns the cut costs of slices of an order, as pairs of positions: a slice pays the price of each value
/// that it touches. The sum over all slices is the cut plus the sum of all prices. O(units + pins).
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

/// Finds the slices with the smallest cut by dynamic programming. Helper of `best_cut_slices`.
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

  /// Returns, for each end of part `s` in [`low_[s + 1]`, `high`], the least total price of the slices up to
  /// it.
  std::vector<std::int64_t> ends_of(std::size_t s, Index high) {
    auto const& begins = least_[s];
    Index const first = low_[s], last = static_cast<Index>(first + begins.size() - 1), low = low_[s + 1];
    std::vector<std::int64_t> ends(high - low + std::size_t{1}, unreachable_load);
    tree_.reset(begins.size());
    std::int64_t next = 0;  // makes a slice start with the price of the slices before it
    for (std::size_t i = begins.size(); i-- > 0;)
      if (begins[i] < unreachable_load / 2) tree_.add_later(i, begins[i] - std::exchange(next, begins[i]));
    tree_.rebuild();
    std::int64_t shared = 0;  // paid by slices from every start
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

  /// Returns the start of the slice of part `s` that ends at `end`.
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
  std::vector<Index> low_;                        // of each boundary: its first position
  std::vector<std::vector<std::int64_t>> least_;  // of each boundary and position: the least price up to it
  least_load tree_;
};

/// Returns the slices of an order with the smallest cut, among those within the time `bound`, the memory
/// limits and the fixed nodes. The result is exact. Their `load` is the sum of the costs of `cut_pairs_of`.
/// Returns nothing if no such slices exist. O(windows log band). A window is the range of positions from the
/// first start to the last end of a part.
/// \pre `task.pairs` is the result of `cut_pairs_of`.
template <std::unsigned_integral Index>
std::optional<slices<Index>> best_cut_slices(slicing_task<Index> const& task, std::int64_t bound) {
  return cut_slicer<Index>(task, bound).run();
}

/// Lists the values that units of several parts may touch. Returns the cost of each value in a cut, per
/// touching part except one. O(V + E).
template <std::unsigned_integral Index>
std::vector<double> list_cut_values(basic_snapshot_arrays<Index> const& g, unit_graph<Index> const& u,
                                    cut_measure counted, csr<Index>& touching) {
  std::vector<double> prices;
  std::vector<Index> readers;
  for (Index v = 0; v < g.values(); ++v) {
    Index const producer = g.producer[v];
    if (producer == none<Index> || is_replicable(g, producer)) continue;
    Index const owner = u.of[producer];
    double const bytes = counted == cut_measure::received_values ? 1
                         : g.bytes.empty()                       ? 0
                                                                 : static_cast<double>(g.bytes[v]);
    if (bytes == 0) continue;
    readers.clear();
    for (Index const user : g.users[v])
      if (Index const unit = u.of[user]; unit != none<Index> && unit != owner) readers.push_back(unit);
    std::ranges::sort(readers);
    auto const close = [&](double price) {
      touching.close();
      prices.push_back(price);
    };
    if (counted == cut_measure::edge_bytes) {
      for (std::size_t i = 0, j = 0; i < readers.size(); i = j) {
        for (; j < readers.size() && readers[j] == readers[i];) ++j;
        touching.add(owner);
        touching.add(readers[i]);
        close(bytes * static_cast<double>(j - i));
      }
      continue;
    }
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    if (readers.empty()) continue;
    touching.add(owner);
    for (Index const unit : readers) touching.add(unit);
    close(bytes);
  }
  return prices;
}

/// Returns the slicing task for an order of a level's units, with the limits and fixed nodes. The caller sets
/// `pairs`. O(units + shared memory items).
template <std::unsigned_integral Index>
slicing_task<Index> slicing_task_of(acyclic_level<Index> const& level, acyclic_limits const& limits,
                                    std::span<Index const> order) {
  auto const parts = limits.parts();
  auto const n = static_cast<Index>(order.size());
  slicing_task<Index> t;
  t.speed_of = limits.speed_of;
  t.may_be_empty = limits.may_be_empty;
  for (auto const& weight : level.weight) {
    auto& before = t.before.emplace_back(1);
    before.reserve(order.size() + 1);
    for (Index const u : order) before.push_back(before.back() + weight[u]);
  }
  std::vector<std::size_t> known;
  for (auto const bytes : limits.memory) {
    auto const at = std::ranges::find(known, bytes);
    t.limit_of.push_back(static_cast<std::uint32_t>(at - known.begin()));
    if (at != known.end()) continue;
    known.push_back(bytes);
    t.fitting.push_back(first_fitting<Index>(level.memory, order, bytes));
  }
  t.low.assign(parts + std::size_t{1}, 0);
  t.high.assign(parts + std::size_t{1}, n);
  for (std::uint32_t s = 0; s <= parts && !limits.may_be_empty; ++s) {
    t.low[s] = static_cast<Index>(std::min<std::size_t>(s, n));
    t.high[s] = static_cast<Index>(n - std::min<std::size_t>(parts - s, n));
  }
  t.high.front() = 0;
  t.low.back() = n;
  auto const& [earliest, latest] = level.window;
  for (Index i = 0; i < n && !earliest.empty(); ++i) {
    t.high[earliest[order[i]]] = (std::min)(t.high[earliest[order[i]]], i);
    auto& low = t.low[latest[order[i]] + std::size_t{1}];
    low = (std::max)(low, static_cast<Index>(i + 1));
  }
  for (std::uint32_t s = 0; s < parts; ++s) t.low[s + 1] = (std::max)(t.low[s + 1], t.low[s]);
  for (std::uint32_t s = parts; s-- > 0;) t.high[s] = (std::min)(t.high[s], t.high[s + 1]);
  return t;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the part of each unit, given slices of an order. `at` holds the first position of each part, and
/// the end.
template <std::unsigned_integral Index>
std::vector<std::uint32_t> parts_of(std::span<Index const> order, std::vector<Index> const& at) {
  std::vector<std::uint32_t> of(order.size());
  for (std::uint32_t s = 0; s + 1 < at.size(); ++s)
    for (Index i = at[s]; i < at[s + 1]; ++i) of[order[i]] = s;
  return of;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the parts of the slices of an order with the smallest bottleneck, if it is less than `below`.
/// `bound` is a lower bound of the bottleneck.
template <std::unsigned_integral Index>
std::optional<std::vector<std::uint32_t>> load_slices(acyclic_level<Index> const& level,
                                                      acyclic_limits const& limits,
                                                      std::span<Index const> order, std::int64_t bound,
                                                      std::int64_t below = unreachable_load) {
  auto task = slicing_task_of(level, limits, order);
  auto const pairs = [&](std::size_t link) {
    return pairs_of<Index>(level.touching, level.touched, order, level.price[link]);
  };
  task.pairs = pairs(0);
  if (level.price.size() > 1) {
    task.link_of = limits.link_of;
    for (std::size_t i = 0; i < level.price.size(); ++i) task.linked.push_back(pairs(i));
  }
  auto const best = best_slices(task, bound, below);
  if (!best) return std::nullopt;
  return parts_of(order, best->at);
}

/// Returns the parts of the slices of an order with the smallest cut, if any slices take at most `most` time
/// each.
template <std::unsigned_integral Index>
std::optional<std::vector<std::uint32_t>> cut_slices(acyclic_level<Index> const& level,
                                                     acyclic_limits const& limits,
                                                     std::span<Index const> order, std::int64_t most) {
  auto task = slicing_task_of(level, limits, order);
  task.pairs = cut_pairs_of<Index>(level.touched, level.price[0], order);
  auto const best = best_cut_slices(task, most);
  if (!best) return std::nullopt;
  return parts_of(order, best->at);
}

}  // namespace cleave::detail
