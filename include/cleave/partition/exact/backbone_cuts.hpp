// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/core/fixed_point.hpp"
#include "cleave/partition/exact/backbone.hpp"
#include "cleave/partition/exact/pushed_flow.hpp"
#include "cleave/partition/units/unit_costs.hpp"

namespace cleave::detail {

/// What a part pays at least that lies between boundaries at two places of a backbone.
template <std::unsigned_integral Index>
class backbone_cuts {
 public:
  backbone_cuts(unit_costs<Index> const& c, std::vector<std::int64_t> const& weight, backbone const& b)
      : c_(c),
        weight_(weight),
        b_(b),
        met_unit_(c.units()),
        met_value_(c.transfer.size()),
        place_(c.units()) {}

  struct cost {
    std::int64_t load;       ///< in all
    std::int64_t transfers;  ///< for transfers, were all other units for free
    std::size_t steps;       ///< that it took to know
  };

  /// `core` has all units that such a part has for sure. Minimum cuts, hence flows; only some hundred units
  /// around are looked at, which makes the bound weaker, not wrong.
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

  /// Notes a value once, and the units around that the part may have; its cost if the part must pay for it.
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
      // Whoever has one of its units pays where another has one: `in` is passed by those, `out` leads to
      // these.
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
    bool inside, outside;  // whether the part has a unit that touches it, or another part has one
    std::size_t touches;   // of those noted so far
  };

  unit_costs<Index> const& c_;
  std::vector<std::int64_t> const& weight_;
  backbone const& b_;
  std::int32_t from_ = 0, to_ = 0;
  std::uint32_t round_ = 0;
  std::vector<std::uint32_t> met_unit_, met_value_, place_;
  std::vector<open_value> values_;
  std::vector<Index> units_;
  std::size_t steps_ = 0;
};

}  // namespace cleave::detail
