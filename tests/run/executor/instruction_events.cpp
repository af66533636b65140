// SPDX-License-Identifier: MIT
#include "cleave/run/executor/detail/instruction_events.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "cleave/run/host/host_device.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// A device that does nothing: tests set the time of its streams, and whether its events have
/// happened.
struct told_device : host_memory {
  struct stream {
    std::int64_t now = 0;
  };
  struct event {
    std::int64_t at = -1;
    bool open = false;
  };
  stream make_stream(int) { return {}; }
  event make_event() { return {}; }
  void record(event& e, stream& s) { e = {++s.now}; }
  void wait(stream&, event const&) {}
  bool query(event const& e) const { return !e.open; }
  std::chrono::nanoseconds elapsed(event const& from, event const& to) const {
    return std::chrono::nanoseconds(to.at - from.at);
  }
  void copy(stream&, void*, void const*, std::size_t) {}
  void accumulate(stream&, sums const&, accumulate_options const&) {}
};
static_assert(device<told_device>);

/// A pass, an exchange of two messages, a wait for one of them, and RECOMPUTE.
rank_program small_program() {
  rank_program p;
  p.instructions.resize(6);
  p.instructions[0].call.kind = call_kind::forward;
  p.instructions[1].call = {.kind = call_kind::exchange, .parts = 2};
  p.instructions[2].call.kind = call_kind::send;
  p.instructions[3].call.kind = call_kind::receive;
  p.instructions[4].call.kind = call_kind::wait_receive;
  p.instructions[5].call.kind = call_kind::other;
  return p;
}

}  // namespace

TEST_CASE("instruction_events: times count from the start of the step, and waits have none") {
  packed_program const p = small_program();
  told_device d;
  instruction_events events(d, p);
  told_device::stream s;
  for (int step = 0; step < 2; ++step) {
    events.begin_step(s);
    for (std::uint32_t const i : {0u, 1u, 5u}) {
      events.begin(i, s);
      s.now += 10;
      events.end(i, s);
    }
    auto const times = events.times();
    REQUIRE(times.size() == 6);
    CHECK(times[0] == instruction_time{1, 12});
    CHECK(times[1] == instruction_time{});
    CHECK(times[2] == instruction_time{13, 24});
    CHECK(times[3] == times[2]);
    CHECK(times[4] == instruction_time{});
    CHECK(times[5] == instruction_time{25, 36});
  }
}

TEST_CASE("instruction_events: the parts of an exchange end with it") {
  packed_program const p = small_program();
  told_device d;
  instruction_events events(d, p);
  for (std::uint32_t i = 0; i < 6; ++i) CHECK(events.has(i) == (i != 4));
  CHECK(&events.end_of(2) == &events.end_of(1));
  CHECK(&events.end_of(3) == &events.end_of(1));
  CHECK(&events.end_of(0) != &events.end_of(1));
  CHECK(&events.end_of(5) != &events.end_of(1));
}

TEST_CASE(
    "instruction_events: find_open() finds the first open instruction; of an exchange, its first message") {
  packed_program const p = small_program();
  told_device d;
  instruction_events events(d, p);
  CHECK(events.find_open() == std::nullopt);
  std::map<std::uint32_t, std::uint32_t> const named{{0, 0}, {1, 2}, {5, 5}};
  for (auto open = named.rbegin(); open != named.rend(); ++open) {
    events.end_of(open->first).open = true;
    CHECK(events.find_open() == open->second);
  }
}

TEST_CASE("instruction_events: every pass of a long program has events of its own, and every wait has none") {
  rank_program p;
  for (int i = 0; i < 300; ++i) {
    p.instructions.push_back({.call = {.kind = call_kind::wait_receive}});
    p.instructions.push_back({.call = {.kind = call_kind::forward}});
  }
  packed_program const packed = p;
  told_device d;
  instruction_events events(d, packed);
  std::set<void const*> places;
  for (std::uint32_t i = 0; i < 600; ++i) {
    CHECK(events.has(i) == (i % 2 == 1));
    if (i % 2 == 1) places.insert(&events.end_of(i));
  }
  CHECK(places.size() == 300);
}
