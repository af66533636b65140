// SPDX-License-Identifier: MIT
#include "cleave/run/rendezvous/activity_source.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

using namespace cleave;

using namespace cleave::detail;

namespace {

struct busy_with : activity_source {
  rank_activity what;
  rank_activity activity() const override { return what; }
};

struct broken_source : activity_source {
  rank_activity activity() const override { throw std::runtime_error("no memory"); }
};

/// Does not answer until allowed to; afterwards it must not be asked again.
struct slow_source : activity_source {
  std::atomic<bool>&asked, &may_say, &over;
  slow_source(std::atomic<bool>& a, std::atomic<bool>& m, std::atomic<bool>& o)
      : asked(a), may_say(m), over(o) {}
  rank_activity activity() const override {
    asked = true;
    while (!may_say) std::this_thread::yield();
    CHECK_FALSE(over);
    return {};
  }
};

}  // namespace

TEST_CASE("asked_source: the latest source answers; without one, or if it fails, there is no answer") {
  asked_source asked;
  CHECK_FALSE(asked.activity());
  busy_with a, b;
  a.what.operation = "recv F3 stage 1<-0";
  b.what.operation = "send B3 stage 1->0";
  asked.change_to(&a);
  CHECK(asked.activity() == a.what);
  asked.change_to(&b);
  CHECK(asked.activity() == b.what);
  broken_source const broken;
  asked.change_to(&broken);
  CHECK_FALSE(asked.activity());
  asked.change_to(&a);
  CHECK(asked.activity() == a.what);
  asked.change_to(nullptr);
  CHECK_FALSE(asked.activity());
}

TEST_CASE("asked_source: change_to() waits until the replaced source is no longer asked") {
  std::atomic<bool> is_asked = false, may_say = false, over = false;
  asked_source asked;
  slow_source const slow(is_asked, may_say, over);
  asked.change_to(&slow);
  std::thread rendezvous([&] { asked.activity(); });
  while (!is_asked) std::this_thread::yield();
  std::thread changes([&] {
    asked.change_to(nullptr);
    over = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // gives an error time to show
  may_say = true;
  changes.join();
  rendezvous.join();
  CHECK_FALSE(asked.activity());
}
