// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "cleave/core/fixed_point.hpp"
#include "cleave/core/language.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/flow/pushed_flow.hpp"
#include "cleave/partition/units/mirrored_backward_order.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::inline v0_2 {

/// A chain of units, each a direct or indirect predecessor of the next. Each boundary between parts lies at a
/// *place* of the chain. At place i, the first i units of the chain are before the boundary and the others
/// behind it. Place -1 is before all units, and place size + 1 is behind all units.
struct dominator_chain {
  std::vector<std::int32_t> in_from;    ///< of each unit: it is before every boundary at this place or later
  std::vector<std::int32_t> out_below;  ///< of each unit: it is behind every boundary at a place below this
  std::int32_t size = 0;

  /// Returns true if every part between boundaries at the two places contains `unit`. `lacks` returns true if
  /// none does.
  bool has(std::size_t unit, std::int32_t from, std::int32_t to) const {
    return out_below[unit] > from && in_from[unit] <= to;
  }
  bool lacks(std::size_t unit, std::int32_t from, std::int32_t to) const {
    return in_from[unit] <= from || out_below[unit] > to;
  }
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Chooses about `places` units of the longest path, spread evenly over the total time in the order.
/// O(units + edges).
template <std::unsigned_integral Index>
dominator_chain dominator_chain_of(unit_edges<Index> const& e, std::vector<std::int64_t> const& weight,
                                   std::span<Index const> order, std::size_t places) {
  std::vector<std::int64_t> longest(order.size()), before(order.size());
  std::int64_t all = 0;
  for (Index const u : order) {
    for (Index const need : e.predecessors[u]) longest[u] = (std::max)(longest[u], longest[need]);
    longest[u] += weight[u] + 1;
    before[u] = all += weight[u];
  }
  std::vector<Index> path;
  if (!order.empty())
    path.push_back(*std::ranges::max_element(order, {}, [&](Index u) { return longest[u]; }));
  while (!path.empty() && !e.predecessors[path.back()].empty())
    path.push_back(
        *std::ranges::max_element(e.predecessors[path.back()], {}, [&](Index u) { return longest[u]; }));
  std::ranges::reverse(path);

  dominator_chain b{std::vector<std::int32_t>(order.size()), std::vector<std::int32_t>(order.size())};
  auto const step = all / static_cast<std::int64_t>(places + 1);
  std::int64_t next = 0;
  for (Index const u : path) {
    if (path.size() > places && before[u] < next) continue;
    b.out_below[u] = ++b.size;
    next = before[u] + step;
  }
  for (std::size_t u = 0; u < order.size(); ++u)
    b.in_from[u] = b.out_below[u] > 0 ? b.out_below[u] : b.size + 1;
  for (Index const u : order)
    for (Index const need : e.predecessors[u]) b.out_below[u] = (std::max)(b.out_below[u], b.out_below[need]);
  for (std::size_t i = order.size(); i-- > 0;)
    for (Index const need : e.predecessors[order[i]])
      b.in_from[need] = (std::min)(b.in_from[need], b.in_from[order[i]]);
  return b;
}

/// Computes lower bounds on the cost of a part between boundaries at two places of a chain.
template <std::unsigned_integral Index>
class dominator_chain_cuts {
 public:
  dominator_chain_cuts(unit_costs<Index> const& c, std::vector<std::int64_t> const& weight,
                       dominator_chain const& b)
      : c_(c),
        weight_(weight),
        b_(b),
        met_unit_(c.units()),
        met_value_(c.transfer.size()),
        place_(c.units()) {}

  struct cost {
    std::int64_t load;       ///< of the part
    std::int64_t transfers;  ///< cost of transfers if all other units were free
    std::size_t steps;       ///< steps taken
  };

  /// Returns the bounds for one part by minimum cuts. `core` lists the units that the part certainly
  /// contains. At most 800 units around the core are considered, which weakens the bound but keeps it
  /// valid.
  cost between(std::int32_t from, std::int32_t to, std::span<Index const> core) {
    from_ = from, to_ = to;
    steps_ = core.size();
    ++round_;
    values_.clear();
    units_.clear();
    std::int64_t time = 0, forced = 0;
    for (Index const u : core) {
      time += weight_[u];
      for (Index const v : c_.touched[u]) forced += see(v);
    }
    for (std::size_t i = 0; i < units_.size(); ++i)
      for (Index const v : c_.touched[units_[i]]) see(v);
    if (units_.empty()) return {time + forced, forced, steps_};
    return {time + forced + cut(true), forced + cut(false), steps_};
  }

 private:
  static constexpr std::size_t most_units = 800, most_touches = 8000;

