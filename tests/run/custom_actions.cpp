// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/threads/thread_pipeline.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "support/linear_engine.hpp"
#include "support/linear_step.hpp"

/// Actions that stages carry out themselves (`call_options::custom`).
using namespace cleave;
using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using stream = host_device::stream;

/// Carries out each part by the matching member, the last part first.
struct own_actions : linear_engine {
  using linear_engine::linear_engine;

  std::vector<action> done{};
  std::size_t most_parts = 0;
  bool throws = false;

  void custom(stream& s, action const& a, std::span<custom_part const> parts) {
    if (throws) throw std::out_of_range("no such row");
    done.push_back(a);
    most_parts = std::max(most_parts, parts.size());
    for (std::size_t i = parts.size(); i-- > 0;) carry_out(s, parts[i]);
  }

 private:
  void carry_out(stream& s, custom_part const& p) {
    CHECK(p.pass.stage == p.what.stage);
    if (has_microbatch(p.what.kind)) CHECK(p.pass.microbatch == p.what.microbatch);
    switch (p.what.kind) {
      case action_kind::forward:
        return forward(s, p.pass, p.in, p.out);
      case action_kind::backward:
        return backward(s, p.pass, p.in, p.out);
      case action_kind::input_gradient:
        return backward_input(s, p.pass, p.in, p.out);
      case action_kind::weight_gradient:
        return backward_weight(s, p.pass);
      case action_kind::recompute:
        return recompute(s, p.pass, p.in);
      case action_kind::offload:
        return offload(s, p.pass);
      case action_kind::reload:
        return reload(s, p.pass);
      default:
        CHECK(p.in.size() + p.out.size() == 0);
    }
  }
};

made_by_step<own_actions> run_step(schedule const& order, std::vector<action_kind> custom) {
  return run_linear_step<own_actions>(order, with_skips(order.place.stages()), std::move(custom));
}

std::size_t count_of(schedule const& s, rank_id r, action_kind k) {
  return static_cast<std::size_t>(std::ranges::count(s.ranks[index(r)], k, &action::kind));
}

/// Forward passes of two stages on one rank, as one compound.
schedule chained_parts() {
  schedule s{loop_placement(1, 2), 1, {{}}};
  auto const pass = [](std::uint32_t of) {
    return action{action_kind::forward, 0, stage_id{of}, microbatch_id{0}, no_stage};
  };
  s.ranks[0] = {{action_kind::overlap, 2, no_stage, no_microbatch, no_stage}, pass(0), pass(1)};
  return s;
}

/// Stages 0 and 1 on two ranks, one microbatch, each on a number; gradients are summed across replicas.
struct small_plan {
  dataflow t = with_skips(2);
  double number = 3;
  tensor_view input{&number, element_type::f64, {1}};
  step_plan plan;

  explicit small_plan(std::vector<action_kind> custom, schedule const& order = gpipe(2, 1))
      : plan(order, t, linear_layouts(t, {1}), options_of(std::move(custom))) {}
  static program_options options_of(std::vector<action_kind> custom) {
    program_options o;
    o.calls.custom = std::move(custom);
    return o;
  }
  template <class S>
  std::vector<S> stages(std::size_t ranks) const {
    return std::vector<S>(ranks, S({{1, 2}, {3, 4}}, nothing_to_prepare()));
  }
};

}  // namespace

TEST_CASE("call_options::custom: passes that stages carry out themselves give the results of plain passes") {
  using enum action_kind;
  for (auto const& order : {one_f_one_b(2, 4), gpipe(3, 2), interleaved_1f1b(2, 2, 4), zbv(2, 4)}) {
    auto const plain = run_step(order, {});
    for (std::vector<action_kind> const& custom :
         {std::vector{backward},
          {action_kind::forward},
          {input_gradient},
          {weight_gradient},
          {action_kind::forward, backward, input_gradient, weight_gradient}}) {
      auto const own = run_step(order, custom);
      CHECK(own.numbers == plain.numbers);
      for (std::uint32_t r = 0; r < order.place.ranks; ++r) {
        std::size_t asked = 0;
        for (auto const k : custom) asked += count_of(order, rank_id{r}, k);
        CHECK(own.stages[r].done.size() == asked);
        CHECK(plain.stages[r].done.empty());
      }
    }
  }
}

