// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "cleave/graph/csr.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::inline v0_2::detail {

/// A class of identical devices.
struct device_class {
  std::uint32_t row = 0;  ///< row of `ideal_task::weight`
  bool pays = true;       ///< for transfers
  std::size_t memory = (std::numeric_limits<std::size_t>::max)();
  std::uint32_t count = 1;
  bool must_be_used = true;  ///< by at least one unit, unless all parts may be empty
};

/// The input of a search over ideals: units by position in a topological order, their integer costs, and the
/// devices. An *ideal* is a set of units that contains all predecessors of its units.
struct ideal_task {
  csr<std::uint32_t> predecessors, successors;    ///< of each unit
  std::vector<std::vector<std::int64_t>> weight;  ///< one row per speed: the time of each unit
  std::vector<std::int64_t> transfer;             ///< of each value: its cost for each part that touches it
  csr<std::uint32_t> touching, touched;           ///< of each value: its units; of each unit: its values
  std::vector<std::size_t> own, shared;           ///< bytes of each unit, and of each memory item that units
                                                  ///< share
  csr<std::uint32_t> holders, holds;              ///< of each shared item: its units; of each unit: its
                                                  ///< shared items
  std::vector<device_class> classes;
  std::vector<std::uint32_t> class_of_part;     ///< device class of each part, if devices are in the given
                                                ///< order; otherwise empty
  std::vector<std::uint32_t> earliest, latest;  ///< of each unit: the parts that fixed nodes allow; may be
                                                ///< empty
  bool may_be_empty = false;                    ///< true if parts may be empty

  std::size_t units() const { return predecessors.rows(); }
};

/// Returns `rows` with rows and items renumbered: row i of the result is row `row_at[i]`, with its items
/// mapped by `item_to`.
template <std::unsigned_integral Index>
csr<std::uint32_t> renumbered(csr<Index> const& rows, std::span<Index const> row_at,
                              std::span<std::uint32_t const> item_to) {
  csr<std::uint32_t> made;
  for (Index const row : row_at) {
    auto const begin = made.item.size();
    for (Index const i : rows[row]) made.add(item_to.empty() ? static_cast<std::uint32_t>(i) : item_to[i]);
    std::ranges::sort(made.item.begin() + static_cast<std::ptrdiff_t>(begin), made.item.end());
    made.close();
  }
  return made;
}

/// Builds the task with units by position in `order`, a topological order of `predecessors`. The caller sets
/// the devices. O(units + edges + touches).
template <std::unsigned_integral Index>
ideal_task ideal_task_of(csr<Index> const& predecessors, unit_costs<Index> const& costs,
                         unit_memory<Index> const& memory, std::span<Index const> order) {
  ideal_task t;
  std::vector<std::uint32_t> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<std::uint32_t>(i);
  t.predecessors = renumbered<Index>(predecessors, order, place);
  t.successors = users_of(t.predecessors, order.size());
  for (auto const& row : costs.weight)
    for (auto& made = t.weight.emplace_back(); Index const u : order) made.push_back(row[u]);
  t.transfer = costs.transfer;
  t.touched = renumbered<Index>(costs.touched, order, {});
  t.touching = users_of(t.touched, t.transfer.size());
  t.own.resize(order.size());
  for (std::size_t i = 0; i < memory.own.size(); ++i) t.own[place[i]] = memory.own[i];
  t.shared = memory.shared;
  t.holds.first.assign(order.size() + 1, 0);
  if (!memory.own.empty()) t.holds = renumbered<Index>(memory.predecessors, order, {});
  t.holders = users_of(t.holds, t.shared.size());
  return t;
}

}  // namespace cleave::detail
