// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/core/fixed_point.hpp"
#include "cleave/partition/slices/least_load.hpp"
#include "cleave/partition/slices/slice_bands.hpp"
#include "cleave/partition/slices/transfer_pairs.hpp"

namespace cleave::detail {

/// Answers whether an order can be cut so that no part's load exceeds a bound, and where.
///
/// Boundary s lies in a band: no further than s parts can compute within the bound, no nearer than the
/// others need. From left to right it is known exactly which positions of a band can be reached; a position
/// is reached if some slice that begins at one reached by the part before is not too heavy, which
/// `least_load` answers while the slice's end moves right.
template <std::unsigned_integral Index>
class slicer {
 public:
  explicit slicer(slicing_task<Index> const& task) : task_(task), reach_(task) {}

  /// What `slices_within` found: the slices, or else a bound below which there are none either.
  struct answer {
    std::optional<std::vector<Index>> at;
    std::int64_t none_below = unreachable_load;
  };

  /// O(windows log band), where a window is the stretch of the order from the first begin to the last end
  /// that a part can have.
  answer slices_within(std::int64_t bound) {
    answer found;
    auto const band = reach_.within(bound, found.none_below);
    if (!band) return found;
    auto const parts = task_.parts();
    reached_.assign(1, {0});
    for (std::size_t s = 0; s < parts; ++s) {
      reached_.push_back(ends_of(s, bound, band->low[s + 1], band->high[s + 1], found.none_below));
      if (reached_.back().empty()) return found;
    }
    found.at.emplace(parts + 1, static_cast<Index>(task_.units()));
    for (std::size_t s = parts; s-- > 0;) (*found.at)[s] = begin_of(s, (*found.at)[s + 1], bound);
    return found;
  }

  std::int64_t load(std::size_t s, Index begin, Index end) const {
    std::int64_t sum = task_.before[task_.speed_of[s]][end] - task_.before[task_.speed_of[s]][begin];
    auto const& pairs = task_.pairs_at(s);
    for (std::size_t j = begin; j < end; ++j)
      pairs.each_change(j, [&](Index place, std::int64_t cost) { sum += place >= begin ? cost : 0; });
    return sum;
  }

  /// Moves one boundary of the heaviest part to its best place, as long as that helps.
  slices<Index> improved(std::vector<Index> at) const {
    std::vector<std::int64_t> load_of;
    for (std::size_t s = 0; s < task_.parts(); ++s) load_of.push_back(load(s, at[s], at[s + 1]));
    auto const move = [&](std::size_t s) {
      if (s == 0 || s == task_.parts()) return false;
      auto const best = best_between(s, at[s - 1], at[s + 1]);
      if (best.load >= (std::max)(load_of[s - 1], load_of[s])) return false;
      at[s] = best.at.front();
      load_of[s - 1] = load(s - 1, at[s - 1], at[s]);
      load_of[s] = load(s, at[s], at[s + 1]);
      return true;
    };
    for (std::size_t rounds = 8 * task_.parts(); rounds-- > 0;) {
      auto const heaviest = static_cast<std::size_t>(std::ranges::max_element(load_of) - load_of.begin());
      bool const moved = move(heaviest);
      if (!move(heaviest + 1) && !moved) break;
    }
    return {std::move(at), (std::ranges::max)(load_of)};
  }

 private:
  /// The ends in [low, high] that slices of part `s` within the bound have, if they begin where the part
  /// before may end.
  std::vector<Index> ends_of(std::size_t s, std::int64_t bound, Index low, Index high, std::int64_t& next) {
    auto const& begins = reached_[s];
    auto const& before = task_.before[task_.speed_of[s]];
    auto const& pairs = task_.pairs_at(s);
    Index const first = begins.front(), last = begins.back();
    std::vector<Index> ends;
    if (task_.may_be_empty)
      for (Index const i : begins)
        if (i >= low && i <= high) ends.push_back(i);
    high = (std::min)(high, reach_.furthest(s, last, bound, next));
    low = (std::max)(low, static_cast<Index>(first + 1));
    if (low > high) return ends;

    least_.reset(begins.size());
    place_of_.clear();
    for (Index i = first, place = 0; i < last; ++i) {  // of a position: the last begin at or before it
      if (begins[place + std::size_t{1}] == i) ++place;
      place_of_.push_back(place);
    }
    std::int64_t shared = 0;  // paid by slices from every begin
    auto const enter = [&](std::size_t j, auto add) {
      add(static_cast<Index>(j), before[j + 1] - before[j]);
      pairs.each_change(j, add);
    };
    auto const sort_in = [&](auto add) {
      return [&, add](Index place, std::int64_t cost) {
        if (place >= last)
          shared += cost;
        else if (place >= first)
          add(place_of_[place - first], cost);
      };
    };
    std::size_t opened = 0, closed = 0, unsorted = ends.size();
    for (std::size_t j = first; j < low; ++j)
      enter(j, sort_in([&](Index place, std::int64_t cost) { least_.add_later(place, cost); }));
    for (; opened < begins.size() && begins[opened] < low; ++opened) least_.open_later(opened);
    least_.rebuild();
    for (Index j = low;; ++j) {
      for (Index const fits = task_.fits_from(s, j); closed < begins.size() && begins[closed] < fits;
           ++closed) {
        opened = (std::max)(opened, closed + 1);
        least_.close(closed);
      }
      for (; opened < begins.size() && begins[opened] < j; ++opened) least_.open(opened);
      auto const load = shared + least_.least();
      load <= bound ? ends.push_back(j) : void(next = (std::min)(next, load));
      if (j == high) break;
      enter(j, sort_in([&](Index place, std::int64_t cost) { least_.add(place, cost); }));
    }
    if (unsorted != 0) std::ranges::sort(ends);
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    return ends;
  }

