// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "cleave/core/ids.hpp"

namespace cleave {

/// Which part each node belongs to, by the node's position in `nodes()`.
struct partition {
  std::vector<part_id> of;  ///< `no_part` for a node that belongs to none
  std::uint32_t parts = 0;  ///< ids are below this

  bool operator==(partition const&) const = default;
};
}  // namespace cleave
