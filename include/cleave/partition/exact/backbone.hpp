// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/graph/csr.hpp"
#include "cleave/partition/units/mirrored.hpp"
#include "cleave/partition/units/unit_costs.hpp"

namespace cleave {

/// A chain of units, each needed by the next, directly or not. Each boundary between parts lies at a *place*
/// of it: at place i where the first i of the chain are before it and the others behind. Place -1 is before
/// all units, place size + 1 behind all.
struct backbone {
  std::vector<std::int32_t> in_from;    ///< of a unit: the first place from which on it is before a boundary
  std::vector<std::int32_t> out_below;  ///< of a unit: it is behind a boundary at every place below this
  std::int32_t size = 0;

  /// Whether a part between boundaries at two places has `unit` for sure, or for sure has it not.
  bool has(std::size_t unit, std::int32_t from, std::int32_t to) const {
    return out_below[unit] > from && in_from[unit] <= to;
  }
  bool lacks(std::size_t unit, std::int32_t from, std::int32_t to) const {
    return in_from[unit] <= from || out_below[unit] > to;
  }
};

}  // namespace cleave

namespace cleave::detail {

/// The path that takes the most time, and of its units about `places`, spread evenly over all time that
/// passes before them. O(units + edges).
template <std::unsigned_integral Index>
backbone backbone_of(unit_edges<Index> const& e, std::vector<std::int64_t> const& weight,
                     std::span<Index const> order, std::size_t places) {
  std::vector<std::int64_t> longest(order.size()), before(order.size());
  std::int64_t all = 0;
  for (Index const u : order) {
    for (Index const need : e.needs[u]) longest[u] = (std::max)(longest[u], longest[need]);
    longest[u] += weight[u] + 1;
    before[u] = all += weight[u];
  }
  std::vector<Index> path;
  if (!order.empty())
    path.push_back(*std::ranges::max_element(order, {}, [&](Index u) { return longest[u]; }));
  while (!path.empty() && !e.needs[path.back()].empty())
    path.push_back(*std::ranges::max_element(e.needs[path.back()], {}, [&](Index u) { return longest[u]; }));
  std::ranges::reverse(path);

  backbone b{std::vector<std::int32_t>(order.size()), std::vector<std::int32_t>(order.size())};
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
    for (Index const need : e.needs[u]) b.out_below[u] = (std::max)(b.out_below[u], b.out_below[need]);
  for (std::size_t i = order.size(); i-- > 0;)
    for (Index const need : e.needs[order[i]])
      b.in_from[need] = (std::min)(b.in_from[need], b.in_from[order[i]]);
  return b;
}

}  // namespace cleave::detail
