// SPDX-License-Identifier: MIT
#include "support/promela.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "cleave/schedule/verify/deadlock.hpp"
#include "support/plain_lowering.hpp"
#include "support/spin.hpp"

using namespace cleave;
using namespace cleave::testing;

using namespace cleave::detail;

namespace {

schedule of_rows(std::vector<std::string> const& rows) {
  std::vector<std::vector<action>> lists;
  for (auto const& row : rows) lists.push_back(read_row(row));
  return schedule_from_rows(lists, row_contents::with_communication);
}

bool spin_is_missing() {
  if (testing::have_spin()) return false;
  MESSAGE("skipped: needs spin and a C compiler");
  return true;
}

/// Checks that Spin and `find_deadlock` both give the expected verdict.
void check_both(schedule const& s, delivery_rules const& rules, bool finishes) {
  CHECK(!find_deadlock(s, rules) == finishes);
  CHECK(testing::finishes_in_spin(promela_text(s, rules)) == finishes);
}

constexpr delivery_rules one{.delivery = delivery::one_queue}, two{.delivery = delivery::two_queues},
    meeting{.delivery = delivery::rendezvous};

}  // namespace

TEST_CASE("promela_text: writes a process for each list and a channel for each directed pair of ranks") {
  auto const s = of_rows({"0F0,0SEND_F0", "1RECV_F0,1F0"});
  CHECK(promela_text(s, meeting) ==
        "/* A schedule as a model for spin: it gets stuck where spin finds an invalid end state. */\n"
        "bit made[10];\nbit begun[10];\nbit there[10];\nbit ended[10];\n"
        "chan to[2] = [0] of { int };\n"
        "active proctype rank_0() {\n"
        "  atomic { (1); made[0] = 1 };  /* 0F0 */\n"
        "  atomic { to[0]!3; ended[6] = 1 };  /* 0SEND_F0 */\n"
        "  skip\n}\n"
        "active proctype rank_1() {\n"
        "  atomic { to[0]?3; ended[7] = 1 };  /* 1RECV_F0 */\n"
        "  atomic { (1 && ended[7]); made[1] = 1 };  /* 1F0 */\n"
        "  skip\n}\n");
}

TEST_CASE("promela_text: rejects more processes or messages than Spin accepts") {
  auto const many = send_in_rounds(make_schedule(schedule_family::gpipe, {.ranks = 130, .microbatches = 1}));
  CHECK_THROWS_AS(promela_text(many, one), schedule_count_error);
  auto const long_one =
      send_in_rounds(make_schedule(schedule_family::gpipe, {.ranks = 2, .microbatches = 300}));
  CHECK_THROWS_AS(promela_text(long_one, {}), schedule_count_error);
  CHECK_NOTHROW(promela_text(long_one, meeting));
}

TEST_CASE("promela_text: Spin and find_deadlock agree that 1F1B gets stuck with one queue and not with two") {
  if (spin_is_missing()) return;
  auto const s = testing::with_plain_messages(
      make_schedule(schedule_family::one_f_one_b, {.ranks = 3, .microbatches = 3}));
  check_both(s, one, false);
  check_both(s, two, true);
}

TEST_CASE("promela_text: Spin and find_deadlock agree on interleaved 1F1B with one queue") {
  if (spin_is_missing()) return;
  auto const passes =
      make_schedule(schedule_family::interleaved_1f1b, {.ranks = 2, .stages_per_rank = 2, .microbatches = 2});
  check_both(send_in_rounds(passes), one, true);
  check_both(send_in_rounds(passes), meeting, true);
  check_both(testing::with_plain_messages(passes), one, false);
}

TEST_CASE("promela_text: Spin and find_deadlock agree on ZBV with several deliveries") {
  if (spin_is_missing()) return;
  auto const s = testing::with_plain_messages(
      make_schedule(schedule_family::zbv, {.ranks = 2, .stages_per_rank = 2, .microbatches = 2}));
  for (delivery_rules const rules : {delivery_rules{.delivery = delivery::async},
                                     {.delivery = delivery::pair_stream},
                                     {.delivery = delivery::pair_stream, .groups = message_groups::adjacent},
                                     {.delivery = delivery::two_queues, .groups = message_groups::adjacent},
                                     serial_device,
                                     {.buffers = 2}}) {
    CAPTURE(static_cast<int>(rules.delivery));
    CHECK(testing::finishes_in_spin(promela_text(s, rules)) == !find_deadlock(s, rules));
  }
}

TEST_CASE("promela_text: Spin and find_deadlock agree on the number of buffers that is enough") {
  if (spin_is_missing()) return;
  auto const s = of_rows(
      {"0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2RECV_F1,2F1", "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1"});
  check_both(s, {.buffers = 0}, false);
  check_both(s, {.buffers = 1}, true);
}