  /// Visits a value once, with the nearby units that the part may contain. Returns the value's cost if the
  /// part must pay it.
  std::int64_t see(Index v) {
    if (met_value_[v] == round_) return 0;
    met_value_[v] = round_;
    bool inside = false, outside = false;
    for (Index const u : c_.touching[v]) {
      ++steps_;
      if (b_.has(u, from_, to_)) inside = true;
      if (b_.lacks(u, from_, to_)) outside = true;
      if (inside && outside) return c_.transfer[v];
    }
    std::size_t const touches = values_.empty() ? 0 : values_.back().touches;
    if (touches > most_touches) return 0;
    bool open = false;
    for (Index const u : c_.touching[v]) {
      if (b_.has(u, from_, to_) || b_.lacks(u, from_, to_)) continue;
      if (met_unit_[u] != round_) {
        if (units_.size() >= most_units) continue;
        met_unit_[u] = round_;
        place_[u] = static_cast<std::uint32_t>(units_.size());
        units_.push_back(u);
      }
      open = true;
    }
    if (open) values_.push_back({v, inside, outside, touches + c_.touching[v].size()});
    return 0;
  }

  std::int64_t cut(bool with_time) {
    auto const units = static_cast<std::uint32_t>(units_.size());
    auto const source = units, sink = units + 1;
    pushed_flow flow(units + 2 + 2 * values_.size());
    for (std::uint32_t i = 0; i < units && with_time; ++i)
      if (weight_[units_[i]] > 0) flow.arc(i, sink, weight_[units_[i]]);
    for (std::uint32_t i = 0; i < values_.size(); ++i) {
      auto const& value = values_[i];
      // A part with a unit of the value pays if another part has one too. Units of this part lead to `in`,
      // and `out` leads to units of other parts.
      auto const in = value.inside ? source : units + 2 + 2 * i,
                 out = value.outside ? sink : units + 3 + 2 * i;
      flow.arc(in, out, c_.transfer[value.of]);
      for (Index const u : c_.touching[value.of])
        if (met_unit_[u] == round_) {
          if (!value.inside) flow.arc(place_[u], in, unreachable_load);
          if (!value.outside) flow.arc(out, place_[u], unreachable_load);
        }
    }
    auto const crossing = flow.most(source, sink, 4'000'000);
    steps_ += flow.steps();
    return crossing;
  }

  struct open_value {
    Index of;
    bool inside, outside;  // true if the part, or another part, certainly has a unit that touches it
    std::size_t touches;   // touches of all values noted so far
  };

  unit_costs<Index> const& c_;
  std::vector<std::int64_t> const& weight_;
  dominator_chain const& b_;
  std::int32_t from_ = 0, to_ = 0;
  std::uint32_t round_ = 0;
  std::vector<std::uint32_t> met_unit_, met_value_, place_;
  std::vector<open_value> values_;
  std::vector<Index> units_;
  std::size_t steps_ = 0;
};

/// Effort of a dominator chain bound.
struct dominator_chain_options {
  std::size_t places = 128;              ///< of the chain; at most the square of this many flows are computed
  std::size_t most_steps = 200'000'000;  ///< approximate; takes up to a second
};

/// A lower bound, and the effort that it took.
struct dominator_chain_result {
  std::int64_t bound;
  std::size_t steps;  ///< steps taken
};

/// Finds the smallest bound that parts between places of a dominator chain can meet. See
/// `dominator_chain_bound`.
///
/// The time of a part's certain units is a first lower bound on its load. Transfers are added only for parts
/// that occur in a solution for a tested bound; most parts never do.
template <std::unsigned_integral Index>
class dominator_chain_search {
 public:
  dominator_chain_search(unit_costs<Index> const& c, std::span<Index const> order, dominator_chain const& b,
                         std::int64_t below, std::size_t most_steps)
      : weight_(c.weight[c.fastest]),
        parts_(c.speed_of.size()),
        b_(b),
        cuts_(c, weight_, b),
        places_(static_cast<std::size_t>(b.size) + 3),
        most_steps_(most_steps) {
    if (c.weight.size() == 1) all_ = std::accumulate(weight_.begin(), weight_.end(), std::int64_t{});
    from_place_.resize(places_ - 1);
    for (Index const u : order) from_place_[static_cast<std::size_t>(b.in_from[u])].push_back(u);
    note_times(below);
  }

  /// Returns the smallest feasible bound in [`low`, `high`].
  dominator_chain_result least(std::int64_t low, std::int64_t high) {
    while (low < high) {
      auto const middle = low + (high - low) / 2;
      allows(middle) ? high = middle : low = middle + 1;
    }
    return {low, steps_};
  }

 private:
  struct part_cost {
    std::int64_t load, transfers = 0;
    bool known = false;  // otherwise the part may cost more
  };

