// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "cleave/core/language.hpp"

namespace cleave::detail {

/// What a k-way partition has just done.
enum class kway_phase : std::uint8_t { coarsened, first_cut, projected, refined };

}  // namespace cleave::detail

namespace cleave {

/// Told of each step of a k-way partition on the thread of the caller: for clocks and progress. It changes
/// nothing.
class kway_observer {
 public:
  virtual ~kway_observer() = default;
  /// `nodes` of the level, and by how much the cut fell where it was refined.
  virtual void passed(detail::kway_phase phase, std::size_t nodes, std::int64_t gained) = 0;
};

}  // namespace cleave
