// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstdint>
#include <vector>

#include "cleave/core/ids.hpp"

namespace cleave {

/// One piece of a cut graph, by node and value positions of the snapshot it was planned on.
template <std::unsigned_integral Index>
struct basic_stage {
  std::vector<Index> nodes;    ///< in program order; replicated ones are in each stage that needs them
  std::vector<Index> inputs;   ///< values that the caller or other stages pass
  std::vector<Index> state;    ///< parameters, buffers and constants that it holds
  std::vector<Index> outputs;  ///< values that other stages or the caller receive

  bool operator==(basic_stage const&) const = default;
};

/// A value that one stage sends to another.
template <std::unsigned_integral Index>
struct basic_transfer {
  Index value;
  stage_id from, to;

  bool operator==(basic_transfer const&) const = default;
};

/// How a graph is cut, as plain data: comparable, printable, independent of what it is written out into.
/// Stage i is part i of the partition.
template <std::unsigned_integral Index>
struct basic_plan {
  std::vector<basic_stage<Index>> stages;
  std::vector<stage_id> order;  ///< the stages, each after those it receives from
  /// Who feeds whom: by receiving stage in `order`, then by its inputs.
  std::vector<basic_transfer<Index>> transfers;
  /// A state's last value, from its writer to each other stage that holds it.
  std::vector<basic_transfer<Index>> updates;

  bool operator==(basic_plan const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

using stage_plan = basic_stage<std::uint32_t>;

}  // namespace cleave::detail

namespace cleave {

using transfer = basic_transfer<std::uint32_t>;
using plan = basic_plan<std::uint32_t>;

}  // namespace cleave
