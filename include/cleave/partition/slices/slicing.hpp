// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/fixed_point.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::inline v0_2::detail {

/// A segment tree with the least load over all slices that start at an open position and share a moving end.
/// A cost at a position is paid by all slices that start at or before it. Its nodes are (sum, least) pairs.
/// Positions are closed until they are opened.
class least_load {
 public:
  /// Resets to `places` closed positions without costs. O(places).
  void reset(std::size_t places) {
    leaves_ = std::bit_ceil(std::max<std::size_t>(places, 1));
    tree_.assign(2 * leaves_, {0, unreachable_load});
  }
  /// Adds a cost, or opens a position, without updating the tree; call `rebuild` afterwards.
  void add_later(std::size_t place, std::int64_t cost) { tree_[leaves_ + place].sum += cost; }
  void open_later(std::size_t place) { tree_[leaves_ + place].least = 0; }

  /// Updates the whole tree. O(places).
  void rebuild() {
    for (std::size_t i = leaves_; i < 2 * leaves_; ++i)
      if (tree_[i].least != unreachable_load) tree_[i].least = tree_[i].sum;
    for (std::size_t i = leaves_; --i > 0;) tree_[i] = joined(tree_[2 * i], tree_[2 * i + 1]);
  }

  /// Adds a cost, opens or closes a position, and updates the tree. O(log places) each.
  void add(std::size_t place, std::int64_t cost) {
    auto& leaf = tree_[leaves_ + place];
    leaf.sum += cost;
    if (leaf.least != unreachable_load) leaf.least += cost;
    update(place);
  }
  void open(std::size_t place) {
    tree_[leaves_ + place].least = tree_[leaves_ + place].sum;
    update(place);
  }
  void close(std::size_t place) {
    tree_[leaves_ + place].least = unreachable_load;
    update(place);
  }

  /// Returns the least load. If no position is open, returns more than half of `unreachable_load`, which no
  /// sum of costs reaches.
  std::int64_t least() const { return tree_[1].least; }

 private:
  struct range {
    std::int64_t sum, least;  // sum of all costs; least sum of the costs from an open position on
  };
  static range joined(range const& left, range const& right) {
    return {left.sum + right.sum, (std::min)(right.least, right.sum + left.least)};
  }
  void update(std::size_t place) {
    for (std::size_t i = (leaves_ + place) / 2; i > 0; i /= 2)
      tree_[i] = joined(tree_[2 * i], tree_[2 * i + 1]);
  }

  std::size_t leaves_ = 1;
  std::vector<range> tree_ = std::vector<range>(2, {0, unreachable_load});
};

/// The transfer costs of slices of an order, as a sum over pairs of positions.
///
/// Let a value of cost c be touched by the units at positions q1 < … < qr. A slice pays c if it holds some of
/// these units, but not all. The units that it holds are consecutive among them. The cost is therefore c
/// times (units inside - neighbouring pairs inside - [q1 and qr inside]). That is c for each position, -c for
/// each neighbouring pair and -c for the pair (q1, qr). Pairs are listed by their later position.
template <std::unsigned_integral Index>
struct transfer_pairs {
  std::vector<std::int64_t> alone;  ///< per position: its transfer cost as a slice of its own
  std::vector<Index> first{0};      ///< start of the pairs of each later position, and an end
  std::vector<Index> earlier;       ///< per pair: its earlier position
  std::vector<std::int64_t> saved;  ///< per pair: saving of a slice that holds both

  std::size_t size() const { return alone.size(); }

  /// Calls `f(position, cost)` for each change in load when the end of a slice moves past position `j`. A
  /// change applies to all slices that start at or before `position`. The first is the own cost of `j`, then
  /// follow the savings of its pairs.
  template <class F>
  void each_change(std::size_t j, F f) const {
    f(static_cast<Index>(j), alone[j]);
    for (std::size_t i = first[j]; i < first[j + 1]; ++i) f(earlier[i], -saved[i]);
  }
};

/// Returns the pairs of an order of units, for parts that pay `price` for each value. `touching` lists the
/// units of each value and `touched` the values of each unit. O(units + touches).
template <std::unsigned_integral Index>
transfer_pairs<Index> pairs_of(csr<Index> const& touching, csr<Index> const& touched,
                               std::span<Index const> order, std::span<std::int64_t const> price) {
  struct progress {
    Index count = 0, first = 0, last = 0;
  };
  transfer_pairs<Index> pairs;
  pairs.alone.resize(order.size());
  std::vector<progress> met(price.size());
  auto const pair = [&](Index earlier, std::int64_t saved) {
    pairs.earlier.push_back(earlier);
    pairs.saved.push_back(saved);
  };
  for (std::size_t j = 0; j < order.size(); ++j) {
    for (Index const v : touched[order[j]]) {
      auto& m = met[v];
      pairs.alone[j] += price[v];
      bool const all = ++m.count == touching[v].size();
      if (m.count == 1)
        m.first = static_cast<Index>(j);
      else if (all && m.count == 2)
        pair(m.first, 2 * price[v]);
      else
        pair(m.last, price[v]);
      if (all && m.count > 2) pair(m.first, price[v]);
      m.last = static_cast<Index>(j);
    }
    pairs.first.push_back(narrow<Index>(pairs.earlier.size()));
  }
  return pairs;
}