  /// Tabulates the times of all parts, by first place (0 stands for place -1) and last place. Parts that take
  /// `below` or more are left out.
  void note_times(std::int64_t below) {
    row_.push_back(0);
    for (std::size_t from = 0; from < places_; ++from) {
      std::int64_t time = 0;
      for (auto to = from; to < places_; ++to) {
        if (to > from) time += time_between(from, to);
        if (time >= below) break;
        costs_.push_back({time, 0, to == from});
      }
      row_.push_back(costs_.size());
    }
  }
  static std::int32_t cut_position(std::size_t place) { return static_cast<std::int32_t>(place) - 1; }
  template <class F>
  void each_new(std::size_t from, std::size_t to, F f) const {
    for (Index const u : from_place_[to - 1])
      if (b_.has(u, cut_position(from), cut_position(to))) f(u);
  }
  std::int64_t time_between(std::size_t from, std::size_t to) const {
    std::int64_t time = 0;
    each_new(from, to, [&](Index u) { time += weight_[u]; });
    return time;
  }

  /// Returns true if the known lower bounds allow a sequence of parts from the first place to the last with
  /// loads of at most `bound`. Computes the transfers of the parts in the best sequences.
  bool allows(std::int64_t bound) {
    while (reach(bound)) {
      bool met_unknown = false;
      auto to = places_ - 1;
      for (auto s = parts_; s-- > 0; to = before_[s * places_ + to])
        met_unknown |= ask(before_[s * places_ + to], to);
      if (!met_unknown) return true;
    }
    return false;
  }

  /// Returns true if a sequence with few enough transfers exists. `before_` then gives the first place of
  /// each part.
  bool reach(std::int64_t bound) {
    least_.assign(places_, unreachable_load);
    least_[0] = 0;
    before_.resize(parts_ * places_);
    for (std::size_t s = 0; s < parts_; ++s) {
      next_.assign(places_, unreachable_load);
      for (std::size_t from = 0; from < places_; ++from)
        for (auto i = row_[from]; least_[from] < unreachable_load && i < row_[from + 1]; ++i)
          if (auto const to = from + (i - row_[from]);
              costs_[i].load <= bound && least_[from] + costs_[i].transfers < next_[to]) {
            next_[to] = least_[from] + costs_[i].transfers;
            before_[s * places_ + to] = from;
          }
      least_.swap(next_);
    }
    if (least_.back() >= unreachable_load) return false;
    if (!all_) return true;
    auto const sum = *all_ + least_.back(), parts = static_cast<std::int64_t>(parts_);
    return sum / parts < bound || (sum / parts == bound && sum % parts == 0);
  }

  /// Computes the transfers of a part, unless they are known or the steps have run out. Returns true if it
  /// did.
  bool ask(std::size_t from, std::size_t to) {
    auto& cost = costs_[row_[from] + (to - from)];
    if (cost.known || steps_ > most_steps_) return false;
    core_.clear();
    for (auto place = from + 1; place <= to; ++place) {
      steps_ += from_place_[place - 1].size();
      for (Index const u : from_place_[place - 1])
        if (b_.has(u, cut_position(from), cut_position(to))) core_.push_back(u);
    }
    auto const found = cuts_.between(cut_position(from), cut_position(to), core_);
    steps_ += found.steps;
    cost = {found.load, found.transfers, true};
    return true;
  }

  std::vector<std::int64_t> const& weight_;
  std::size_t parts_;
  dominator_chain const& b_;
  dominator_chain_cuts<Index> cuts_;
  std::size_t places_;
  std::optional<std::int64_t> all_;             // total time, if all devices are equal
  std::vector<std::vector<Index>> from_place_;  // the units by `in_from`
  std::vector<part_cost> costs_;                // of parts, by first place, then by last place
  std::vector<std::size_t> row_;            // of each first place: its first entry in `costs_`; and the end
  std::vector<std::int64_t> least_, next_;  // of each place: transfers of the parts up to there
  std::vector<std::size_t> before_;         // of each part and the place where it ends: the place where
                                            // it begins
  std::vector<Index> core_;
  std::size_t most_steps_, steps_ = 0;
};

/// Computes a lower bound on the bottleneck of acyclic partitions, for devices that all pay for transfers.
/// The result is at least `low` and at most `below`.
///
/// Each boundary lies at a place of a chain of units. A part between two places pays for its certain units
/// and for a minimum cut around them; all parts together pay for the total time and all those cuts.
/// O(places^2) flows, limited to about `most_steps` steps.
template <std::unsigned_integral Index>
dominator_chain_result dominator_chain_bound(unit_edges<Index> const& e, unit_costs<Index> const& c,
                                             std::span<Index const> order, std::int64_t low,
                                             std::int64_t below, dominator_chain_options const& o = {}) {
  auto const b = dominator_chain_of(e, c.weight[c.fastest], order, o.places);
  return dominator_chain_search<Index>(c, order, b, below, o.most_steps).least(low, below);
}

}  // namespace cleave::detail
