// SPDX-License-Identifier: MIT
#include "cleave/run/threads/thread_pipeline.hpp"
#include "cleave/run/program/make_rank_program.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/schedule/list/list_schedule.hpp"
#include "cleave/schedule/lower/reduce_ties.hpp"
#include "cleave/schedule/memory/limit_saved_activations.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "support/cases.hpp"
#include "support/linear_chain.hpp"
#include "support/linear_engine.hpp"
#include "support/random_dataflow.hpp"
#include "support/random_schedule.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

linear_model random_linear_model(rng& random) {
  auto t = random_dataflow(random, static_cast<std::uint32_t>(1 + random.below(6)));
  return {std::move(t), random_rows(1 + random.below(4), random), 3, random};
}

template <class S>
void check_step(linear_model const& c, step_plan const& p, thread_pipeline<S>& run, double steps = 1) {
  auto const values = c.values();
  linear_twin const twin(c.t, c.stages, values, c.rows);
  for (std::uint32_t m = 0; m < c.rows.size(); ++m)
    for (auto const& [number, wanted] : twin.results[m]) {
      bool from_caller = false;
      for (auto const& e : c.t.edges)
        from_caller |= e.to == the_caller && e.input == number && e.from == the_caller;
      if (from_caller) continue;
      auto const got = run.result(microbatch_id{m}, number);
      REQUIRE(got);
      auto const* numbers = static_cast<double const*>(got->data);
      CHECK(std::vector<double>(numbers, numbers + got->elements().count) == wanted);
    }
  for (std::uint32_t s = 0; s < c.t.stages; ++s) {
    auto const g = run.stages_of(p.rank_of(stage_id{s})).gradient(stage_id{s});
    CHECK(g == linear_gradient{steps * twin.gradients[s].w, steps * twin.gradients[s].b});
  }
}

std::vector<linear_engine> engines_of(linear_model const& c, std::size_t ranks) {
  std::vector<linear_engine> made;
  while (made.size() < ranks) made.emplace_back(c.stages, nothing_to_prepare{});
  return made;
}

/// Returns buckets of some of the two gradients of stages 0 to 3.
std::vector<gradient_bucket> random_buckets(rng& random) {
  std::vector<gradient_bucket> made;
  for (std::uint32_t const s : {2u, 0u, 3u, 1u}) {
    auto const first = static_cast<std::uint32_t>(random.below(2));
    if (random.one_in(3))
      made.push_back({stage_id{s}, {first, 1 - first}});
    else if (random.one_in(2))
      made.push_back({stage_id{s}, {first}});
  }
  random.shuffle(made);
  return made;
}

lower_options random_lowering(rng& random) {
  return {.messages = random.one_in(2) ? message_order::timed : message_order::rounds,
          .receives = random.one_in(2) ? receive_time::at_once : receive_time::deferred,
          .reductions = random.one_in(2) ? reduction_wait::at_once : reduction_wait::deferred,
          .grouping = random.one_in(2) ? message_grouping::none : message_grouping::adjacent};
}

}  // namespace

TEST_CASE("thread_pipeline: every schedule family trains correctly under random lowering") {
  rng random(2);
  for (std::size_t f = 0; f < schedule_names.size(); ++f) {
    auto const family = static_cast<schedule_family>(f);
    auto const s = family_schedule(family, 4, 8);
    for (std::size_t i = 0; i < cases(1, 3); ++i) {
      linear_chain const c(s, random);
      auto const lowering = random_lowering(random);
      CAPTURE(name_of(family));
      program_options const options{.lowering = lowering};
      step_plan const p(s, c.t, linear_layouts(c.t, c.rows), options);
      thread_pipeline<linear_engine> run(p, engines_of(c, 4),
                                         {.watchdog = {.limit = std::chrono::seconds(20)}});
      run.run_step(c.values());
      check_step(c, p, run, passes_of(s) == expected_passes::forward_alone ? 0 : 1);
    }
  }
}

