// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

#include "cleave/schedule/verify/deadlock.hpp"

namespace cleave::testing {

/// Returns all delivery modes, with few and many buffers and with either grouping.
inline std::vector<delivery_rules> every_delivery() {
  std::vector<delivery_rules> all;
  for (auto const groups : {message_groups::listed, message_groups::adjacent}) {
    for (auto const d : {delivery::buffered, delivery::rendezvous, delivery::async, delivery::pair_stream,
                         delivery::one_queue, delivery::two_queues})
      all.push_back({.delivery = d, .groups = groups});
    for (auto const buffers : {0u, 1u, 2u}) all.push_back({.buffers = buffers, .groups = groups});
  }
  return all;
}

/// Returns the delivery modes under which a schedule deadlocks; empty if it always finishes.
inline std::string stuck_with(schedule const& s) {
  std::string stuck;
  for (auto const& rules : every_delivery())
    if (auto const d = find_deadlock(s, rules))
      stuck += "delivery " + std::to_string(static_cast<int>(rules.delivery)) + ", " +
               std::to_string(rules.buffers) + " buffers: " + describe(*d) + "; ";
  return stuck;
}

}  // namespace cleave::testing
