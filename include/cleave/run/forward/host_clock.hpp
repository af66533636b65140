// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>

#include "cleave/run/model/concepts.hpp"

namespace cleave::detail {

/// The processor where nothing goes on by itself: what was issued to a stream has run when the call returns.
class host_clock {
 public:
  struct stream {};
  struct event {
    std::chrono::steady_clock::time_point at = {};
  };

  stream make_stream(int /*priority*/) { return {}; }
  event make_event() { return {}; }
  void record(event& e, stream&) { e.at = std::chrono::steady_clock::now(); }
  std::chrono::nanoseconds elapsed(event const& from, event const& to) const { return to.at - from.at; }
};

static_assert(clocked_device<host_clock>);

}  // namespace cleave::detail
