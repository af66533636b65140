// SPDX-License-Identifier: MIT
#include "cleave/run/host/host_ranks.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

using namespace cleave;

namespace {

constexpr rank_id first{0}, second{1};

failure failure_saying(std::string words) {
  return {.code = failure_code::transport, .detail = std::move(words), .reporter = second};
}

}  // namespace

TEST_CASE("host_ranks: wait() returns once its condition holds and the rank was rung") {
  host_ranks ranks(2);
  CHECK(ranks.count() == 2);
  std::atomic<int> value = 0;
  std::thread other([&] {
    for (int i = 1; i <= 1000; ++i) {
      value.store(i);
      ranks.ring(first);
    }
  });
  for (int i = 1; i <= 1000; ++i) ranks.wait(first, [&] { return value.load() >= i; });
  CHECK(value == 1000);
  other.join();
}

TEST_CASE("host_ranks: two ranks that wait in turn never miss a ring") {
  host_ranks ranks(2);
  std::atomic<int> turn = 0;
  auto const play = [&](rank_id here, int parity) {
    for (int i = 0; i < 500; ++i) {
      ranks.wait(here, [&] { return turn.load() % 2 == parity; });
      ++turn;
      ranks.ring(here == first ? second : first);
    }
  };
  std::thread other([&] { play(second, 1); });
  play(first, 0);
  other.join();
  CHECK(turn == 1000);
}

TEST_CASE("host_ranks: a failure ends current and later waits") {
  host_ranks ranks(3);
  std::vector<std::string> heard(3);
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      try {
        ranks.wait(rank_id{r}, [] { return false; });
      } catch (run_error const& e) {
        heard[r] = e.info.detail;
      }
    });
  ranks.publish(failure_saying("the wire is cut"));
  for (auto& t : threads) t.join();
  try {
    ranks.wait(rank_id{2}, [] { return false; });
  } catch (run_error const& e) {
    heard[2] = e.info.detail;
  }
  CHECK(heard == std::vector<std::string>(3, "the wire is cut"));
}

TEST_CASE("host_ranks: wait() succeeds if its condition holds, even after a failure") {
  host_ranks ranks(1);
  ranks.publish(failure_saying("too late"));
  CHECK_NOTHROW(ranks.wait(first, [] { return true; }));
}

TEST_CASE("host_ranks: keeps the first failure") {
  host_ranks ranks(1);
  CHECK_FALSE(ranks.failed());
  CHECK_FALSE(ranks.poll());
  ranks.publish(failure_saying("one"));
  ranks.publish(failure_saying("two"));
  CHECK(ranks.failed());
  REQUIRE(ranks.poll());
  CHECK(ranks.poll()->detail == "one");
  CHECK(ranks.poll()->reporter == second);
}

TEST_CASE("host_ranks: all ranks read the same of several simultaneous failures") {
  for (int round = 0; round < 50; ++round) {
    host_ranks ranks(4);
    std::vector<std::string> read(4);
    std::vector<std::thread> threads;
    for (std::uint32_t r = 0; r < 4; ++r)
      threads.emplace_back([&, r] {
        ranks.publish(failure_saying(std::to_string(r)));
        read[r] = ranks.poll()->detail;
      });
    for (auto& t : threads) t.join();
    CHECK(read == std::vector<std::string>(4, read[0]));
  }
}
