// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "cleave/schedule/channel_order.hpp"
#include "cleave/schedule/deadlock.hpp"
#include "cleave/schedule/generate.hpp"
#include "support/run_order.hpp"

using namespace cleave;

TEST_CASE("lower: two ranks, two microbatches") {
  CHECK(testing::rows_of(lower(one_f_one_b(2, 2))) ==
        std::vector<std::string>{
            "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0WAIT_SEND_F0,0RECV_B1,0B1,0WAIT_SEND_F1,"
            "0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD",
            "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,"
            "1RESHARD,1WAIT_SEND_B0,1WAIT_SEND_B1"});
}

TEST_CASE("lower: every family finishes where its sends may go, whatever the options") {
  for (std::size_t f = 0; f < schedule_names.size(); ++f) {
    auto const family = static_cast<schedule_family>(f);
    auto const s = make_schedule(family, {4, stages_per_rank_of(family).value_or(2), 8});
    for (auto const receives : {receive_time::at_once, receive_time::deferred})
      for (auto const sends : {send_manner::posted, send_manner::blocking}) {
        auto const lowered = lower(s, {.receives = receives,
                                       .sends = sends,
                                       .max_active_stages = 2,
                                       .lookahead = {unshard_ahead::policy::automatic},
                                       .reductions = reduction_wait::deferred,
                                       .max_outstanding_sends = 8});
        CHECK(!find_channel_mismatch(lowered));
        CHECK(transport_verdict(lowered, delivery::buffered) == "finishes");
        CHECK(transport_verdict(lowered, delivery::async) == "finishes");
        if (receives == receive_time::deferred && sends == send_manner::posted) continue;
        CHECK(transport_verdict(lowered, delivery::rendezvous) == "finishes");
        CHECK(transport_verdict(lowered, delivery::pair_stream) == "finishes");
      }
  }
}

TEST_CASE("lower: what is wrong with options or lists is told before anything is done") {
  auto s = gpipe(2, 2);
  CHECK_THROWS_AS(lower(s, {.max_active_stages = 0}), lower_option_error);
  s.microbatches = 1;
  CHECK_THROWS_AS(lower(s), schedule_error);
  CHECK_THROWS_AS(lower(make_schedule(schedule_family::dual_pipe_v, {2, 2, 4}), {.max_active_stages = 1}),
                  window_error);
}
