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

/// A point in a stream. Once reached, it holds the clock of all work before it.
struct mark {
  bool is_reached = false;
  vector_clock clock;
  std::chrono::steady_clock::time_point at;
};

struct event {
  std::size_t number = 0;
  int device = 0;
  bool has_timing = true, is_destroyed = false;
  std::shared_ptr<mark> last;         // of its last record; null: never recorded
  std::shared_ptr<capture> captured;  // the capture of the last record, if it is in a graph
  std::vector<std::size_t> front;     // nodes of that record
};

/// A skipped wait: the clock it would have added, and the clock known without it.
struct missed_wait {
  std::shared_ptr<mark> of, at;
  std::string name;
};

}  // namespace cleave::testing::fake
