// SPDX-License-Identifier: MIT
#include "cleave/run.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "cleave/schedule.hpp"
#include "support/allocation_faults.hpp"
#include "support/linear_step.hpp"

using namespace cleave;
using testing::check_each_failure;

namespace {

/// A chain of three stages on strings, whose values do not fit into a string object.
struct string_stages {
  dataflow links{3,
                 {{the_caller, 0, stage_id{0}, 0},
                  {stage_id{0}, 0, stage_id{1}, 0},
                  {stage_id{0}, 0, stage_id{2}, 1},
                  {stage_id{1}, 0, stage_id{2}, 0},
                  {stage_id{2}, 0, the_caller, 0}}};
  static std::vector<std::string> stage(microbatch_id, std::span<std::string> in) {
    std::string made = "a value that is longer than";
    for (auto const& s : in) made += " " + s;
    return {made};
  }
};

}  // namespace

TEST_CASE("run_forward: each allocation that fails is told, on whatever thread") {
  string_stages const s;
  std::vector stages(3, &string_stages::stage);
  std::vector<std::vector<std::string>> const given = {{"the first"}, {"the second"}, {"the third"}};
  check_each_failure([&] { return run_forward<std::string>(stages, s.links, given).results; });
}

TEST_CASE("run_forward: a failure whose text has no memory is told all the same") {
  string_stages const s;
  auto const fails = [](microbatch_id, std::span<std::string>) -> std::vector<std::string> {
    testing::allocation_faults::fail_at(1, testing::allocation_faults::exhaustion::lasting);
    throw 1;
  };
  std::vector stages(3, +fails);
  bool told = false;
  try {
    run_forward<std::string>(stages, s.links, {{"x"}});
  } catch (...) {
    testing::allocation_faults::stop();
    told = true;
  }
  CHECK(told);
}

TEST_CASE("thread_pipeline: each allocation that fails is told, on whatever thread") {
  for (auto const& order : {one_f_one_b(2, 3), zbv(2, 4)}) {
    auto const links = testing::with_skips(order.place.stages());
    check_each_failure(
        [&] { return testing::run_linear_step<testing::linear_engine>(order, links).numbers; });
  }
}

TEST_CASE("thread_pipeline: a plan that could not be added can be added again") {
  auto const order = connect_stages(one_f_one_b(2, 3), testing::with_skips(2));
  auto const links = testing::with_skips(2);
  step_plan const plan(order, links, testing::linear_layouts(links, {1, 2, 1}), program_options{});
  std::vector<testing::linear_stage> const model{{1, 0}, {2, 1}};
  std::vector<testing::linear_engine> engines(2,
                                              testing::linear_engine(model, testing::nothing_to_prepare()));
  thread_pipeline<testing::linear_engine> run(plan, engines);
  std::size_t plans = 1;
  using faults = testing::allocation_faults;
  bool ended = false;
  for (std::int64_t n = 1; !ended; ++n) {
    faults::fail_at(n, faults::exhaustion::once);
    bool added = false;
    try {
      added = run.add_plan(plan) == plans;
      faults::stop();
      ++plans;
    } catch (...) {
      faults::stop();
      CHECK(testing::tells_of_no_memory(std::current_exception()));
    }
    ended = !faults::fired;
    CHECK((!ended || added));
  }
  CHECK(run.add_plan(plan) == plans);
  CHECK(run.program(rank_id{1}, plans).instructions.size() == run.program(rank_id{1}).instructions.size());
}
