// SPDX-License-Identifier: MIT
#include "cleave/run/program/program_activity.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/rank_grid.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

constexpr stage_id s1{1}, s2{2};
constexpr microbatch_id m3{3};

rank_instruction instruction(call_kind kind, action of, rank_id peer = rank_id{0xffffffff}) {
  rank_instruction i;
  i.call = {.kind = kind, .of = of};
  i.peer = peer;
  return i;
}

rank_program program_of(std::vector<rank_instruction> instructions) {
  rank_program p;
  p.rank = rank_id{1};
  p.ranks = 3;
  p.instructions = std::move(instructions);
  return p;
}

rank_activity activity_in(rank_instruction const& i) { return activity_of(program_of({i}), 0); }

}  // namespace

TEST_CASE("activity_of: a pass computes, with its stage and microbatch") {
  for (auto const kind : {call_kind::forward, call_kind::backward, call_kind::backward_input,
                          call_kind::backward_weight, call_kind::loss, call_kind::local_transfer}) {
    auto const a = activity_in(instruction(kind, {action_kind::forward, 0, s1, m3}));
    CHECK(a.kind == activity_kind::computing);
    CHECK(a.at == stage_call{s1, m3});
    CHECK(a.peers.empty());
  }
  CHECK(activity_in(instruction(call_kind::forward, {action_kind::forward, 0, s1, m3})).operation ==
        "forward 1 3");
}

TEST_CASE("activity_of: an action of a whole stage has no microbatch") {
  for (auto const kind :
       {call_kind::unshard, call_kind::reshard, call_kind::reduce, call_kind::wait_reduce}) {
    auto const a = activity_in(instruction(kind, {action_kind::unshard, 0, s1}));
    CHECK(a.kind == activity_kind::computing);
    CHECK_FALSE(a.at);
  }
  auto const tie =
      activity_in(instruction(call_kind::other, {action_kind::reduce_tie, 0, s1, no_microbatch, s2}));
  CHECK_FALSE(tie.at);
  auto const reload = activity_in(instruction(call_kind::other, {action_kind::reload, 0, s1, m3}));
  CHECK(reload.at == stage_call{s1, m3});
  CHECK(reload.kind == activity_kind::computing);
}

TEST_CASE("activity_of: a send or receive waits for its peer") {
  for (auto const kind : {call_kind::send, call_kind::receive}) {
    auto const a = activity_in(instruction(kind, {action_kind::send_activation, 0, s1, m3, s2}, rank_id{2}));
    CHECK(a.kind == activity_kind::waiting);
    CHECK(a.peers == std::vector{rank_id{2}});
    CHECK(a.at == stage_call{s1, m3});
  }
}

TEST_CASE("activity_of: a wait is for the peer of its message") {
  for (auto const kind : {call_kind::wait_send, call_kind::wait_receive}) {
    auto p = program_of({});
    p.instructions = {
        instruction(call_kind::receive, {action_kind::receive_gradient, 0, s1, m3, s2}, rank_id{2}),
        instruction(call_kind::forward, {action_kind::forward, 0, s1, m3}),
        instruction(kind, {action_kind::receive_gradient, 0, s1, m3, s2})};
    p.instructions[2].call.begun = 0;
    auto const a = activity_of(p, 2);
    CHECK(a.kind == activity_kind::waiting);
    CHECK(a.peers == std::vector{rank_id{2}});
    CHECK(a.operation ==
          (kind == call_kind::wait_send ? "wait send B3 stage 1<-2" : "wait recv B3 stage 1<-2"));
  }
}

TEST_CASE("activity_of: an exchange waits for all of its peers, each named once") {
  auto p = program_of({});
  action const sent{action_kind::send_activation, 0, s1, m3, s2};
  p.instructions = {
      instruction(call_kind::exchange, {action_kind::exchange, 3}),
      instruction(call_kind::send, sent, rank_id{2}), instruction(call_kind::receive, sent, rank_id{0}),
      instruction(call_kind::receive, sent, rank_id{2}), instruction(call_kind::send, sent, rank_id{1})};
  p.instructions[0].call.parts = 3;
  auto const a = activity_of(p, 0);
  CHECK(a.kind == activity_kind::waiting);
  CHECK(a.peers == std::vector{rank_id{2}, rank_id{0}});
  CHECK_FALSE(a.at);
}

TEST_CASE("activity_of: after its instructions a rank replays, sums gradients with all others, or is done") {
  auto p = program_of({});
  auto const reducing = activity_of(p, program_reducing);
  CHECK(reducing.kind == activity_kind::waiting);
  CHECK(reducing.peers == std::vector{rank_id{0}, rank_id{2}});
  CHECK(reducing.operation == "sums of gradients");
  auto const replaying = activity_of(p, program_replaying);
  CHECK(replaying.peers == reducing.peers);
  CHECK(replaying.operation == "a replayed step");
  CHECK(activity_of(p, program_done).kind == activity_kind::done);
  CHECK(activity_of(p, program_done).peers.empty());
}

TEST_CASE("activity_of: in a grid, peers are of the same replica, and sums involve other replicas too") {
  rank_grid const grid({.pipe = 3, .data = 3, .model = 1},
                       {rank_axis::data, rank_axis::model, rank_axis::pipe});
  auto const p =
      program_of({instruction(call_kind::send, {action_kind::send_activation, 0, s1, m3, s2}, rank_id{2})});
  auto const sending = activity_of(p, 0, grid, rank_id{4});
  CHECK(sending.peers == std::vector{rank_id{5}});
  CHECK(sending.at == stage_call{s1, m3});
  for (auto const at : {program_reducing, program_replaying})
    CHECK(activity_of(p, at, grid, rank_id{4}).peers ==
          std::vector{rank_id{3}, rank_id{5}, rank_id{1}, rank_id{7}});
  CHECK(activity_of(p, program_done, grid, rank_id{4}).peers.empty());

  rank_grid const stages_first({.pipe = 3, .data = 2, .model = 1},
                               {rank_axis::pipe, rank_axis::model, rank_axis::data});
  CHECK(activity_of(p, 0, stages_first, rank_id{3}).peers == std::vector{rank_id{5}});
  CHECK(activity_of(p, program_reducing, stages_first, rank_id{3}).peers ==
        std::vector{rank_id{1}, rank_id{5}, rank_id{2}});
}
