// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/language.hpp"
#include "cleave/core/random.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::inline v0_2::detail {

/// A set of integers below a bound, from which the smallest can be taken. It is a tree of bit sets with 64
/// children per node. O(log bound / 6) per operation.
class rank_set {
 public:
  rank_set() : rank_set(1) {}
  explicit rank_set(std::size_t bound) {
    do levels_.emplace_back(bound = bound / 64 + (bound % 64 != 0 || bound == 0));
    while (bound > 1);
  }

  bool empty() const { return levels_.back()[0] == 0; }
  void insert(std::size_t x) {
    for (auto& level : levels_) {
      level[x / 64] |= std::uint64_t{1} << x % 64;
      x /= 64;
    }
  }
  /// Removes and returns the smallest element. \pre The set is not empty.
  std::size_t take_least() {
    std::size_t least = 0;
    for (std::size_t i = levels_.size(); i-- > 0;)
      least = 64 * least + static_cast<std::size_t>(std::countr_zero(levels_[i][least]));
    auto x = least;
    for (auto& level : levels_) {
      level[x / 64] &= ~(std::uint64_t{1} << x % 64);
      if (level[x / 64] != 0) break;
      x /= 64;
    }
    return least;
  }

 private:
  std::vector<std::vector<std::uint64_t>> levels_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Rules for topological orders: the ready unit that comes next.
enum class unit_order : std::uint8_t {
  given,          ///< the unit with the smallest rank: program order
  breadth_first,  ///< the unit that has been ready longest
  depth_first,    ///< the unit that became ready last
  on_demand,  ///< the next missing predecessor of the first unit that needs one: sources stand just before
              ///< their first user
  on_demand_last,  ///< the same, starting from the last unit and the last operand
  random,          ///< the unit that comes first in a shuffled list
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The range of parts that the fixed units before and after a unit leave to it. Empty: all parts.
struct part_window {
  std::vector<std::uint32_t> earliest, latest;  ///< per unit
};

/// The queue of ready units, in the chosen order. A unit whose earliest part is not open yet is kept aside
/// until all units that must be in earlier parts have been taken.
template <std::unsigned_integral Index>
class ready_units {
 public:
  ready_units(unit_order order, std::span<Index const> rank, part_window const& window, std::uint32_t parts)
      : order_(order), rank_(rank), window_(window) {
    if (order_ == unit_order::given) {
      ranked_ = rank_set(rank.size());
      ready_.resize(rank.size());
      for (std::size_t unit = 0; unit < rank.size(); ++unit) ready_[rank[unit]] = static_cast<Index>(unit);
    }
    if (window_.earliest.empty()) return;
    left_.resize(parts);
    waiting_.resize(parts);
    for (auto const latest : window_.latest) ++left_[latest];
    open_parts();
  }
  void add(Index unit) {
    if (!window_.earliest.empty() && window_.earliest[unit] > open_)
      waiting_[window_.earliest[unit]].push_back(unit);
    else
      push(unit);
  }
  bool empty() const { return order_ == unit_order::given ? ranked_.empty() : head_ == ready_.size(); }
  Index take() {
    Index const unit = pop();
    if (!window_.earliest.empty()) {
      --left_[window_.latest[unit]];
      open_parts();
    }
    return unit;
  }

 private:
  /// Opens each part before which no unit is left that must be in an earlier part.
  void open_parts() {
    auto const admit = [&] {
      for (Index const unit : waiting_[open_]) push(unit);
      waiting_[open_].clear();
    };
    for (; open_ + std::size_t{1} < left_.size() && left_[open_] == 0; admit()) ++open_;
  }
  void push(Index unit) {
    order_ == unit_order::given ? ranked_.insert(rank_[unit]) : ready_.push_back(unit);
  }
  Index pop() {
    if (order_ == unit_order::given) return ready_[ranked_.take_least()];
    if (order_ == unit_order::breadth_first) return ready_[head_++];
    Index const unit = ready_.back();
    ready_.pop_back();
    return unit;
  }