TEST_CASE("thread_pipeline: sums gradients over replicas and ties, and all copies become equal") {
  rng random(3);
  for (std::size_t i = 0; i < cases(14, 40); ++i) {
    CAPTURE(i);
    auto const s =
        family_schedule(random.one_in(2) ? schedule_family::interleaved_1f1b : schedule_family::zbv, 2, 4);
    auto const replicas = static_cast<std::uint32_t>(1 + random.below(3));
    linear_chain const first(s, random);
    std::vector<step_values> const values(replicas, first.values());
    // The w of stages 0, 1 and 3, and the b of stages 1 and 2.
    std::vector<tied_gradients> const ties{{{stage_id{0}, 0}, {stage_id{1}, 0}, {stage_id{3}, 0}},
                                           {{stage_id{1}, 1}, {stage_id{2}, 1}}};
    std::vector<tied_stages> const stages{{{stage_id{0}, stage_id{1}, stage_id{3}}},
                                          {{stage_id{1}, stage_id{2}}}};
    auto const order = random.one_in(2) ? lower(s) : reduce_ties(lower(s), stages);
    step_plan const p(order, first.t, linear_layouts(first.t, first.rows));
    thread_pipeline<linear_engine> run(p, engines_of(first, 2 * replicas),
                                       {.replicas = replicas,
                                        .ties = ties,
                                        .buckets = random_buckets(random),
                                        .bucket_bytes = 8 * random.below(4)});
    for (std::uint32_t r = 0; r < run.ranks(); ++r)  // replicas may differ
      run.stages_of(rank_id{r}).report(random.one_in(2), random.one_in(2), random.one_in(2));
    run.run_step(values);

    linear_twin const twin(first.t, first.stages, values[0], first.rows);
    auto wanted = twin.gradients;
    for (auto& g : wanted) g = {g.w * replicas, g.b * replicas};
    auto const w = wanted[0].w + wanted[1].w + wanted[3].w, b = wanted[1].b + wanted[2].b;
    wanted[0].w = wanted[1].w = wanted[3].w = w;
    wanted[1].b = wanted[2].b = b;
    for (std::uint32_t d = 0; d < replicas; ++d)
      for (std::uint32_t n = 0; n < 4; ++n) {
        auto const rank = rank_id{2 * d + index(p.rank_of(stage_id{n}))};
        CHECK(run.stages_of(rank).gradient(stage_id{n}) == wanted[n]);
      }
  }
}

TEST_CASE("thread_pipeline: rejects ties of stages or gradients that do not exist") {
  rng random(6);
  auto const s = family_schedule(schedule_family::one_f_one_b, 2, 4);
  linear_chain const c(s, random);
  step_plan const p(s, c.t, linear_layouts(c.t, c.rows));
  auto const train = [&](tied_gradients tie) {
    thread_pipeline<linear_engine>(p, engines_of(c, 2), {.ties = {std::move(tie)}});
  };
  CHECK_NOTHROW(train({{stage_id{0}, 1}, {stage_id{1}, 1}}));
  CHECK_THROWS_AS(train({{stage_id{0}, 1}, {stage_id{2}, 1}}), tie_stage_error);
  CHECK_THROWS_AS(train({{stage_id{0}, 1}, {stage_id{1}, 2}}), tie_gradient_error);
}

TEST_CASE("thread_pipeline: rejects buckets of stages or gradients that do not exist") {
  rng random(8);
  auto const s = family_schedule(schedule_family::interleaved_1f1b, 2, 4);
  linear_chain const c(s, random);
  step_plan const p(lower(s), c.t, linear_layouts(c.t, c.rows));
  auto const run_with = [&](std::vector<gradient_bucket> buckets, std::uint32_t replicas = 2) {
    thread_pipeline<linear_engine>(p, engines_of(c, 2 * replicas),
                                   {.replicas = replicas, .buckets = std::move(buckets)});
  };
  CHECK_NOTHROW(run_with({{stage_id{3}, {0}}, {stage_id{3}, {1}}}));
  CHECK_THROWS_WITH_AS(run_with({{stage_id{1}, {0}}, {stage_id{4}, {0}}}),
                       "buckets: bucket #1 is of stage 4, but there are 4 stages, numbered from 0",
                       bucket_error);
  CHECK_THROWS_AS(run_with({{stage_id{4}, {0}}}, 1), bucket_error);
  CHECK_THROWS_WITH_AS(
      run_with({{stage_id{1}, {1, 2}}}),
      "buckets: bucket #0 has gradient #2 of stage 1, which has 2 gradients, numbered from 0", bucket_error);
  CHECK_THROWS_WITH_AS(run_with({{stage_id{1}, {1}}, {stage_id{1}, {0, 1}}}),
                       "buckets: bucket #1 has gradient #1 of stage 1 a second time; list it once",
                       bucket_error);
}

