// SPDX-License-Identifier: MIT
#include "cleave/run/model/wait_on_host.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <thread>

#include "support/queued/queued_device.hpp"

using namespace cleave;
using namespace cleave::testing;

using namespace cleave::detail;
using namespace std::chrono_literals;

namespace {

using clock = std::chrono::steady_clock;

/// A stream whose work ends when it is released, and the event recorded after it.
struct held_work {
  host_ranks ranks{1};
  queued_device d{ranks, rank_id{0}};
  queued_event e = d.make_event();
  std::atomic<bool> released = false;
  queued_stream s = d.make_stream(0);

  held_work() {
    s.call([this] {
      while (!released) std::this_thread::sleep_for(100us);
    });
    d.record(e, s);
  }
  ~held_work() { released = true; }
};

}  // namespace

TEST_CASE("wait_on_host: ends when the event happens or at the deadline") {
  held_work w;
  int checks = 0;
  auto const check = [&] { ++checks; };
  auto const until = clock::now() + 5ms;
  CHECK_FALSE(wait_on_host(w.d, w.e, until, check));
  CHECK(clock::now() >= until);
  CHECK(checks > 0);
  CHECK_FALSE(wait_on_host(w.d, w.e, clock::time_point::min(), check));
  std::thread other([&] {
    std::this_thread::sleep_for(5ms);
    w.released = true;
  });
  CHECK(wait_on_host(w.d, w.e, deadline_after(std::nullopt), check));
  other.join();
  checks = 0;
  CHECK(wait_on_host(w.d, w.e, clock::time_point::min(), check));
  CHECK(checks == 0);
}

TEST_CASE("wait_on_host: an exception from the check ends the wait") {
  held_work w;
  int looks = 0;
  auto const check = [&] {
    if (++looks == 1200) throw std::runtime_error("the run has failed");
  };
  CHECK_THROWS_WITH_AS(wait_on_host(w.d, w.e, clock::time_point::max(), check), "the run has failed",
                       std::runtime_error);
  CHECK(looks == 1200);
}

TEST_CASE("deadline_after: adds the limit to now, and without a limit never comes") {
  auto const before = clock::now();
  auto const until = deadline_after(3h);
  CHECK(until >= before + 3h);
  CHECK(until <= clock::now() + 3h);
  auto const at_once = deadline_after(0ms);
  CHECK(at_once <= clock::now());
  CHECK(deadline_after(std::nullopt) == clock::time_point::max());
  CHECK(deadline_after(std::chrono::milliseconds::max()) == clock::time_point::max());
}
