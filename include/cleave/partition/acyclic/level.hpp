// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/graph/csr.hpp"
#include "cleave/partition/units/topological_orders.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::inline v0_2::detail {

/// One level of acyclic partitioning: the units of a dataflow graph, or clusters of them, with values as
/// hyperedges. The graph of units is acyclic.
template <std::unsigned_integral Index>
struct acyclic_level {
  csr<Index> predecessors, successors;            ///< of each unit, without duplicates
  csr<Index> touching;                            ///< of each value: its pins, that is, the units that make
                                                  ///< or read it; at least two
  csr<Index> touched;                             ///< the transpose of `touching`: the values of each unit
  std::vector<std::vector<std::int64_t>> price;   ///< one row for each distinct link: the transfer cost of
                                                  ///< each value
  std::vector<std::vector<std::int64_t>> weight;  ///< one row for each distinct speed: the compute time of
                                                  ///< each unit
  unit_memory<Index> memory;                      ///< empty if there are no memory limits
  part_window window;                             ///< the parts in which each unit may be, because of fixed
                                                  ///< nodes

  std::size_t units() const { return predecessors.rows(); }
  std::size_t values() const { return touching.rows(); }
};

/// Limits of the parts, and the rows of weights and prices that apply to each part.
struct acyclic_limits {
  std::vector<std::uint32_t> speed_of, link_of;  ///< of each part: its row of `weight` and its row of `price`
  std::vector<std::int64_t> most;                ///< of each part: the limit of its compute time, without
                                                 ///< transfers
  std::vector<std::size_t> memory;               ///< of each part: its memory limit in bytes; empty: no limit
  bool may_be_empty = false;                     ///< true if a part may lose its last unit

  std::uint32_t parts() const { return static_cast<std::uint32_t>(speed_of.size()); }
};

}  // namespace cleave::detail