  unit_order order_;
  std::span<Index const> rank_;
  part_window const& window_;
  std::vector<Index> ready_;  // for `given`: all units, by rank
  std::size_t head_ = 0;
  rank_set ranked_;  // ranks of the ready units
  std::uint32_t open_ = 0;
  std::vector<std::size_t> left_;            // per part: remaining units whose latest part it is
  std::vector<std::vector<Index>> waiting_;  // per part: ready units whose earliest part it is
};

/// Returns the units in order of demand: depth-first from the units without successors. O(units + edges).
template <std::unsigned_integral Index>
std::vector<Index> require_order(csr<Index> const& predecessors, csr<Index> const& successors,
                                 unit_order how) {
  auto const turned = [&](std::size_t i, std::size_t size) {
    return how == unit_order::on_demand ? i : size - 1 - i;
  };
  std::vector<Index> order, path;
  std::vector<Index> asked(predecessors.rows());  // per unit: predecessors already visited
  std::vector<char> met(predecessors.rows());
  for (std::size_t i = 0; i < predecessors.rows(); ++i) {
    auto const root = static_cast<Index>(turned(i, predecessors.rows()));
    if (!successors[root].empty()) continue;
    path.push_back(root);
    while (!path.empty()) {
      Index const unit = path.back();
      auto const wanted = predecessors[unit];
      if (asked[unit] == wanted.size()) {
        order.push_back(unit);
        path.pop_back();
      } else if (Index const need = wanted[turned(asked[unit]++, wanted.size())];
                 !std::exchange(met[need], 1)) {
        path.push_back(need);
      }
    }
  }
  return order;
}

/// Returns a random permutation of the ranks of units. O(units).
template <std::unsigned_integral Index>
std::vector<Index> shuffled_ranks(std::size_t units, splitmix& dice) {
  std::vector<Index> rank(units);
  std::iota(rank.begin(), rank.end(), Index{});
  dice.shuffle(rank);
  return rank;
}

/// Returns a topological order of the units (Kahn, CACM 5(11), 1962) that respects `window`. It is shorter
/// than the number of units if there is a cycle. `rank` numbers the units and is used by `given` and `random`
/// only. O(units + edges), with a small factor log(units) for these two.
template <std::unsigned_integral Index>
std::vector<Index> ordered_units(csr<Index> const& predecessors, csr<Index> const& successors, unit_order how,
                                 std::span<Index const> rank, part_window const& window = {},
                                 std::uint32_t parts = 0) {
  std::vector<Index> by_demand;
  if (how == unit_order::random) how = unit_order::given;
  if (how == unit_order::on_demand || how == unit_order::on_demand_last) {
    by_demand = require_order(predecessors, successors, how);
    if (window.earliest.empty() || by_demand.size() < predecessors.rows()) return by_demand;
    std::vector<Index> place(by_demand.size());
    for (std::size_t i = 0; i < place.size(); ++i) place[by_demand[i]] = static_cast<Index>(i);
    by_demand = std::move(place);
    how = unit_order::given;
    rank = by_demand;
  }
  ready_units<Index> ready(how, rank, window, parts);
  std::vector<Index> missing(predecessors.rows()), order;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    auto const unit =
        how == unit_order::depth_first ? missing.size() - 1 - i : i;  // so that the first is on top
    missing[unit] = static_cast<Index>(predecessors[unit].size());
    if (missing[unit] == 0) ready.add(static_cast<Index>(unit));
  }
  while (!ready.empty()) {
    Index const unit = order.emplace_back(ready.take());
    auto const users = successors[unit];
    for (std::size_t i = 0; i < users.size(); ++i) {
      Index const user = users[how == unit_order::depth_first ? users.size() - 1 - i : i];
      if (--missing[user] == 0) ready.add(user);
    }
  }
  return order;
}

/// Returns true if a topological order is the only one: each unit depends on the one before it. O(units +
/// edges).
template <std::unsigned_integral Index>
bool is_only_order(csr<Index> const& predecessors, std::span<Index const> order) {
  for (std::size_t i = 1; i < order.size(); ++i)
    if (auto const need = predecessors[order[i]];
        std::find(need.begin(), need.end(), order[i - 1]) == need.end())
      return false;
  return true;
}

/// The parts that units may be in, given the fixed units.
template <std::unsigned_integral Index>
struct fixed_reach {
  part_window window;
  /// A fixed unit, and a successor of it that is fixed to an earlier part.
  std::optional<std::pair<Index, Index>> conflict;
};

/// Returns the range of parts that the fixed units before and after each unit leave to it. `fixed` is
/// `no_part` for a unit that may be anywhere. `order` is any topological order. Stops at the first conflict.
/// O(units + edges).
template <std::unsigned_integral Index>
fixed_reach<Index> reach_of_fixed(csr<Index> const& predecessors, std::span<Index const> order,
                                  std::span<part_id const> fixed, std::uint32_t parts) {
  fixed_reach<Index> reach;
  auto& [earliest, latest] = reach.window;
  std::vector<Index> cause(predecessors.rows(),
                           none<Index>);  // per unit: the fixed unit that sets its earliest part
  earliest.assign(predecessors.rows(), 0);
  latest.assign(predecessors.rows(), parts - 1);
  for (Index const unit : order) {
    for (Index const need : predecessors[unit])
      if (earliest[need] > earliest[unit]) {
        earliest[unit] = earliest[need];
        cause[unit] = cause[need];
      }
    if (fixed[unit] == no_part) continue;
    if (index(fixed[unit]) < earliest[unit]) {
      reach.conflict.emplace(cause[unit], unit);
      return reach;
    }
    cause[unit] = unit;
    earliest[unit] = latest[unit] = index(fixed[unit]);
  }
  for (std::size_t i = order.size(); i-- > 0;)
    for (Index const need : predecessors[order[i]]) latest[need] = (std::min)(latest[need], latest[order[i]]);
  return reach;
}

}  // namespace cleave::detail
