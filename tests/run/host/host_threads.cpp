// SPDX-License-Identifier: MIT
#include "cleave/run/host/host_threads.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/program/step_plan.hpp"
#include "cleave/run/threads/thread_pipeline.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "support/linear_chain.hpp"
#include "support/linear_engine.hpp"
#include "support/rng.hpp"

using namespace cleave;
using namespace cleave::testing;

namespace {

struct told_of_ranks {
  std::atomic<int> devices = 0, begun = 0, ended = 0;
};

/// Counts the calls to the backend.
struct counting_threads : host_threads {
  told_of_ranks* told;

  explicit counting_threads(told_of_ranks& t) : told(&t) {}
  device make_device(host_ranks& ranks, rank_id r) {
    ++told->devices;
    return host_threads::make_device(ranks, r);
  }
  void begin(device&) { ++told->begun; }
  void end(std::span<device> all) noexcept { told->ended += static_cast<int>(all.size()); }
};

}  // namespace

TEST_CASE("thread_pipeline: a backend makes one device per rank and is told of each start and the end") {
  rng random(4);
  auto const s = one_f_one_b(3, 4);
  linear_chain const c(s, random);
  step_plan const plan(s, c.t, linear_layouts(c.t, c.rows));
  told_of_ranks told;
  {
    std::vector<rank_id> asked;
    thread_pipeline<linear_engine, counting_threads> run(
        plan,
        [&](rank_id r, host_device&) {
          asked.push_back(r);
          return linear_engine(c.stages, {});
        },
        {}, counting_threads(told));
    run.run_step(c.values());
    run.run_step(c.values());
    CHECK(asked == std::vector{rank_id{0}, rank_id{1}, rank_id{2}});
    CHECK(told.devices == 3);
    CHECK(told.begun == 3);
    CHECK(told.ended == 0);
  }
  CHECK(told.ended == 3);
}

TEST_CASE("thread_pipeline: an exception while making stages leaves nothing behind") {
  rng random(5);
  auto const s = one_f_one_b(2, 2);
  linear_chain const c(s, random);
  step_plan const plan(s, c.t, linear_layouts(c.t, c.rows));
  told_of_ranks told;
  auto const refuse = [&](rank_id r, host_device&) {
    if (r == rank_id{1}) throw error("no stages for this rank");
    return linear_engine(c.stages, {});
  };
  CHECK_THROWS_WITH_AS(
      (thread_pipeline<linear_engine, counting_threads>(plan, refuse, {}, counting_threads(told))),
      "no stages for this rank", error);
  CHECK(told.begun == 0);
  CHECK(told.ended == 2);
}
