// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "support/race_log.hpp"

namespace cleave::testing::fake {

struct capture;

/// A place in a stream: what happened before it, once it has been reached.
struct mark {
  bool is_reached = false;
  vector_clock clock;
  std::chrono::steady_clock::time_point at;
};

struct event {
  std::size_t number = 0;
  int device = 0;
  bool has_timing = true, is_destroyed = false;
  std::shared_ptr<mark> last;         // of its last record; none: it has not been recorded
  std::shared_ptr<capture> captured;  // the last record is a place in a graph
  std::vector<std::size_t> front;     // its nodes
};

/// A wait that was left out: what it would have told, and what was known without it.
struct missed_wait {
  std::shared_ptr<mark> of, at;
  std::string name;
};

}  // namespace cleave::testing::fake
