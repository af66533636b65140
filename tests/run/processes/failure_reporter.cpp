// SPDX-License-Identifier: MIT
#include "cleave/run/processes/process_pipeline.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

using namespace cleave;

using namespace cleave::detail;

namespace {

constexpr stage_call here{stage_id{2}, microbatch_id{5}};

/// The activity that a rank reports.
struct said_activity : activity_source {
  rank_activity what;

  rank_activity activity() const override { return what; }
};

rank_activity receiving() {
  rank_activity a;
  a.at = here;
  a.operation = "recv F5 stage 1->2";
  return a;
}

/// Runs `f` with the reporter of rank 1; returns the failure that each rank then knows.
std::pair<std::optional<failure>, std::optional<failure>> told_by_rank_1(
    rank_activity const& doing, std::function<void(failure_reporter&)> const& f) {
  tcp_rendezvous_options options{.key = "a key that both of them know"};
  options.join_within = std::chrono::seconds(20);
  options.leave_within = std::chrono::seconds(5);
  tcp_listener listener;
  auto const at = listener.address();
  std::pair<std::optional<failure>, std::optional<failure>> known;
  std::thread other([&] {
    tcp_rendezvous b(std::move(listener), 2, options);
    b.wait_until(std::chrono::steady_clock::now() + std::chrono::seconds(20));
    known.first = b.poll();
  });
  {
    tcp_rendezvous b(rank_id{1}, 2, at, options);
    said_activity source;
    source.what = doing;
    failure_reporter reporter(b, source);
    f(reporter);
    known.second = reporter.poll();
  }
  other.join();
  return known;
}

template <class E>
void publish_thrown(failure_reporter& t, E const& thrown) {
  try {
    throw thrown;
  } catch (...) {
    t.publish_current();
  }
}

}  // namespace

TEST_CASE("failure_reporter: blames the rank that fails at a stage and tells all ranks its operation") {
  auto const [first, second] = told_by_rank_1(receiving(), [](failure_reporter& t) {
    t.publish({.code = failure_code::stage, .at = here, .detail = "out of memory"});
  });
  REQUIRE(first);
  REQUIRE(second);
  CHECK(describe(*first) == "rank 1, recv F5 stage 1->2, stage 2, microbatch 5: out of memory");
  CHECK(describe(*second) == describe(*first));
  CHECK(first->culprit == rank_id{1});
}

TEST_CASE("failure_reporter: keeps another rank's report unchanged") {
  auto const [first, second] = told_by_rank_1(receiving(), [](failure_reporter& t) {
    t.publish({.code = failure_code::peer_lost,
               .at = stage_call{stage_id{0}, microbatch_id{0}},
               .detail = "gone",
               .reporter = rank_id{0},
               .culprit = rank_id{1},
               .operation = "send F0 stage 0->1"});
  });
  REQUIRE(first);
  CHECK(describe(*first) ==
        "rank 0, send F0 stage 0->1, stage 0, microbatch 0, caused by rank 1: peer lost: gone");
}

TEST_CASE("failure_reporter: a failure of an idle rank is reported as between steps") {
  auto const [first, second] = told_by_rank_1(
      {}, [](failure_reporter& t) { t.publish({.code = failure_code::cancelled, .detail = "enough"}); });
  REQUIRE(first);
  CHECK(describe(*first) == "rank 1, between steps: enough");
}

TEST_CASE("failure_reporter: keeps the first failure, and reports nothing without one") {
  auto const [first, second] = told_by_rank_1({}, [](failure_reporter& t) {
    CHECK_FALSE(t.poll());
    t.publish({.code = failure_code::cancelled, .detail = "the first"});
    t.publish({.code = failure_code::cancelled, .detail = "the second"});
  });
  REQUIRE(first);
  CHECK(first->detail == "the first");
  CHECK_FALSE(told_by_rank_1({}, [](failure_reporter&) {}).second);
}

TEST_CASE("failure_reporter: publish_current() reports any exception being handled") {
  auto const told = [](auto const& thrown) {
    auto const known = told_by_rank_1({}, [&](failure_reporter& t) { publish_thrown(t, thrown); });
    REQUIRE(known.first);
    return describe(*known.first);
  };
  CHECK(told(std::runtime_error("no such file")) == "rank 1, between steps: no such file");
  CHECK(told(7) == "rank 1, between steps: ");
  CHECK(told(run_error({.code = failure_code::device, .detail = "too hot"})) ==
        "rank 1, between steps: device error: too hot");
}
