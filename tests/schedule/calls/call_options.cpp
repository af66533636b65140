// SPDX-License-Identifier: MIT
#include "cleave/schedule/calls/call_options.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("find_call_option_fault: accepts custom passes, shards and reductions, rejects custom messages") {
  using enum action_kind;
  for (auto const k : {action_kind::forward, action_kind::backward, input_gradient, weight_gradient, overlap,
                       unshard, reshard, reduce_gradient, wait_reduce_gradient})
    CHECK(!find_call_option_fault({.custom = {k}}));
  for (auto const k : {idle, send_activation, receive_activation, wait_send_activation, send_gradient,
                       receive_gradient, wait_send_gradient, exchange}) {
    auto const fault = find_call_option_fault({.custom = {action_kind::forward, k}});
    REQUIRE(fault);
    CHECK(fault->what == call_fault::kind::not_replaceable);
    CHECK(fault->at.kind == k);
    CHECK(describe(*fault).starts_with(std::string(name_of(k)) + " cannot be a custom action"));
  }
}

TEST_CASE("call_fault: the message names the rank and the action, and for a missing receive the fix") {
  using enum call_fault::kind;
  action const at{action_kind::backward, 0, stage_id{2}, microbatch_id{1}, no_stage};
  action const receive{action_kind::receive_gradient, 0, stage_id{2}, microbatch_id{1}, stage_id{3}};
  for (auto const what : {received_twice, not_received, not_unsharded, unsharded_twice, reduced_too_soon})
    CHECK(describe(call_fault{what, rank_id{5}, 7, at, receive}).starts_with("rank 5, action #7: '2B1' "));
  CHECK(describe(call_fault{not_received, rank_id{5}, 7, at, receive}).ends_with("put '2RECV_B1' before it"));
}
