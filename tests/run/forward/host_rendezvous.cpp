// SPDX-License-Identifier: MIT
#include "cleave/run/forward/forward.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

using namespace cleave;

using namespace cleave::detail;
using namespace std::chrono_literals;

namespace {
failure by(std::uint32_t stage) {
  return {failure_code::stage, stage_call{stage_id{stage}, microbatch_id{0}}, std::to_string(stage)};
}
auto soon() { return std::chrono::steady_clock::now() + 5ms; }
}  // namespace

TEST_CASE("host_rendezvous: keeps the first failure") {
  host_rendezvous b(3);
  CHECK_FALSE(b.poll());
  CHECK_FALSE(b.wait_until(soon()));
  b.publish(by(2));
  b.publish(by(1));
  CHECK(b.poll()->detail == "2");
  CHECK(b.wait_until(soon()));
  b.wait();
}

TEST_CASE("host_rendezvous: one of many simultaneous failures wins, and all ranks read the same one") {
  host_rendezvous b(8);
  std::vector<std::string> read(8);
  std::vector<std::thread> ranks;
  for (std::uint32_t i = 0; i < 8; ++i)
    ranks.emplace_back([&, i] {
      b.publish(by(i));
      read[i] = b.poll()->detail;
      b.leave();
    });
  b.wait();
  auto const first = b.poll()->detail;
  for (auto& t : ranks) t.join();
  CHECK(read == std::vector<std::string>(8, first));
}

TEST_CASE("host_rendezvous: is over once every rank has left, and then takes no failure") {
  host_rendezvous b(2);
  b.leave();
  CHECK_FALSE(b.wait_until(soon()));
  std::thread last([&] { b.leave(); });
  b.wait();
  last.join();
  b.publish(by(0));
  CHECK_FALSE(b.poll());
}
