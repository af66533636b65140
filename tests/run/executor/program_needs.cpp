// SPDX-License-Identifier: MIT
#include "cleave/run/executor/detail/program_needs.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <span>
#include <string>

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
