// SPDX-License-Identifier: MIT
#include "cleave/run/program/step_plan.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "support/linear_engine.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

constexpr stage_id s0{0}, s1{1};
constexpr microbatch_id m0{0};

dataflow line_of_two() {
  return {.stages = 2, .edges = {{the_caller, 0, s0, 0}, {s0, 0, s1, 0}, {s1, 0, the_caller, 0}}};
}
schedule gpipe_on_two(std::uint32_t microbatches = 2) {
  return make_schedule(schedule_family::gpipe, {2, 1, microbatches});
}
run_layouts ones(dataflow const& t) { return linear_layouts(t, {1, 1}); }

/// Both ranks send before they receive: a deadlock if a send waits for its receive.
schedule crossed() {
  using enum action_kind;
  stage_placement const place{
      2, {rank_id{0}, rank_id{1}, rank_id{1}, rank_id{0}}, {{s0, s1}, {stage_id{2}, stage_id{3}}}};
  auto const stage = [](std::uint32_t s) { return stage_id{s}; };
  return {place,
          1,
          {{{forward, 0, s0, m0},
            {send_activation, 0, s0, m0, s1},
            {receive_activation, 0, stage(3), m0, stage(2)},
            {wait_send_activation, 0, s0, m0, s1},
            {forward, 0, stage(3), m0}},
           {{forward, 0, stage(2), m0},
            {send_activation, 0, stage(2), m0, stage(3)},
            {receive_activation, 0, s1, m0, s0},
            {wait_send_activation, 0, stage(2), m0, stage(3)},
            {forward, 0, s1, m0}}}};
}
dataflow crossed_transport() {
  return {.stages = 4,
          .edges = {{s0, 0, s1, 0},
                    {stage_id{2}, 0, stage_id{3}, 0},
                    {s1, 0, the_caller, 0},
                    {stage_id{3}, 0, the_caller, 1}}};
}

}  // namespace

TEST_CASE("step_plan: lowers a schedule without messages and keeps one with messages") {
  auto const t = line_of_two();
  auto const s = gpipe_on_two();
  CHECK_FALSE(has_messages(s));
  step_plan const lowered(s, t, ones(t));
  CHECK(lowered.order() == lower(s));
  auto const rounds = lower(s, {.messages = message_order::rounds, .grouping = message_grouping::adjacent});
  CHECK(step_plan(rounds, t, ones(t)).order() == rounds);
  CHECK(step_plan(s, t, ones(t), {.lowering = {.grouping = message_grouping::adjacent}}).order() ==
        lower(s, {.grouping = message_grouping::adjacent}));
}

TEST_CASE("step_plan: one rank alone needs no messages") {
  auto const t = line_of_two();
  schedule const s{placement_of(t, 1, {rank_id{0}, rank_id{0}}),
                   1,
                   {{{action_kind::forward, 0, s0, m0}, {action_kind::forward, 0, s1, m0}}}};
  step_plan const p(s, t, linear_layouts(t, {1}));
  CHECK(p.order() == s);
  CHECK(p.same_rank(t.edges[1]));
}

TEST_CASE("step_plan: exposes its parts and a digest of them") {
  auto const t = line_of_two();
  step_plan const p(gpipe_on_two(), t, ones(t), {.saved_activations = {{8, 0, 0}}});
  CHECK(p.edges() == t);
  CHECK(p.layouts() == ones(t));
  CHECK(p.options().saved_activations == std::vector<pass_bytes>{{8, 0, 0}});
  CHECK(p.blocks() == blocks_of(p.order().place, t, ones(t)));
  CHECK(p.ports_of(s1) == ports(t)[1]);
  CHECK(p.digest() == digest_of(p.order(), t, ones(t), {}));
  CHECK(p.rank_of(s1) == rank_id{1});
  CHECK_FALSE(p.same_rank(t.edges[1]));
  auto const of_1 = p.slots_of(rank_id{1});
  CHECK_FALSE(find_slot_fault({16, {p.slots_of(rank_id{0}), of_1}}));
  std::uint64_t saved_activations = 0;
  for (auto const& v : of_1.values) saved_activations += v.use == slot_use::saved ? v.bytes : 0;
  CHECK(saved_activations == 2 * 8);
}

TEST_CASE("step_plan: rejects a schedule for another number of stages") {
  auto t = line_of_two();
  t.stages = 3;
  CHECK(find_program_fault(gpipe_on_two(), t) == program_fault{program_fault::kind::stage_count, 2, 3});
  CHECK_THROWS_WITH_AS(
      step_plan(gpipe_on_two(), t, ones(t)),
      "program: the schedule has 2 stages, but the dataflow has 3; both must have the same stages",
      program_error);
}

TEST_CASE("step_plan: rejects a dataflow edge that the schedule lacks") {
  auto t = line_of_two();
  auto s = gpipe_on_two();
  CHECK_FALSE(find_program_fault(s, t));
  s.place.edges.clear();
  CHECK(find_program_fault(s, t) == program_fault{program_fault::kind::no_edge, 1, 0, s0, s1});
  CHECK_THROWS_WITH_AS(step_plan(s, t, ones(t)),
                       "program: edge #1 of the dataflow goes from stage 0 to stage 1, but the schedule has "
                       "no such edge; add it with connect_stages",
                       program_error);
}

TEST_CASE("step_plan: rejects invalid dataflows, layouts, schedules and memory limits") {
  auto t = line_of_two();
  t.edges.push_back({s1, 0, s0, 1});
  CHECK_THROWS_AS(step_plan(gpipe_on_two(), t, ones(t)), dataflow_error);
  t = line_of_two();
  CHECK_THROWS_AS(step_plan(gpipe_on_two(), t, linear_layouts(t, {1})), edge_layout_error);
  auto s = gpipe_on_two();
  s.ranks[0].pop_back();
  CHECK_THROWS_AS(step_plan(s, t, ones(t)), schedule_error);
  CHECK_THROWS_AS(step_plan(gpipe_on_two(), t, ones(t), {.memory_limit = {1}}), slot_error);
}

TEST_CASE("step_plan: rejects a schedule that would deadlock under the given delivery") {
  auto const t = crossed_transport();
  auto const l = linear_layouts(t, {1});
  CHECK_NOTHROW(step_plan(crossed(), t, l));
  for (auto const rules : {delivery::rendezvous, delivery::one_queue})
    CHECK_THROWS_AS(step_plan(crossed(), t, l, {.delivery = {.delivery = rules}}), schedule_error);
  CHECK_NOTHROW(step_plan(crossed(), t, l, {.delivery = {.delivery = delivery::buffered}}));
  CHECK_THROWS_AS(step_plan(crossed(), t, l, {.delivery = {.delivery = delivery::buffered, .buffers = 0}}),
                  schedule_error);
}
