// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <vector>

#include "cleave/core/fixed_point.hpp"
#include "cleave/partition/slices/transfer_pairs.hpp"

namespace cleave::detail {

/// An order of units that is to be cut into slices, part s from boundary s to boundary s + 1.
template <std::unsigned_integral Index>
struct slicing_task {
  transfer_pairs<Index> pairs;
  std::vector<std::uint32_t> speed_of;            ///< of a part: its row of `before`
  std::vector<std::vector<std::int64_t>> before;  ///< for each speed: the time of the first i units
  std::vector<std::uint32_t> limit_of;            ///< of a part: its row of `fitting`
  std::vector<std::vector<Index>> fitting;  ///< for each memory limit: `first_fitting`; empty without limits
  std::vector<Index> low, high;             ///< of a boundary: where it may be
  bool may_be_empty = false;                ///< whether a slice may
  std::vector<std::uint32_t> link_of{};     ///< of a part: its row of `linked`
  std::vector<transfer_pairs<Index>> linked{};  ///< instead of `pairs`, for each different link

  std::size_t units() const { return pairs.size(); }
  std::size_t parts() const { return speed_of.size(); }
  transfer_pairs<Index> const& pairs_at(std::size_t s) const {
    return linked.empty() ? pairs : linked[link_of[s]];
  }
  /// The first begin of a slice that ends at `j` and fits into the memory of part `s`.
  Index fits_from(std::size_t s, std::size_t j) const {
    return fitting.empty() ? Index{} : fitting[limit_of[s]][j];
  }
};

}  // namespace cleave::detail

namespace cleave {

/// Boundaries, one more than parts, and the largest load between them.
template <std::unsigned_integral Index>
struct slices {
  std::vector<Index> at;
  std::int64_t load = detail::unreachable_load;
};

}  // namespace cleave

namespace cleave::detail {

/// What time, memory and pins alone say about slices within a bound, transfers aside. Each question costs
/// O(parts log units).
template <std::unsigned_integral Index>
class slice_bands {
 public:
  explicit slice_bands(slicing_task<Index> const& task) : task_(task) {}

  struct bands {
    std::vector<Index> low, high;  ///< of a boundary
  };

  /// How far a slice of part `s` that begins at `i` can reach; lowers `next` to the bound from which it
  /// reaches further.
  Index furthest(std::size_t s, Index i, std::int64_t bound, std::int64_t& next) const {
    auto const& before = task_.before[task_.speed_of[s]];
    auto const limit = std::ranges::upper_bound(before.begin() + static_cast<std::ptrdiff_t>(i), before.end(),
                                                before[i] + bound);
    if (limit != before.end()) next = (std::min)(next, *limit - before[i]);
    auto const by_time = static_cast<Index>(limit - before.begin() - 1);
    if (task_.fitting.empty()) return by_time;
    auto const& fits = task_.fitting[task_.limit_of[s]];
    return (std::min)(by_time, static_cast<Index>(std::ranges::upper_bound(fits.begin(), fits.end(), i) -
                                                  fits.begin() - 1));
  }

  /// Where a slice of part `s` that ends at `j` can begin at the earliest; lowers `next` likewise.
  Index nearest(std::size_t s, Index j, std::int64_t bound, std::int64_t& next) const {
    auto const& before = task_.before[task_.speed_of[s]];
    auto const limit = std::ranges::lower_bound(
        before.begin(), before.begin() + static_cast<std::ptrdiff_t>(j), before[j] - bound);
    if (limit != before.begin()) next = (std::min)(next, before[j] - *std::prev(limit));
    return (std::max)(static_cast<Index>(limit - before.begin()), task_.fits_from(s, j));
  }

  /// Where each boundary can be, or nothing if one can be nowhere; lowers `next` to the bound from which that
  /// changes.
  std::optional<bands> within(std::int64_t bound, std::int64_t& next) const {
    auto const parts = task_.parts();
    bands b{task_.low, task_.high};
    for (std::size_t s = 0; s < parts; ++s) {
      b.high[s + 1] = (std::min)(b.high[s + 1], furthest(s, b.high[s], bound, next));
      if (b.high[s + 1] < b.low[s + 1]) return std::nullopt;
    }
    for (std::size_t s = parts; s-- > 0;) {
      b.low[s] = (std::max)(b.low[s], nearest(s, b.low[s + 1], bound, next));
      if (b.high[s] < b.low[s]) return std::nullopt;
    }
    return b;
  }

  /// The least bound that time and memory alone allow; `unreachable_load` if memory or pins allow none.
  std::int64_t least(std::int64_t low) const {
    std::int64_t unused = 0, high = unreachable_load;
    if (!within(high - 1, unused)) return high;
    for (high = (std::min)(high, task_.before[slowest()].back() + 1); low < high;) {
      auto const middle = low + (high - low) / 2;
      within(middle, unused) ? high = middle : low = middle + 1;
    }
    return low;
  }

  /// Slices that are good without transfers, if such a guess meets all limits.
  std::optional<std::vector<Index>> guess(std::int64_t bound) const {
    std::int64_t unused = 0;
    auto const band = within(bound, unused);
    if (!band) return std::nullopt;
    auto at = band->low;
    for (std::size_t s = task_.parts(); s-- > 1;) {
      Index const first = (std::max)(band->low[s], nearest(s, at[s + 1], bound, unused));
      if (first > band->high[s]) return std::nullopt;
      at[s] = static_cast<Index>(first + (band->high[s] - first) / 2);
    }
    for (std::size_t s = 0; s < task_.parts(); ++s)
      if (at[s] > at[s + 1] || (at[s] == at[s + 1] && !task_.may_be_empty) ||
          task_.fits_from(s, at[s + 1]) > at[s])
        return std::nullopt;
    return at;
  }

 private:
  std::size_t slowest() const {
    std::size_t row = 0;
    for (std::size_t i = 1; i < task_.before.size(); ++i)
      if (task_.before[i].back() > task_.before[row].back()) row = i;
    return row;
  }

  slicing_task<Index> const& task_;
};

}  // namespace cleave::detail
