// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "cleave/core/fixed_point.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/flow/local_flow.hpp"
#include "cleave/partition/units/unit_costs.hpp"

/// Bounds that hold for every assignment of units to parts, contiguous or not, with cycles between parts or
/// without, whatever the memory limits: the certificate of `balance`.
namespace cleave::detail {

/// No part can have less than an even share of all time.
template <std::unsigned_integral Index>
std::int64_t even_share(unit_costs<Index> const& c) {
  auto const& weight = c.weight[c.fastest];
  auto const sum = std::accumulate(weight.begin(), weight.end(), std::int64_t{});
  auto const parts = static_cast<std::int64_t>(c.speed_of.size());
  if (c.weight.size() == 1) return sum / parts + (sum % parts != 0);
  double const rounding = 1 - 0x1p-30;  // more than what the division loses
  return static_cast<std::int64_t>(static_cast<double>(sum) / c.relative_speed * rounding);
}

/// Of any j k + 1 units, j + 1 share one of k parts. O(units log units). Martello and Toth, Knapsack
/// Problems, 1990, §8.3.
template <std::unsigned_integral Index>
std::int64_t pigeonhole_share(unit_costs<Index> const& c) {
  auto weight = c.weight[c.fastest];
  std::ranges::sort(weight, std::ranges::greater{});
  std::vector<std::int64_t> sum(weight.size() + 1);
  for (std::size_t i = 0; i < weight.size(); ++i) sum[i + 1] = sum[i] + weight[i];
  std::int64_t bound = 0;
  for (std::size_t j = 0, k = c.speed_of.size(); j * k + 1 <= weight.size(); ++j)
    bound = (std::max)(bound, sum[j * k + 1] - sum[j * k - j]);
  return bound;
}

/// What a part pays at least if it has `unit`, whatever else it has: for each value it shares with others
/// the transfer or the time of those others, at best. A minimum cut, hence a flow; only some thousand units
/// around are looked at, which makes the bound weaker, not wrong.
template <std::unsigned_integral Index>
std::int64_t least_with(unit_costs<Index> const& c, Index unit) {
  constexpr std::size_t most_units = 4000, most_touches = 40000;
  auto const& weight = c.weight[c.fastest];
  std::vector<Index> units{unit}, values;
  // One more than the place, 0 for none.
  std::vector<std::uint32_t> place_of_unit(c.units()), place_of_value(c.transfer.size());
  place_of_unit[unit] = 1;
  std::size_t touches = 0;
  for (std::size_t i = 0; i < units.size(); ++i)
    for (Index const v : c.touched[units[i]]) {
      if (place_of_value[v] != 0 || touches > most_touches) continue;
      values.push_back(v);
      place_of_value[v] = static_cast<std::uint32_t>(values.size());
      for (Index const other : c.touching[v]) {
        ++touches;
        if (place_of_unit[other] != 0 || units.size() >= most_units) continue;
        units.push_back(other);
        place_of_unit[other] = static_cast<std::uint32_t>(units.size());
      }
    }

  auto const sink = static_cast<std::uint32_t>(units.size());
  local_flow flow(units.size() + 1 + 2 * values.size());
  for (std::uint32_t i = 1; i < sink; ++i)
    if (weight[units[i]] > 0) flow.arc(i, sink, weight[units[i]]);
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    auto const in = sink + 1 + 2 * i, out = in + 1;
    flow.arc(in, out, c.transfer[values[i]]);
    for (Index const other : c.touching[values[i]])
      if (auto const place = place_of_unit[other]; place != 0) {
        flow.arc(place - 1, in, unreachable_load);
        flow.arc(out, place - 1, unreachable_load);
      }
  }
  return weight[unit] + flow.most(0, sink, 4'000'000);
}

/// The best of the bounds above. Flows are tried for the eight units whose transfers and weight are largest.
template <std::unsigned_integral Index>
std::int64_t load_bound(unit_costs<Index> const& c) {
  auto bound = (std::max)(even_share(c), pigeonhole_share(c));
  std::vector<std::pair<std::int64_t, Index>> alone;  // what a unit pays in a part of its own
  for (Index u = 0; u < c.units(); ++u) {
    auto load = c.weight[c.fastest][u];
    for (Index const v : c.touched[u]) load += c.transfer[v];
    if (load > bound) alone.emplace_back(load, u);
  }
  auto const tried = std::min<std::size_t>(8, alone.size());
  std::ranges::partial_sort(alone, alone.begin() + static_cast<std::ptrdiff_t>(tried),
                            std::ranges::greater{});
  for (std::size_t i = 0; i < tried; ++i)
    if (alone[i].first > bound) bound = (std::max)(bound, least_with(c, alone[i].second));
  return bound;
}

}  // namespace cleave::detail
