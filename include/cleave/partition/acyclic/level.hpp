// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/graph/csr.hpp"
#include "cleave/partition/units/topological_orders.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::detail {

/// Units of a dataflow graph, or clusters of them: what acyclic refinement sees. Units need each other in no
/// cycle.
template <std::unsigned_integral Index>
struct acyclic_level {
  csr<Index> predecessors, successors;            ///< of a unit: units before and behind it, each once
  csr<Index> touching;                            ///< of a value: the units that make or read it, two or more
  csr<Index> touched;                             ///< the same from the unit's side
  std::vector<std::vector<std::int64_t>> price;   ///< for each different link: of a value
  std::vector<std::vector<std::int64_t>> weight;  ///< for each different speed: of a unit
  unit_memory<Index> memory;                      ///< empty where it has no limits
  part_window window;                             ///< where pins let units be

  std::size_t units() const { return predecessors.rows(); }
  std::size_t values() const { return touching.rows(); }
};

/// What parts may be filled with, and how they count.
struct acyclic_limits {
  std::vector<std::uint32_t> speed_of, link_of;  ///< of a part: its row of weights and of prices
  std::vector<std::int64_t> most;                ///< of a part: the time it may take, transfers aside
  std::vector<std::size_t> memory;               ///< of a part, in bytes; empty: any
  bool may_be_empty = false;                     ///< whether a part may lose its last unit

  std::uint32_t parts() const { return static_cast<std::uint32_t>(speed_of.size()); }
};

}  // namespace cleave::detail