TEST_CASE("call_options::custom: a compound action comes with all of its parts") {
  auto const order = dual_pipe_v(2, 6);
  auto const plain = run_step(order, {}), own = run_step(order, {action_kind::overlap});
  CHECK(own.numbers == plain.numbers);
  for (std::uint32_t r = 0; r < 2; ++r) {
    CHECK(own.stages[r].done.size() == count_of(order, rank_id{r}, action_kind::overlap));
    CHECK(own.stages[r].most_parts == 2);
  }
}

TEST_CASE("call_options::custom: rejects stages without custom() before anything runs") {
  small_plan const x({action_kind::backward});
  CHECK_THROWS_WITH_AS(thread_pipeline<linear_engine>(x.plan, x.stages<linear_engine>(2)),
                       "program: rank 0, custom 0B0 needs stages with custom(stream, action, parts)",
                       program_need_error);
  thread_pipeline<own_actions> run(x.plan, x.stages<own_actions>(2));
  run.run_step({{&x.input, 1}, 1, {}});
}

TEST_CASE("call_options::custom: an error about a compound names its parts") {
  auto order = chained_parts();
  order.microbatches = 2;
  order.ranks[0][2] = {action_kind::backward, 0, stage_id{1}, microbatch_id{1}, no_stage};
  rank_program p;
  p.rank = rank_id{1};
  for (auto const& call :
       rank_calls(order, rank_id{0}, {.loss = loss_source::caller, .custom = {action_kind::overlap}}))
    p.instructions.push_back({call});
  CHECK_THROWS_WITH_AS(
      (require_abilities<linear_engine, host_device>(p)),
      "program: rank 1, custom (0F0;1B1)OVERLAP_F_B needs stages with custom(stream, action, parts)",
      program_need_error);
}

TEST_CASE("call_options::custom: rejects a compound in which one pass needs another") {
  CHECK_NOTHROW(small_plan({}, chained_parts()));
  CHECK_THROWS_WITH_AS(small_plan({action_kind::overlap}, chained_parts()),
                       "program: rank 0 has a custom compound with passes of stage 0 and stage 1, one of "
                       "which depends on the other; put them into separate cells",
                       program_error);
}

TEST_CASE("call_options::custom: rejects an action kind that stages cannot carry out") {
  CHECK_THROWS_AS((void)make_rank_programs(small_plan({action_kind::send_activation}).plan), call_error);
}

TEST_CASE("call_options::custom: an exception in custom() is reported with its stage and microbatch") {
  small_plan const x({action_kind::backward});
  auto stages = x.stages<own_actions>(2);
  stages[1].throws = true;
  thread_pipeline<own_actions> run(x.plan, std::move(stages));
  CHECK_THROWS_WITH_AS(run.run_step({{&x.input, 1}, 1, {}}),
                       "rank 1, custom, stage 1, microbatch 0: no such row", stage_error);
}

TEST_CASE(
    "call_options::custom: replica sums made by stages run once, and not in steps that keep gradients") {
  small_plan const plain({}), own({action_kind::reduce_gradient});
  auto const gradients_after = [&](small_plan const& x, gradient_end end) {
    thread_pipeline<own_actions> run(x.plan, x.stages<own_actions>(4), {.replicas = 2});
    std::vector<step_values> const values(2,
                                          {.inputs = {&x.input, 1}, .inputs_of_each = 1, .gradients = end});
    run.run_step(values);
    std::size_t asked = 0;
    for (std::uint32_t r = 0; r < 4; ++r) asked += run.stages_of(rank_id{r}).done.size();
    return std::pair(run.stages_of(rank_id{0}).gradient(stage_id{0}).b, asked);
  };
  auto const [once, none] = gradients_after(plain, gradient_end::kept);
  CHECK(none == 0);
  CHECK(gradients_after(plain, gradient_end::reduced) == std::pair(2 * once, std::size_t{0}));
  CHECK(gradients_after(own, gradient_end::reduced) == std::pair(once, std::size_t{4}));
  CHECK(gradients_after(own, gradient_end::kept) == std::pair(once, std::size_t{0}));
}