template <std::unsigned_integral Index>
transfer_pairs<Index> pairs_of(unit_costs<Index> const& c, std::span<Index const> order) {
  return pairs_of<Index>(c.touching, c.touched, order, c.transfer);
}

/// Returns the pairs of an order of units, for parts that send to their neighbours only. A slice then pays
/// for each value that crosses its begin or its end, so the values that cross a boundary act like one value
/// that the units on both sides of it touch. O(units + touches).
template <std::unsigned_integral Index>
transfer_pairs<Index> relay_pairs_of(csr<Index> const& touching, std::span<Index const> order,
                                     std::span<std::int64_t const> price) {
  std::vector<std::size_t> place(order.size());
  for (std::size_t j = 0; j < order.size(); ++j) place[order[j]] = j;
  std::vector<std::int64_t> crossing(order.size() + 1);  // per boundary: its change, then its sum
  for (std::size_t v = 0; v < price.size(); ++v) {
    auto first = order.size(), last = std::size_t{};
    for (Index const unit : touching[v]) {
      first = (std::min)(first, place[unit]);
      last = (std::max)(last, place[unit]);
    }
    crossing[first + 1] += price[v];
    crossing[last + 1] -= price[v];
  }
  for (std::size_t j = 1; j < crossing.size(); ++j) crossing[j] += crossing[j - 1];
  transfer_pairs<Index> pairs;
  pairs.alone.resize(order.size());
  for (std::size_t j = 0; j < order.size(); ++j) {
    pairs.alone[j] = crossing[j] + crossing[j + 1];
    if (crossing[j] > 0) {
      pairs.earlier.push_back(static_cast<Index>(j - 1));
      pairs.saved.push_back(2 * crossing[j]);
    }
    pairs.first.push_back(narrow<Index>(pairs.earlier.size()));
  }
  return pairs;
}

/// An order of units to be cut into slices. Part s extends from boundary s to boundary s + 1.
template <std::unsigned_integral Index>
struct slicing_task {
  transfer_pairs<Index> pairs;
  std::vector<std::uint32_t> speed_of;            ///< per part: its row of `before`
  std::vector<std::vector<std::int64_t>> before;  ///< per distinct speed: time of the first i units
  std::vector<std::uint32_t> limit_of;            ///< per part: its row of `fitting`
  std::vector<std::vector<Index>> fitting;        ///< per distinct limit: `first_fitting`; empty if unlimited
  std::vector<Index> low, high;                   ///< per boundary: its lowest and highest position
  bool may_be_empty = false;                      ///< true if slices may be empty
  std::vector<std::uint32_t> link_of{};           ///< per part: its row of `linked`
  std::vector<transfer_pairs<Index>> linked{};    ///< per distinct link; replaces `pairs`

  std::size_t units() const { return pairs.size(); }
  std::size_t parts() const { return speed_of.size(); }
  transfer_pairs<Index> const& pairs_at(std::size_t s) const {
    return linked.empty() ? pairs : linked[link_of[s]];
  }
  /// Returns the first start of a slice that ends at `j` and fits into the memory of part `s`.
  Index fits_from(std::size_t s, std::size_t j) const {
    return fitting.empty() ? Index{} : fitting[limit_of[s]][j];
  }
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Boundaries of slices, one more than there are parts, and the largest load.
template <std::unsigned_integral Index>
struct slices {
  std::vector<Index> at;
  std::int64_t load = detail::unreachable_load;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The restrictions that time, memory and fixed nodes alone impose on slices within a bound, ignoring
/// transfers. Each query takes O(parts log units).
template <std::unsigned_integral Index>
class slice_bands {
 public:
  explicit slice_bands(slicing_task<Index> const& task) : task_(task) {}

  struct bands {
    std::vector<Index> low, high;  ///< per boundary
  };

  /// Returns the furthest end of a slice of part `s` that starts at `i`. Lowers `next` to the smallest bound
  /// with which it could reach further.
  Index furthest(std::size_t s, Index i, std::int64_t bound, std::int64_t& next) const {
    auto const& before = task_.before[task_.speed_of[s]];
    auto const limit =
        std::upper_bound(before.begin() + static_cast<std::ptrdiff_t>(i), before.end(), before[i] + bound);
    if (limit != before.end()) next = (std::min)(next, *limit - before[i]);
    auto const by_time = static_cast<Index>(limit - before.begin() - 1);
    if (task_.fitting.empty()) return by_time;
    auto const& fits = task_.fitting[task_.limit_of[s]];
    return (std::min)(by_time,
                      static_cast<Index>(std::upper_bound(fits.begin(), fits.end(), i) - fits.begin() - 1));
  }

