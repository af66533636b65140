// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/fixed_point.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/exact/detail/bit_row.hpp"
#include "cleave/partition/exact/detail/ideal_task.hpp"
#include "cleave/partition/exact/exact_options.hpp"
#include "cleave/partition/units/mirrored_backward_order.hpp"
#include "cleave/partition/units/topological_orders.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::inline v0_2::detail {

/// Returns for each unit the set of all its direct and indirect predecessors. O(units (units + edges) / 64).
template <std::unsigned_integral Index>
std::vector<bit_row> units_before(csr<Index> const& predecessors, std::span<Index const> order) {
  std::vector<bit_row> before(order.size(), bit_row(order.size()));
  for (Index const u : order)
    for (Index const need : predecessors[u]) {
      before[u].put(need);
      before[u].join(before[need]);
    }
  return before;
}

/// Returns pairs (u, v) in which unit u can be merged into the part of v without increasing any part's load.
/// Unit u is dominated by v if three conditions hold. (1) u has no compute cost. (2) The values that only u
/// and v touch cost at least as much as the values that u touches and v does not. (3) Each predecessor and
/// successor of u is on its side of v, so no backward edge arises. Units next to a moved unit stay; `keep`
/// marks units that must not move.
template <std::unsigned_integral Index>
std::vector<std::pair<Index, Index>> dominated_units(unit_edges<Index> const& e, unit_costs<Index> const& c,
                                                     std::span<Index const> order,
                                                     std::span<char const> keep) {
  auto const before = units_before(e.predecessors, order);
  std::vector<std::pair<Index, Index>> pairs;
  std::vector<char> is_first(c.units()), stays(keep.begin(), keep.end()), has(c.transfer.size());
  auto const stands_between = [&](Index u, Index v) {
    bool const later = before[v].has(u), earlier = before[u].has(v);
    if (!later)  // u moves to an earlier part, or in any direction
      for (Index const need : e.predecessors[u])
        if (need != v && !before[v].has(need)) return false;
    if (!earlier)
      for (Index const user : e.successors[u])
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
    for (Index const v : e.successors[u])
      if (suits(v)) return v;
    for (Index const v : e.predecessors[u])
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
      for (Index const other : e.predecessors[u]) stays[other] = 1;
      for (Index const other : e.successors[u]) stays[other] = 1;
      for (Index const value : c.touched[u])
        for (Index const other : c.touching[value]) stays[other] = 1;
    }
  }
  return pairs;
}

/// Largest number of units for which a search over ideals is tried.
inline constexpr std::size_t most_units_of_exact = 16'384;

/// A graph as `partition_exact` searches it: units in a topological order, with dominated units merged, and
/// the devices.
template <std::unsigned_integral Index>
struct exact_task {
  unit_graph<Index> units;
  unit_edges<Index> edges;
  unit_costs<Index> costs;  ///< rows: the speeds of the parts, then each spare device
  std::vector<Index> order;
  std::uint32_t parts = 0;  ///< without spare devices
  ideal_task ideals;
  std::vector<std::vector<std::uint32_t>> devices_of;  ///< of each class: its devices; part i is device i,
                                                       ///< and spare device i is parts + i
};

/// Converts costs to fixed-point units of 2^-exponent.
template <std::unsigned_integral Index>
void rescale(unit_costs<Index>& c, int exponent) {
  int const finer = exponent - c.scale.exponent;
  auto const scale = [&](std::int64_t& cost) {
    cost = finer >= 0 ? cost << finer : rounded(static_cast<double>(cost) * power_of_two(finer));
  };
  for (auto& row : c.weight) std::ranges::for_each(row, scale);
  std::ranges::for_each(c.transfer, scale);
  c.scale.exponent = exponent;
}

