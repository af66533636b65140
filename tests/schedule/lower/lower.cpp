// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/lower.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/verify/deadlock.hpp"
#include "cleave/schedule/verify/verify.hpp"
#include "support/cases.hpp"
#include "support/every_delivery.hpp"
#include "support/message_census.hpp"
#include "support/random_schedule.hpp"
#include "support/run_order.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("lower: 1F1B on two ranks gives the expected lists") {
  CHECK(testing::rows_of(lower(one_f_one_b(2, 2))) ==
        std::vector<std::string>{
            "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0WAIT_SEND_F0,0RECV_B1,0B1,0WAIT_SEND_F1,"
            "0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD",
            "1UNSHARD,1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,"
            "1RESHARD,1WAIT_SEND_B0,1WAIT_SEND_B1"});
}

TEST_CASE("lower: with message_order::rounds, receives come in PyTorch's order") {
  CHECK(testing::rows_of(lower(one_f_one_b(2, 2), {.messages = message_order::rounds}))[1] ==
        "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,"
        "1RESHARD,1WAIT_SEND_B0,1WAIT_SEND_B1");
}

TEST_CASE("lower: every family finishes with every delivery that its options allow") {
  std::size_t number = 0;
  for (std::size_t f = 0; f < schedule_names.size(); ++f) {
    auto const s = testing::family_schedule(static_cast<schedule_family>(f), 4, 8);
    for (auto const messages : {message_order::timed, message_order::rounds})
      for (auto const receives : {receive_time::at_once, receive_time::deferred})
        for (auto const sends : {send_manner::posted, send_manner::blocking}) {
          if (number++ % 3 != 0 && !testing::all_cases()) continue;
          auto const lowered = lower(s, {.messages = messages,
                                         .receives = receives,
                                         .sends = sends,
                                         .max_active_stages = 2,
                                         .lookahead = {unshard_ahead::policy::automatic},
                                         .reductions = reduction_wait::deferred,
                                         .max_outstanding_sends = 8,
                                         .grouping = message_grouping::adjacent});
          CHECK(testing::message_defect(lowered) == "");
          CHECK(deadlock_verdict(lowered, delivery::buffered) == "finishes");
          CHECK(deadlock_verdict(lowered, delivery::async) == "finishes");
          if (receives == receive_time::deferred && sends == send_manner::posted) continue;
          CHECK(testing::stuck_with(lowered) == "");
        }
  }
}

TEST_CASE("lower: random schedules finish with every delivery, and each message comes once and in order") {
  testing::rng random(1);
  for (std::size_t round = 0; round < testing::cases(100, 300); ++round) {
    auto const s = testing::random_list_schedule(random);
    auto const lowered =
        lower(s, {.times = {testing::random_costs(random, s.place.stages()), random.unit()},
                  .grouping = random.one_in(2) ? message_grouping::adjacent : message_grouping::none});
    CHECK(testing::message_defect(lowered) == "");
    CHECK(!find_schedule_fault(lowered));
    CHECK(testing::stuck_with(lowered) == "");
  }
}

TEST_CASE("lower: rejects invalid options and invalid lists") {
  auto s = gpipe(2, 2);
  CHECK_THROWS_AS(lower(s, {.max_active_stages = 0}), lower_option_error);
  CHECK_THROWS_AS(lower(s, {.times = {.base_latency = -1}}), nominal_time_error);
  s.microbatches = 1;
  CHECK_THROWS_AS(lower(s), schedule_error);
  CHECK_THROWS_AS(lower(make_schedule(schedule_family::dual_pipe_v, {2, 2, 4}), {.max_active_stages = 1}),
                  window_error);
}
