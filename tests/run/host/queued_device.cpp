// SPDX-License-Identifier: MIT
#include "support/queued/queued_device.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/comes_true.hpp"
#include "support/device_promises.hpp"
#include "support/queued_rank.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;
using namespace std::chrono_literals;

TEST_CASE("queued_device: runs work in order of issue, asynchronously to the issuing thread") {
  queued_rank r;
  auto s = r.d.make_stream(0);
  auto e = r.d.make_event();
  CHECK(r.d.query(e));
  std::atomic<bool> go = false;
  std::vector<int> done;
  s.call([&] { comes_true(go); });
  for (int i = 0; i < 100; ++i) s.call([&done, i] { done.push_back(i); });
  r.d.record(e, s);
  CHECK_FALSE(r.d.query(e));
  go = true;
  REQUIRE(comes_true([&] { return r.d.query(e); }));
  REQUIRE(done.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(done[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("queued_device: a wait refers to the event as recorded when the wait was issued") {
  queued_rank r;
  auto first = r.d.make_stream(0), second = r.d.make_stream(1);
  auto e = r.d.make_event(), end = r.d.make_event();
  std::atomic<bool> one = false, two = false;
  std::atomic<int> seen = 0;
  first.call([&] { comes_true(one); });
  r.d.record(e, first);
  r.d.wait(second, e);
  second.call([&] { seen = 1; });
  r.d.record(end, second);
  first.call([&] { comes_true(two); });
  r.d.record(e, first);  // again, which does not affect the wait
  CHECK(seen == 0);
  one = true;
  CHECK(comes_true([&] { return r.d.query(end); }));
  CHECK(seen == 1);
  CHECK_FALSE(r.d.query(e));
  two = true;
  CHECK(comes_true([&] { return r.d.query(e); }));
  CHECK(r.d.elapsed(end, e).count() >= 0);
}

TEST_CASE("queued_device: random work on random streams respects its waits under any delay") {
  rng random(31);
  for (int round = 0; round < 6; ++round) {
    queued_rank r({.ahead = 1 + random.below(20), .longest_delay = 30us, .seed = random.next()});
    constexpr std::size_t cells = 6, count = 64;
    auto memory = r.d.allocate(cells * count * sizeof(float));
    auto* const numbers = static_cast<float*>(memory.data());
    for (std::size_t i = 0; i < cells * count; ++i) numbers[i] = static_cast<float>(i % 7);
    std::vector<float> twin(numbers, numbers + cells * count);
    std::vector<queued_stream> streams;
    for (int i = 0; i < 3; ++i) streams.push_back(r.d.make_stream(i));
    std::vector<queued_event> last(cells);  // for each cell, its last use
    std::vector<std::unique_ptr<host_memory::sums>> sums;
    for (int step = 0; step < 60; ++step) {
      auto& s = streams[random.below(3)];
      std::size_t const from = random.below(cells), to = (from + 1 + random.below(cells - 1)) % cells;
      for (auto const c : {from, to}) r.d.wait(s, last[c]);
      auto* const x = numbers + from * count;
      auto* const y = numbers + to * count;
      if (random.one_in(2)) {
        r.d.copy(s, y, x, count * sizeof(float));
        std::copy_n(twin.data() + from * count, count, twin.data() + to * count);
      } else {
        region_pair const p{{x, count, element_type::f32}, {y, count, element_type::f32}};
        sums.push_back(std::make_unique<host_memory::sums>(r.d.make_sums(std::span(&p, 1))));
        r.d.accumulate(s, *sums.back(), {.factor = 0.5});
        for (std::size_t k = 0; k < count; ++k) twin[to * count + k] += 0.5f * twin[from * count + k];
      }
      for (auto const c : {from, to}) r.d.record(last[c], s);
    }
    for (auto const& e : last) REQUIRE(comes_true([&] { return r.d.query(e); }));
    CHECK(std::vector<float>(numbers, numbers + cells * count) == twin);
  }
}

TEST_CASE("queued_device: keeps all device_promises, with and without delays") {
  for (auto const late : {0us, 200us}) {
    queued_rank r({.ahead = 20, .longest_delay = late, .seed = 3});
    CHECK(device_promises(r.d).broken() == std::vector<std::string>{});
  }
}

namespace {

/// A device that does not accumulate.
struct forgetful_device : queued_device {
  using queued_device::queued_device;
  static void accumulate(stream&, sums const&, accumulate_options const&) {}
};

}  // namespace

TEST_CASE("device_promises: detects a device that does not accumulate") {
  host_ranks ranks(1);
  forgetful_device d(ranks, rank_id{0}, {});
  CHECK(device_promises(d).broken().size() == 2);
}
