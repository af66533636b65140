// SPDX-License-Identifier: MIT
#include "cleave/run/host/host_device.hpp"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "support/device_promises.hpp"

using namespace cleave;

namespace {
constexpr rank_id r0{0};
}

TEST_CASE("host_device: issued work has run when the call returns") {
  host_ranks ranks(1);
  host_device d(ranks, r0);
  auto s = d.make_stream(0);
  std::array<float, 3> const from{1, 2, 3};
  std::array<float, 3> to{};
  d.copy(s, to.data(), from.data(), sizeof from);
  CHECK(to == from);
  region_pair const pair{{to.data(), 3, element_type::f32}, {to.data(), 3, element_type::f32}};
  d.accumulate(s, d.make_sums({&pair, 1}), {.factor = 2});
  CHECK(to == std::array<float, 3>{3, 6, 9});
}

TEST_CASE("host_device: events happen when recorded, in order of time") {
  host_ranks ranks(1);
  host_device d(ranks, r0);
  auto s = d.make_stream(0);
  auto first = d.make_event(), second = d.make_event();
  d.record(first, s);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  d.record(second, s);
  CHECK(d.query(second));
  CHECK(d.elapsed(first, second) >= std::chrono::milliseconds(2));
  CHECK(d.elapsed(second, first) == -d.elapsed(first, second));
}

TEST_CASE("host_device: wait() ends when other ranks finish or the run fails") {
  host_ranks ranks(1);
  host_device d(ranks, r0);
  auto s = d.make_stream(0);
  auto e = d.make_event();
  auto& count = e.expect(1);
  CHECK_FALSE(d.query(e));
  int made = 0;
  std::thread other([&] {
    made = 7;
    count.end_one();
    ranks.ring(r0);
  });
  d.wait(s, e);
  CHECK(made == 7);
  other.join();
  e.expect(1);
  ranks.publish({.code = failure_code::cancelled, .detail = "enough"});
  CHECK_THROWS_AS(d.wait(s, e), run_error);
  auto passed = d.make_event();
  CHECK_NOTHROW(d.wait(s, passed));
}

TEST_CASE("host_device: keeps all device_promises") {
  host_ranks ranks(1);
  host_device d(ranks, r0);
  CHECK(testing::device_promises(d).broken() == std::vector<std::string>{});
}
