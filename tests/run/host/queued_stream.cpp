// SPDX-License-Identifier: MIT
#include "support/queued/queued_stream.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "support/comes_true.hpp"
#include "support/queued_rank.hpp"

using namespace cleave;
using namespace cleave::testing;
using namespace std::chrono_literals;

TEST_CASE("queued_stream: no more work is queued than the limit allows") {
  std::atomic<bool> go = false;
  std::atomic<int> begun = 0;
  queued_rank r({.ahead = 3});
  auto s = r.d.make_stream(0);
  int issued = 0, most = 0;
  std::thread opener([&] {
    std::this_thread::sleep_for(20ms);
    go = true;
  });
  for (; issued < 50; ++issued) {
    s.call([&] {
      ++begun;
      comes_true(go);
    });
    most = std::max(most, issued + 1 - begun.load());
  }
  CHECK(most <= 4);  // three waiting tasks, and one that was taken but not counted yet
  opener.join();
}

TEST_CASE("queued_stream: an exception in work fails the run and names its pass") {
  queued_rank r;
  auto s = r.d.make_stream(0), other = r.d.make_stream(0);
  auto e = r.d.make_event();
  std::atomic<bool> after = false;
  s.about({stage_id{3}, microbatch_id{5}});
  s.call([] { throw std::runtime_error("no more gradients"); });
  s.about({stage_id{4}, microbatch_id{0}});
  s.call([&] { after = true; });
  r.d.record(e, s);
  r.d.wait(other, e);
  other.call([&] { after = true; });
  REQUIRE(comes_true([&] { return r.ranks.failed(); }));
  auto const f = *r.ranks.poll();
  CHECK(f.code == failure_code::stage);
  CHECK(f.at == stage_call{stage_id{3}, microbatch_id{5}});
  CHECK(f.reporter == rank_id{0});
  CHECK(f.culprit == rank_id{0});
  CHECK(f.detail == "no more gradients");
  CHECK_THROWS_AS(std::rethrow_exception(f.cause), std::runtime_error);
  r.d.close_streams();
  CHECK_FALSE(after);
  CHECK_FALSE(r.d.query(e));
}

TEST_CASE("queued_stream: an exception in work outside a pass is a device error") {
  queued_rank r;
  auto s = r.d.make_stream(0);
  s.call([] { throw 7; });
  REQUIRE(comes_true([&] { return r.ranks.failed(); }));
  CHECK(describe(*r.ranks.poll()) ==
        "rank 0: device error: an exception that does not derive from std::exception");
}

TEST_CASE("queued_stream: a failure of the run releases a thread that waits for room") {
  queued_rank r({.ahead = 1});
  auto s = r.d.make_stream(0);
  s.call([&] { comes_true([&] { return r.ranks.failed(); }); });
  std::thread breaker([&] {
    std::this_thread::sleep_for(10ms);
    r.ranks.publish({.code = failure_code::cancelled, .detail = "enough"});
  });
  CHECK_THROWS_AS(
      [&] {
        for (;;) s.call([] {});
      }(),
      run_error);
  breaker.join();
}

TEST_CASE("queued_stream: destruction completes all issued work") {
  std::atomic<int> done = 0;
  {
    queued_rank r({.longest_delay = 100us, .seed = 1});
    auto s = r.d.make_stream(0);
    for (int i = 0; i < 30; ++i) s.call([&] { ++done; });
    auto moved = std::move(s);
    moved.call([&] { ++done; });
  }
  CHECK(done == 31);
}

TEST_CASE("queued_stream: work that never ends is abandoned, and waiting work gives up") {
  auto const stuck = std::make_shared<std::atomic<bool>>(true);
  auto const after = std::make_shared<std::atomic<int>>(0);
  auto const begin = std::chrono::steady_clock::now();
  {
    queued_rank r({.drain_within = 50ms});
    auto s = r.d.make_stream(0), waiting = r.d.make_stream(0);
    auto e = r.d.make_event();
    s.call([stuck, after] {
      while (*stuck) std::this_thread::sleep_for(1ms);
      ++*after;
    });
    s.call([after] { *after += 10; });
    r.d.record(e, s);
    r.d.wait(waiting, e);
  }
  CHECK(std::chrono::steady_clock::now() - begin < 10s);
  *stuck = false;
  CHECK(comes_true([&] { return after->load() == 1; }));
  std::this_thread::sleep_for(20ms);
  CHECK(*after == 1);
  CHECK(comes_true([&] { return after.use_count() == 1; }));  // the tasks are destroyed
}

TEST_CASE("queued_stream: move assignment leaves both streams usable") {
  std::atomic<int> done = 0;
  {
    queued_rank r;
    auto s = r.d.make_stream(0);
    auto t = r.d.make_stream(0);
    s.call([&] { ++done; });
    s = std::move(t);
    s.call([&] { ++done; });
    t.call([&] { ++done; });
    CHECK(s.rank() == rank_id{0});
    CHECK(&s.ranks() == &r.ranks);
  }
  CHECK(done == 3);
}