/// Appends a row of weights for each spare device, scaled so that all sums stay below 2^60.
/// \throws overflow_error if the weights of a device add up to infinity
template <std::unsigned_integral Index>
void add_spare_rows(unit_costs<Index>& c, basic_snapshot_arrays<Index> const& g, unit_graph<Index> const& u,
                    std::vector<spare_device> const& spare) {
  if (spare.empty() || u.size() == 0) return;
  std::int64_t most = 1;  // largest sum of costs
  for (auto const& row : c.weight)
    most = (std::max)(most, std::accumulate(row.begin(), row.end(), std::int64_t{}));
  for (std::size_t v = 0; v < c.transfer.size(); ++v)
    most += 2 * static_cast<std::int64_t>(c.touching[v].size()) * c.transfer[v];
  int exponent = c.scale.exponent + std::countl_zero(static_cast<std::uint64_t>(most)) - 4;
  std::vector<std::vector<double>> rows;
  for (auto const& device : spare) {
    auto& row = rows.emplace_back(u.size());
    double total = 0;
    for (std::size_t n = 0; n < g.nodes(); ++n)
      if (u.of[n] != none<Index>) {
        row[u.of[n]] += device.weight[n];
        total += device.weight[n];
        if (!is_finite(total))
          throw overflow_error("the sum of the weights on a spare device overflows at node " + g.label(n) +
                                   ": use smaller weights",
                               n);
      }
    exponent = (std::min)(exponent, fixed_point::for_total(total > 0 ? total : 1).exponent);
  }
  rescale(c, exponent);
  for (auto const& row : rows) {
    auto& made = c.weight.emplace_back();
    for (double const w : row) made.push_back(c.scale.of(w));
  }
}

/// Groups the parts' devices and the spare devices into classes of identical devices.
template <std::unsigned_integral Index>
void list_devices(exact_task<Index>& t, exact_balance_options const& o) {
  auto const& b = o.balance;
  auto const add = [&](device_class c, std::uint32_t device) {
    auto& classes = t.ideals.classes;
    std::uint32_t i = 0;
    while (i < classes.size() && (classes[i].row != c.row || classes[i].pays != c.pays ||
                                  classes[i].memory != c.memory || classes[i].must_be_used != c.must_be_used))
      ++i;
    if (i == classes.size()) {
      classes.push_back(c);
      classes.back().count = 0;
      t.devices_of.emplace_back();
    }
    ++classes[i].count;
    t.devices_of[i].push_back(device);
    return i;
  };
  bool const must = b.empty == empty_parts::forbidden;
  for (std::uint32_t s = 0; s < t.parts; ++s) {
    auto const memory = b.memory.empty() ? (std::numeric_limits<std::size_t>::max)() : b.memory[s];
    auto const c = add({t.costs.speed_of[s], true, memory, 1, must}, s);
    if (o.devices == device_order::given) t.ideals.class_of_part.push_back(c);
  }
  auto const rows = static_cast<std::uint32_t>(t.costs.weight.size() - o.spare.size());
  for (std::uint32_t i = 0; i < o.spare.size(); ++i)
    add({rows + i, false, (std::numeric_limits<std::size_t>::max)(), 1, false}, t.parts + i);
  t.ideals.may_be_empty = !must;
}

/// Computes the parts that fixed nodes allow for each unit. Conflicts have been rejected before.
template <std::unsigned_integral Index>
void limit_parts(exact_task<Index>& t, balance_options const& b) {
  std::vector<part_id> fixed(t.units.size(), no_part);
  for (std::size_t n = 0; n < b.fixed.size(); ++n)
    if (b.fixed[n] != no_part && t.units.of[n] != none<Index>) fixed[t.units.of[n]] = b.fixed[n];
  if (std::ranges::all_of(fixed, [](part_id p) { return p == no_part; })) return;
  auto const reach = reach_of_fixed<Index>(t.edges.predecessors, t.order, fixed, t.parts);
  for (Index const u : t.order) {
    t.ideals.earliest.push_back(reach.window.earliest[u]);
    t.ideals.latest.push_back(reach.window.latest[u]);
  }
}

