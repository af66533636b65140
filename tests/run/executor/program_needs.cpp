// SPDX-License-Identifier: MIT
#include "cleave/run/executor/detail/program_needs.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/run/host/host_device.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using stream = host_device::stream;
using values = std::span<tensor_view const>;

struct forward_only_stages {
  void forward(stream&, stage_pass const&, values, std::span<tensor_view>) {}
};
struct whole_stages : forward_only_stages {
  void backward(stream&, stage_pass const&, values, values) {}
};
struct split_stages : whole_stages {
  void backward_input(stream&, stage_pass const&, values, values) {}
  void backward_weight(stream&, stage_pass const&) {}
};
struct able_stages : split_stages {
  void unshard(stream&, stage_id) {}
  void reshard(stream&, stage_id) {}
  void offload(stream&, stage_pass const&) {}
  void reload(stream&, stage_pass const&) {}
  void recompute(stream&, stage_pass const&, values) {}
  void custom(stream&, action const&, std::span<custom_part const>) {}
};

rank_program program_of(call_kind kind, action_kind of) {
  rank_program p;
  action const forward{action_kind::forward, 0, stage_id{1}, microbatch_id{3}};
  p.instructions.push_back({.call = {.kind = call_kind::forward, .of = forward}});
  p.instructions.push_back(
      {.call = {.kind = kind, .of = {of, 0, stage_id{1}, microbatch_id{3}, stage_id{2}}}});
  return p;
}

template <class S>
bool can(call_kind kind, action_kind of) {
  return !find_lacking_ability<S, host_device>(program_of(kind, of));
}

template <class S>
void check_refused(call_kind kind, action_kind of, char const* sentence) {
  auto const p = program_of(kind, of);
  CHECK(find_lacking_ability<S, host_device>(p) == p.instructions[1].call);
  CHECK_THROWS_WITH_AS((require_abilities<S, host_device>(p)), sentence, program_need_error);
  CHECK_NOTHROW((require_abilities<able_stages, host_device>(p)));
}

}  // namespace

TEST_CASE("require_abilities: names the member function that a call needs and the stages lack") {
  using enum action_kind;
  check_refused<forward_only_stages>(
      call_kind::backward, backward,
      "program: rank 0, backward 1 3 needs stages with backward(stream, pass, gradients, inputs)");
  char const* const halves =
      " needs stages with backward_input(stream, pass, gradients, inputs) and backward_weight(stream, pass)";
  check_refused<whole_stages>(call_kind::backward_input, input_gradient,
                              (std::string("program: rank 0, backward_input 1 3") + halves).c_str());
  check_refused<whole_stages>(call_kind::backward_weight, weight_gradient,
                              (std::string("program: rank 0, backward_weight 1 3") + halves).c_str());
  char const* const sharded = " needs stages with unshard(stream, stage) and reshard(stream, stage)";
  check_refused<split_stages>(call_kind::unshard, unshard,
                              (std::string("program: rank 0, unshard 1") + sharded).c_str());
  check_refused<split_stages>(call_kind::reshard, reshard,
                              (std::string("program: rank 0, reshard 1") + sharded).c_str());
  check_refused<split_stages>(
      call_kind::other, recompute,
      "program: rank 0, 1RECOMPUTE3@2 needs stages with recompute(stream, pass, inputs)");
  char const* const away = " needs stages with offload(stream, pass) and reload(stream, pass)";
  check_refused<split_stages>(call_kind::other, offload,
                              (std::string("program: rank 0, 1OFFLOAD3@2") + away).c_str());
  check_refused<split_stages>(
      call_kind::custom, backward,
      "program: rank 0, custom 1B3@2 needs stages with custom(stream, action, parts)");
  check_refused<split_stages>(call_kind::other, reload,
                              (std::string("program: rank 0, 1RELOAD3@2") + away).c_str());
}

TEST_CASE("find_lacking_ability: messages, waits, losses and reductions need nothing of stages") {
  using enum call_kind;
  for (auto const kind : {loss, release, local_transfer, send, receive, wait_send, wait_receive, exchange,
                          reduce, start_reduce, wait_reduce, wait_unshard})
    CHECK(can<forward_only_stages>(kind, action_kind::forward));
  CHECK(can<forward_only_stages>(other, action_kind::reduce_tie));
  CHECK(can<forward_only_stages>(other, action_kind::wait_reduce_tie));
}

namespace {

/// A rank with one cell: F of stage 1 and B of `backward`, with these calls between them.
rank_program pair_of(action backward, std::vector<call_kind> between = {}) {
  action const forward{action_kind::forward, 0, stage_id{1}, microbatch_id{3}};
  rank_program p;
  p.instructions.push_back({.call = {.kind = call_kind::forward, .of = forward, .cell = 4}});
  for (auto const kind : between) p.instructions.push_back({.call = {.kind = kind, .cell = 4}});
  p.instructions.push_back({.call = {.kind = call_kind::backward, .of = backward, .cell = 4}});
  p.instructions.push_back({.call = {.kind = call_kind::backward, .of = forward, .cell = 5}});
  return p;
}
struct pair_stages : whole_stages {
  void overlapped(stream&, custom_part const&, custom_part const&) {}
};

}  // namespace

TEST_CASE("overlapped_pairs: finds cells of one F and one B, with nothing but waits between them") {
  using enum call_kind;
  action const earlier{action_kind::backward, 0, stage_id{1}, microbatch_id{2}};
  CHECK(overlapped_pairs(pair_of(earlier)) == std::vector<overlapped_pair>{{0, 1}});
  auto const apart = pair_of(earlier, {loss, local_transfer, wait_receive, release, wait_unshard});
  CHECK(overlapped_pairs(apart) == std::vector<overlapped_pair>{{0, 6}});
  for (auto const kind : {send, receive, wait_send, exchange, unshard, reshard, reduce, start_reduce,
                          wait_reduce, custom, call_kind::other, forward, backward, backward_weight})
    CHECK(overlapped_pairs(pair_of(earlier, {kind})).empty());
  CHECK(overlapped_pairs({}).empty());
}

TEST_CASE("require_abilities: refuses a pair in which B needs F, for stages that run both as one") {
  action const same{action_kind::backward, 0, stage_id{1}, microbatch_id{3}};
  auto const p = pair_of(same);
  CHECK_NOTHROW((require_abilities<whole_stages, host_device>(p)));
  CHECK_THROWS_WITH_AS((require_abilities<pair_stages, host_device>(p)),
                       "program: rank 0, (1F3;1B3)OVERLAP_F_B is for overlapped(stream, forward, backward), "
                       "but one pass needs the other; put them into separate cells",
                       program_need_error);
  for (action const b : {action{action_kind::backward, 0, stage_id{0}, microbatch_id{3}},
                         action{action_kind::backward, 0, stage_id{1}, microbatch_id{2}}})
    CHECK_NOTHROW((require_abilities<pair_stages, host_device>(pair_of(b))));
}
