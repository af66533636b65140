// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/program/program_agreement.hpp"
#include "cleave/run/threads/thread_pipeline.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "support/linear_engine.hpp"

/// The scale of losses (`call_options::scale`).
using namespace cleave;
using namespace cleave::detail;
using namespace cleave::testing;

namespace {

dataflow chain(std::uint32_t stages) {
  dataflow t{.stages = stages, .edges = {{the_caller, 0, stage_id{0}, 0}}};
  for (std::uint32_t s = 1; s < stages; ++s) t.edges.push_back({stage_id{s - 1}, 0, stage_id{s}, 0});
  t.edges.push_back({stage_id{stages - 1}, 0, the_caller, 0});
  return t;
}

struct chain_run {
  schedule order;
  dataflow t = chain(order.place.stages());
  std::vector<std::int64_t> rows;
  std::vector<linear_stage> model;
  std::vector<std::vector<double>> numbers;
  std::vector<tensor_view> inputs;

  explicit chain_run(schedule s) : order(std::move(s)), rows(order.microbatches, 1) {
    for (std::uint32_t i = 0; i < t.stages; ++i) model.push_back({2. + i, 1. * i});
    for (std::uint32_t m = 0; m < order.microbatches; ++m) numbers.push_back({m + 1.});
    for (auto& n : numbers) inputs.push_back({n.data(), element_type::f64, {1}});
  }

  step_plan plan(gradient_scale scale) const {
    program_options options;
    options.calls.scale = scale;
    return {order, t, linear_layouts(t, rows), options};
  }

  std::vector<linear_gradient> gradients(gradient_scale scale, std::vector<double> const& weights) const {
    thread_pipeline<linear_engine> run(
        plan(scale), std::vector<linear_engine>(order.place.ranks, {model, nothing_to_prepare()}));
    run.run_step({inputs, 1, weights});
    std::vector<linear_gradient> all;
    for (std::uint32_t s = 0; s < t.stages; ++s)
      all.push_back(run.stages_of(order.place.rank_of[s]).gradient(stage_id{s}));
    return all;
  }
};

}  // namespace

TEST_CASE("gradient_scale::by_microbatches: equals weights of 1 / microbatches given by hand") {
  for (auto const& order : {one_f_one_b(2, 4), gpipe(3, 3), interleaved_1f1b(2, 2, 6), zbv(2, 4)}) {
    chain_run const x(order);
    std::vector<double> const by_hand(order.microbatches, 1. / order.microbatches);
    auto const scaled = x.gradients(gradient_scale::by_microbatches, {});
    CHECK(scaled == x.gradients(gradient_scale::none, by_hand));
    CHECK(scaled != x.gradients(gradient_scale::none, {}));
    if (order.microbatches == 4)
      CHECK(scaled == linear_twin(x.t, x.model, {x.inputs, 1, by_hand}, x.rows).gradients);
  }
}

TEST_CASE("gradient_scale: defaults to none, so each loss counts once") {
  chain_run const x(one_f_one_b(2, 4));
  CHECK(call_options{}.scale == gradient_scale::none);
  CHECK(program_options{}.calls.scale == gradient_scale::none);
  CHECK(x.gradients(program_options{}.calls.scale, {}) ==
        linear_twin(x.t, x.model, {x.inputs, 1, {}}, x.rows).gradients);
}

TEST_CASE("gradient_scale::by_microbatches: rejects weights before the step begins") {
  chain_run const x(one_f_one_b(2, 4));
  CHECK_THROWS_WITH_AS(
      (void)x.gradients(gradient_scale::by_microbatches, {1, 1, 1, 1}),
      "step: weights are given, but the plan already scales each loss by 1/4 "
      "(gradient_scale::by_microbatches); give none, or make the plan with gradient_scale::none",
      step_value_error);
}

TEST_CASE("difference_of: reports ranks with different gradient scales") {
  chain_run const x(one_f_one_b(2, 4));
  auto const none = x.plan(gradient_scale::none).digest(),
             scaled = x.plan(gradient_scale::by_microbatches).digest();
  CHECK(difference_of(scaled, rank_id{1}, none, rank_id{0}) ==
        "rank 1 has other options of calls (call_options) than rank 0; give all ranks the same");
}