/// Prepares `g` for `parts` parts. O(V + E), plus the time to merge dominated units.
template <std::unsigned_integral Index>
exact_task<Index> exact_task_of(basic_snapshot_arrays<Index> const& g, std::uint32_t parts,
                                exact_balance_options const& o) {
  auto const& b = o.balance;
  exact_task<Index> t;
  t.parts = parts;
  auto together = b.together;
  unit_memory<Index> memory;
  auto const link = [&] {
    t.units = units_of(g, {.together = together, .backward = b.backward});
    t.edges = {t.units.predecessors, t.units.successors};
    if (o.loose == unrestricted_nodes::mirrored && !b.backward.empty())
      t.edges = mirrored_backward_edges<Index>(g, t.units, b.backward);
    t.costs = costs_of(g, t.units, parts, {b.cost_per_byte, b.speed, b.link});
    add_spare_rows(t.costs, g, t.units, o.spare);
    if (!b.memory.empty()) memory = memory_of<Index>(g, t.units, b.node_memory);
  };
  link();
  bool roomy = b.memory.empty();
  if (!roomy) {
    std::size_t least = b.memory[0];
    for (std::uint32_t s = 0; s < parts; ++s) least = (std::min)(least, b.memory[s]);
    roomy = memory.total() <= least;
  }
  auto const put_in_order = [&] {
    std::vector<Index> rank(t.units.size());
    std::iota(rank.begin(), rank.end(), Index{});
    t.order = ordered_units<Index>(t.edges.predecessors, t.edges.successors, unit_order::on_demand, rank);
  };
  put_in_order();
  bool const one_link = t.costs.linked.empty();  // otherwise a merge may pay off for one part and not for
                                                 // another
  while (b.empty == empty_parts::allowed && one_link && t.units.size() <= most_units_of_exact) {
    std::vector<char> keep(t.units.size());  // no merging if parts must not be empty: a unit may be all that
                                             // a part has
    for (std::size_t n = 0; n < b.fixed.size(); ++n)
      if (b.fixed[n] != no_part && t.units.of[n] != none<Index>) keep[t.units.of[n]] = 1;
    for (Index u = 0; u < t.units.size() && !roomy; ++u) keep[u] = keep[u] || memory.alone(u) != 0;
    auto const node = [&](Index unit) { return std::size_t{t.units.members[unit].front()}; };
    auto const pairs = dominated_units<Index>(t.edges, t.costs, t.order, keep);
    if (pairs.empty()) break;
    for (auto const& [u, v] : pairs) together.push_back({node(u), node(v)});
    link();
    put_in_order();
  }
  t.ideals = ideal_task_of<Index>(t.edges.predecessors, t.costs, memory, t.order);
  list_devices(t, o);
  limit_parts(t, b);
  return t;
}

/// Returns the load of each part of an assignment. Does not check memory. O(units + touches).
inline std::vector<std::int64_t> loads_of(ideal_task const& t, std::vector<std::uint32_t> const& part_of,
                                          std::vector<std::uint32_t> const& class_of) {
  std::vector<std::int64_t> load(class_of.size());
  for (std::size_t u = 0; u < part_of.size(); ++u)
    load[part_of[u]] += t.weight[t.classes[class_of[part_of[u]]].row][u];
  std::vector<std::size_t> seen(class_of.size(), t.transfer.size());
  for (std::size_t v = 0; v < t.transfer.size(); ++v) {
    auto const owner = part_of[t.touching[v].front()];
    bool const crosses =
        std::ranges::any_of(t.touching[v], [&](std::uint32_t u) { return part_of[u] != owner; });
    for (auto const u : t.touching[v])
      if (auto const p = part_of[u]; crosses && std::exchange(seen[p], v) != v && t.classes[class_of[p]].pays)
        load[p] += t.transfer[v];
  }
  return load;
}

}  // namespace cleave::detail
