// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/graph/csr.hpp"
#include "cleave/partition/exact/bit_row.hpp"
#include "cleave/partition/units/mirrored.hpp"
#include "cleave/partition/units/unit_costs.hpp"

namespace cleave::detail {

/// Of each unit, those that come before it. O(units (units + edges) / 64).
template <std::unsigned_integral Index>
std::vector<bit_row> units_before(csr<Index> const& needs, std::span<Index const> order) {
  std::vector<bit_row> before(order.size(), bit_row(order.size()));
  for (Index const u : order)
    for (Index const need : needs[u]) {
      before[u].put(need);
      before[u].join(before[need]);
    }
  return before;
}

/// Pairs of units of which the first may join the part of the second without anybody paying more, wherever
/// it was: it costs no time; what it shares with the second alone costs at least as much as what it shares
/// with others and the second has not; and whatever it needs or needs it stands on its side of the second.
/// Neighbours of a unit that moves stay; `keep` marks units that are not to move at all.
template <std::unsigned_integral Index>
std::vector<std::pair<Index, Index>> weightless_pairs(unit_edges<Index> const& e, unit_costs<Index> const& c,
                                                      std::span<Index const> order,
                                                      std::span<char const> keep) {
  auto const before = units_before(e.needs, order);
  std::vector<std::pair<Index, Index>> pairs;
  std::vector<char> is_first(c.units()), stays(keep.begin(), keep.end()), has(c.transfer.size());
  auto const stands_between = [&](Index u, Index v) {
    bool const later = before[v].has(u), earlier = before[u].has(v);
    if (!later)  // it moves to an earlier part, or any
      for (Index const need : e.needs[u])
        if (need != v && !before[v].has(need)) return false;
    if (!earlier)
      for (Index const user : e.needed_by[u])
        if (user != v && !before[user].has(v)) return false;
    return true;
  };
  auto const pays_off = [&](Index u, Index v) {
    for (Index const value : c.touched[v]) has[value] = 1;
    std::int64_t saved = 0;
    for (Index const value : c.touched[u])
      if (has[value] == 0)
        saved -= c.transfer[value];
      else if (c.touching[value].size() == 2)
        saved += c.transfer[value];
    for (Index const value : c.touched[v]) has[value] = 0;
    return saved >= 0;
  };
  auto const find_second = [&](Index u) {
    auto const suits = [&](Index v) {
      return v != u && is_first[v] == 0 && stands_between(u, v) && pays_off(u, v);
    };
    for (Index const v : e.needed_by[u])
      if (suits(v)) return v;
    for (Index const v : e.needs[u])
      if (suits(v)) return v;
    for (Index const value : c.touched[u])
      if (auto const all = c.touching[value]; all.size() <= 8)
        for (Index const v : all)
          if (suits(v)) return v;
    return u;
  };
  for (Index u = 0; u < c.units(); ++u) {
    bool weightless = stays[u] == 0;
    for (auto const& row : c.weight) weightless = weightless && row[u] == 0;
    if (!weightless) continue;
    if (Index const v = find_second(u); v != u) {
      pairs.emplace_back(u, v);
      is_first[u] = stays[v] = 1;
      for (Index const other : e.needs[u]) stays[other] = 1;
      for (Index const other : e.needed_by[u]) stays[other] = 1;
      for (Index const value : c.touched[u])
        for (Index const other : c.touching[value]) stays[other] = 1;
    }
  }
  return pairs;
}

}  // namespace cleave::detail
