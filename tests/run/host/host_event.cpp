// SPDX-License-Identifier: MIT
#include "cleave/run/host/host_device.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <thread>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("host_event: a new event and a passed event have happened") {
  host_event e;
  CHECK(e.happened());
  auto const before = host_event::clock::now();
  e.pass();
  CHECK(e.happened());
  CHECK(e.at() >= before);
  CHECK(e.at() <= host_event::clock::now());
}

TEST_CASE("host_event: happens when the last expected transfer ends") {
  host_event e;
  auto& count = e.expect(3);
  CHECK_FALSE(e.happened());
  CHECK_FALSE(count.end_one());
  CHECK_FALSE(count.end_one());
  CHECK_FALSE(e.happened());
  auto const before = host_event::clock::now();
  CHECK(count.end_one());
  CHECK(e.happened());
  CHECK(e.at() >= before);
}

TEST_CASE("host_event: can be reused in either way and tells the time of its last use") {
  host_event e;
  auto* const first = &e.expect(1);
  first->end_one();
  auto const then = e.at();
  e.pass();
  CHECK(e.happened());
  CHECK(e.at() >= then);
  auto const passed = e.at();
  auto& count = e.expect(2);
  CHECK(&count == first);  // threads that end transfers hold its address
  CHECK_FALSE(e.happened());
  count.end_one();
  count.end_one();
  CHECK(e.happened());
  CHECK(e.at() >= passed);
}

TEST_CASE("host_event: takes eight bytes, and a copy keeps the time") {
  static_assert(sizeof(host_event) == 8);
  host_event e;
  e.expect(1).end_one();
  std::vector<host_event> events;
  events.push_back(e);
  events.emplace_back();
  CHECK(events[0].happened());
  CHECK(events[0].at() == e.at());
}

TEST_CASE("host_event: exactly one of several threads ends the last transfer") {
  for (int round = 0; round < 50; ++round) {
    host_event e;
    std::vector<int> written(4), last(4);
    auto& count = e.expect(4);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        written[t] = 1;
        last[t] = count.end_one();
      });
    while (!e.happened()) std::this_thread::yield();
    CHECK(written == std::vector{1, 1, 1, 1});  // earlier writes are visible after the wait
    for (auto& t : threads) t.join();
    CHECK(last[0] + last[1] + last[2] + last[3] == 1);
  }
}