  /// Where a slice of part `s` within the bound that ends at `end` begins: of the reached positions the one
  /// of least load.
  Index begin_of(std::size_t s, Index end, std::int64_t bound) const {
    auto const& begins = reached_[s];
    if (task_.may_be_empty && end == task_.units() && std::ranges::binary_search(begins, end)) return end;
    Index const first = begins.front();
    auto const& before = task_.before[task_.speed_of[s]];
    std::vector<std::int64_t> cost(end - first);
    for (std::size_t j = first; j < end; ++j) {
      cost[j - first] += before[j + 1] - before[j];
      task_.pairs_at(s).each_change(j, [&](Index place, std::int64_t c) {
        if (place >= first) cost[place - first] += c;
      });
    }
    Index best = end;
    std::int64_t sum = 0, least = unreachable_load;
    auto begin = std::ranges::lower_bound(begins, end);
    for (Index i = end; i-- > first && begin != begins.begin();) {
      sum += cost[i - first];
      if (*std::prev(begin) != i) continue;
      --begin;
      if (i >= task_.fits_from(s, end) && sum < least) least = sum, best = i;
    }
    return least <= bound ? best : end;  // an empty slice
  }

  /// The best place of boundary `s` between its neighbours.
  slices<Index> best_between(std::size_t s, Index from, Index to) const {
    Index const gap = task_.may_be_empty ? 0 : 1;
    Index const first =
        std::max<Index>({static_cast<Index>(from + gap), task_.low[s], task_.fits_from(s, to)});
    Index const last = std::min<Index>(static_cast<Index>(to - gap), task_.high[s]);
    slices<Index> best;
    if (first > last || to < gap) return best;
    std::vector<std::int64_t> left(to - from + std::size_t{1}), right(to - from + std::size_t{1});
    auto const& time_left = task_.before[task_.speed_of[s - 1]];
    auto const& time_right = task_.before[task_.speed_of[s]];
    for (std::size_t j = from; j < to; ++j) {
      auto& cost = left[j + 1 - from];
      cost = left[j - from] + time_left[j + 1] - time_left[j];
      right[j - from] += time_right[j + 1] - time_right[j];
      task_.pairs_at(s - 1).each_change(j,
                                        [&](Index place, std::int64_t c) { cost += place < from ? 0 : c; });
      task_.pairs_at(s).each_change(j, [&](Index place, std::int64_t c) {
        if (place >= from) right[place - from] += c;
      });
    }
    std::int64_t sum = 0;
    for (Index i = to;; --i) {
      sum += right[i - from];
      if (i <= last && task_.fits_from(s - 1, i) <= from)
        if (auto const load = (std::max)(left[i - from], sum); load < best.load) best = {{i}, load};
      if (i == first) break;
    }
    return best;
  }

  slicing_task<Index> const& task_;
  slice_bands<Index> reach_;
  std::vector<std::vector<Index>> reached_;  // of a boundary: the positions that can be reached
  std::vector<Index> place_of_;
  least_load least_;
};

/// The best slices of an order with a load below `below`, or none if there are none; `low` bounds every load
/// from below.
///
/// Bisection between the bound that is known to be too small and the load that is known to be possible. A
/// bound that is met is replaced by the load really reached, one that is not by the next load at which
/// anything changes; it ends when they meet.
template <std::unsigned_integral Index>
std::optional<slices<Index>> best_slices(slicing_task<Index> const& task, std::int64_t low,
                                         std::int64_t below = unreachable_load) {
  slicer<Index> s(task);
  slice_bands<Index> const without_transfers(task);
  std::optional<slices<Index>> best;
  low = (std::max)(low, without_transfers.least(low));
  if (low >= below) return best;
  if (below == unreachable_load)
    if (auto const at = without_transfers.guess(low)) best = s.improved(*at);
  while (low < (best ? best->load : below)) {
    auto const high = best ? best->load : below;
    auto const bound = best ? low + (high - low) / 2 : high - 1;
    auto const found = s.slices_within(bound);
    if (found.at) {
      best = s.improved(*found.at);
    } else {
      if (!best) return best;
      low = (std::max)(bound + 1, found.none_below);
    }
  }
  return best;
}

}  // namespace cleave::detail