  /// Returns the earliest start of a slice of part `s` that ends at `j`. Lowers `next` to the smallest bound
  /// with which the start could be earlier.
  Index nearest(std::size_t s, Index j, std::int64_t bound, std::int64_t& next) const {
    auto const& before = task_.before[task_.speed_of[s]];
    auto const limit =
        std::lower_bound(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(j), before[j] - bound);
    if (limit != before.begin()) next = (std::min)(next, before[j] - *std::prev(limit));
    return (std::max)(static_cast<Index>(limit - before.begin()), task_.fits_from(s, j));
  }

  /// Returns the range of each boundary, or nothing if a range is empty. Lowers `next` to the smallest bound
  /// with which this could change.
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

  /// Returns the least bound that time and memory alone allow, or `unreachable_load` if memory or fixed nodes
  /// allow none.
  std::int64_t least(std::int64_t low) const {
    std::int64_t unused = 0, high = unreachable_load;
    if (!within(high - 1, unused)) return high;
    for (high = (std::min)(high, task_.before[slowest()].back() + 1); low < high;) {
      auto const middle = low + (high - low) / 2;
      within(middle, unused) ? high = middle : low = middle + 1;
    }
    return low;
  }

  /// Returns slices that are balanced if transfers are ignored, if they satisfy all limits.
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

/// Decides if an order can be cut such that no load exceeds a bound, and finds the cut.
///
/// Boundary s lies in a band, given by the work that the first s parts can do within the bound, and the
/// remaining work of the others. From left to right, the exact set of reachable positions of each boundary is
/// computed. A position is reachable if a slice within the bound ends there and starts at a reachable
/// position of the previous boundary. `least_load` answers this while the end of the slice moves right.
template <std::unsigned_integral Index>
class slicer {
 public:
  explicit slicer(slicing_task<Index> const& task) : task_(task), reach_(task) {}

  /// The result of `slices_within`: slices, or a larger bound below which no slices exist.
  struct answer {
    std::optional<std::vector<Index>> at;
    std::int64_t none_below = unreachable_load;
  };

  /// Finds slices within `bound`. O(windows log band). A window is the range of the order from the first
  /// start to the last end that a part can have.
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

  /// Returns the load of a slice as part `s`. O(units and pairs of the slice).
  std::int64_t load(std::size_t s, Index begin, Index end) const {
    std::int64_t sum = task_.before[task_.speed_of[s]][end] - task_.before[task_.speed_of[s]][begin];
    auto const& pairs = task_.pairs_at(s);
    for (std::size_t j = begin; j < end; ++j)
      pairs.each_change(j, [&](Index place, std::int64_t cost) { sum += place >= begin ? cost : 0; });
    return sum;
  }

  /// Moves a boundary of the heaviest part to its best position, repeatedly, as long as that helps.
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
      auto const heaviest =
          static_cast<std::size_t>(std::max_element(load_of.begin(), load_of.end()) - load_of.begin());
      bool const moved = move(heaviest);
      if (!move(heaviest + 1) && !moved) break;
    }
    return {std::move(at), *std::max_element(load_of.begin(), load_of.end())};
  }

 private:
  /// Returns the ends in [low, high] of slices of part `s` within the bound that start at a reachable
  /// position.
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
    for (Index i = first, place = 0; i < last; ++i) {  // per position: the last start at or before it
      if (begins[place + std::size_t{1}] == i) ++place;
      place_of_.push_back(place);
    }
    std::int64_t shared = 0;  // paid by slices from every start
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
    if (unsorted != 0) std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    return ends;
  }

  /// Returns the start of a slice of part `s` within the bound that ends at `end`: the reachable position
  /// with the least load.
  Index begin_of(std::size_t s, Index end, std::int64_t bound) const {
    auto const& begins = reached_[s];
    if (task_.may_be_empty && end == task_.units() && std::binary_search(begins.begin(), begins.end(), end))
      return end;
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
    auto begin = std::lower_bound(begins.begin(), begins.end(), end);
    for (Index i = end; i-- > first && begin != begins.begin();) {
      sum += cost[i - first];
      if (*std::prev(begin) != i) continue;
      --begin;
      if (i >= task_.fits_from(s, end) && sum < least) least = sum, best = i;
    }
    return least <= bound ? best : end;  // empty slice
  }

  /// Returns the best position of boundary `s` between its neighbours.
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
  std::vector<std::vector<Index>> reached_;  // per boundary: the reachable positions
  std::vector<Index> place_of_;
  least_load least_;
};

/// Returns the best slices of an order if their load is below `below`, or nothing. `low` is a lower bound on
/// every load.
///
/// Bisects between a bound known to be too small and a load known to be possible. A feasible bound is
/// replaced by the load actually reached. An infeasible one is replaced by the next load at which the answer
/// can change. The search ends when both meet.
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
