// SPDX-License-Identifier: MIT
#include "cleave/run/forward/forward.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("host_clock: elapsed() is the time between the records of two events") {
  host_clock d;
  auto s = d.make_stream(0);
  auto from = d.make_event(), to = d.make_event();
  d.record(from, s);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  d.record(to, s);
  CHECK(d.elapsed(from, to) >= std::chrono::milliseconds(5));
  CHECK(d.elapsed(from, from).count() == 0);
  CHECK(d.elapsed(to, from) == -d.elapsed(from, to));
}