TEST_CASE("thread_pipeline: each replica has its own values and results, and the summed gradients") {
  rng random(5);
  auto const s = family_schedule(schedule_family::one_f_one_b, 2, 4);
  linear_chain const first(s, random);
  auto second = first;
  for (std::size_t i = 0; i < second.numbers.size(); ++i) {
    for (auto& x : second.numbers[i]) x += 1 + static_cast<double>(i);
    second.inputs[i].data = second.numbers[i].data();
  }
  step_plan const p(s, first.t, linear_layouts(first.t, first.rows));
  thread_pipeline<linear_engine> run(p, engines_of(first, 4), {.replicas = 2});
  std::vector<step_values> const values{first.values(), second.values()};
  auto lacking = second.inputs;
  for (auto& v : lacking) v.data = nullptr;
  std::vector<step_values> const wrong{first.values(), {lacking, 1, {}}};
  CHECK_THROWS_AS(run.run_step(wrong), step_value_error);
  run.run_step(values);

  linear_twin const a(first.t, first.stages, values[0], first.rows);
  linear_twin const b(second.t, second.stages, values[1], second.rows);
  for (std::uint32_t d = 0; d < 2; ++d) {
    auto const& twin = d == 0 ? a : b;
    for (std::uint32_t m = 0; m < 4; ++m)
      for (auto const& [number, wanted] : twin.results[m])
        CHECK(*static_cast<double const*>(run.result(microbatch_id{m}, number, d)->data) == wanted[0]);
    for (std::uint32_t n = 0; n < 2; ++n)
      CHECK(run.stages_of(rank_id{2 * d + n}).gradient(stage_id{n}) ==
            linear_gradient{a.gradients[n].w + b.gradients[n].w, a.gradients[n].b + b.gradients[n].b});
  }
}

TEST_CASE("thread_pipeline: offloading or recomputing activations changes no result") {
  rng random(4);
  for (auto const relief : {saved_relief::offload, saved_relief::recompute}) {
    auto const s = family_schedule(schedule_family::gpipe, 3, 6);
    linear_chain const c(s, random);
    auto const limited = limit_saved_activations(lower(s), {.memory_limit = {2}, .relief = {relief}});
    step_plan const p(limited, c.t, linear_layouts(c.t, c.rows));
    CHECK(count_actions(limited) > count_actions(lower(s)));
    thread_pipeline<linear_engine> run(p, engines_of(c, 3));
    run.run_step(c.values());
    check_step(c, p, run);
  }
}

TEST_CASE("thread_pipeline: any schedule of any stages matches sequential execution") {
  rng random(1);
  for (std::size_t i = 0; i < cases(100, 300); ++i) {
    CAPTURE(i);
    auto const c = random_linear_model(random);
    auto const ranks = static_cast<std::uint32_t>(1 + random.below(4));
    std::vector<rank_id> rank_of;
    for (std::uint32_t s = 0; s < c.t.stages; ++s)
      rank_of.push_back(rank_id{static_cast<std::uint32_t>(random.below(ranks))});
    auto const s =
        list_schedule(placement_of(c.t, ranks, rank_of), static_cast<std::uint32_t>(c.rows.size()),
                      {.backward = random.one_in(2) ? backward_form::split : backward_form::whole});
    step_plan const p(s, c.t, linear_layouts(c.t, c.rows));
    thread_pipeline<linear_engine> run(p, engines_of(c, ranks));
    run.run_step(c.values());
    check_step(c, p, run);
    run.run_step(c.values());
    check_step(c, p, run, 2);
  }
}
