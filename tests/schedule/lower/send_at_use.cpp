// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/send_at_use.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/schedule/families/gpipe.hpp"
#include "cleave/schedule/families/one_f_one_b.hpp"
#include "cleave/schedule/lower/reduce_gradients.hpp"
#include "cleave/schedule/model/delivery.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "cleave/schedule/verify/deadlock.hpp"
#include "support/run_order.hpp"

using namespace cleave;

using namespace cleave::detail;
using testing::rows_of;

namespace {

using texts = std::vector<std::string>;

schedule of_rows(texts const& rows) {
  std::vector<std::vector<action>> lists;
  for (auto const& row : rows) lists.push_back(read_row(row));
  return schedule_from_rows(std::move(lists), row_contents::compute_only);
}

/// Returns the schedule without messages and other actions that are not passes.
schedule passes_of_lists(schedule s) {
  for (auto& row : s.ranks) std::erase_if(row, [](action const& a) { return !is_compute(a.kind); });
  return s;
}

/// Checks that messages have both ends, sends have waits, passes are unchanged and the schedule finishes.
void check_messages(schedule const& before, schedule const& sent) {
  CHECK(passes_of_lists(before) == passes_of_lists(sent));
  CHECK(!find_send_wait_fault(sent));
  std::vector<std::pair<action, int>> ends;
  std::size_t sends = 0, receives = 0, crossing = 0;
  for (auto const& row : sent.ranks)
    for (action const& a : row) {
      if (is_send(a.kind)) ++sends;
      if (is_receive(a.kind)) ++receives;
    }
  for (auto const& e : before.place.edges)
    if (before.place.rank_of[index(e.from)] != before.place.rank_of[index(e.to)]) ++crossing;
  CHECK(sends == 2 * crossing * before.microbatches);
  CHECK(receives == sends);
  for (auto const d : {delivery::buffered, delivery::async}) CHECK(deadlock_verdict(sent, d) == "finishes");
}

}  // namespace

TEST_CASE("send_at_use: with send_pairing::apart, the sends of a sweep are waited for after it") {
  CHECK(rows_of(send_at_use(of_rows({"0F0,0F1,,0B0,0B1", ",1F0,1F1,1B0,1B1"}))) ==
        texts{"0F0,0SEND_F0,0F1,0SEND_F1,0WAIT_SEND_F0,0WAIT_SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
              "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1,1WAIT_SEND_B0,1WAIT_SEND_B1"});
}

TEST_CASE("send_at_use: with send_pairing::with_next_receive, a send joins the receive of the next pass") {
  auto const sent = send_at_use(of_rows({"0F0,0F1,0B0,0F2,0B1,0B2", "1F0,1B0,1F1,1B1,1F2,1B2"}),
                                send_pairing::with_next_receive);
  CHECK(rows_of(sent) ==
        texts{"0F0,0SEND_F0,0F1,0WAIT_SEND_F0,(0SEND_F1;0RECV_B0)EXCHANGE,0WAIT_SEND_F1,0B0,0F2,"
              "(0SEND_F2;0RECV_B1)EXCHANGE,0WAIT_SEND_F2,0B1,0RECV_B2,0B2",
              "1RECV_F0,1F0,1B0,(1SEND_B0;1RECV_F1)EXCHANGE,1WAIT_SEND_B0,1F1,1B1,"
              "(1SEND_B1;1RECV_F2)EXCHANGE,1WAIT_SEND_B1,1F2,1B2,1SEND_B2,1WAIT_SEND_B2"});
}

TEST_CASE("send_at_use: actions after the last pass follow its send and the wait for it") {
  auto const s = reduce_gradients(of_rows({"0F0,0B0", "1F0,1B0"}));
  for (auto const pairing : {send_pairing::apart, send_pairing::with_next_receive})
    CHECK(rows_of(send_at_use(s, pairing))[1] ==
          "1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0,1REDUCE_GRAD,1WAIT_REDUCE_GRAD");
}

TEST_CASE("send_at_use: a compound receives for all its parts and sends after all of them") {
  schedule const s{wave_placement(2), 2, {read_row("0F0,(0F1;3F0)OVERLAP_F_B"), {}}};
  CHECK(rows_of(send_at_use(s))[0] ==
        "0F0,0SEND_F0,3RECV_F0,(0F1;3F0)OVERLAP_F_B,0SEND_F1,0WAIT_SEND_F0,0WAIT_SEND_F1");
}

TEST_CASE("send_at_use: a stage that reads from several ranks gets a message from each") {
  schedule s{loop_placement(3), 1, {read_row("0F0,0B0"), read_row("1F0,1B0"), read_row("2F0,2B0")}};
  s.place.edges = {{stage_id{0}, stage_id{1}}, {stage_id{0}, stage_id{2}}, {stage_id{1}, stage_id{2}}};
  for (auto const pairing : {send_pairing::apart, send_pairing::with_next_receive})
    check_messages(s, send_at_use(s, pairing));
  CHECK(rows_of(send_at_use(s, send_pairing::with_next_receive))[0] ==
        "0F0,(0SEND_F0;0SEND_F0@2;0RECV_B0;0RECV_B0@2)EXCHANGE,0WAIT_SEND_F0,0WAIT_SEND_F0@2,0B0");
}

TEST_CASE("send_at_use: GPipe apart and 1F1B paired send every message once and finish") {
  for (std::uint32_t p = 1; p < 6; ++p)
    for (std::uint32_t m = p; m < 2 * p + 3; ++m) {
      check_messages(gpipe(p, m), send_at_use(gpipe(p, m)));
      CHECK(deadlock_verdict(send_at_use(gpipe(p, m)), delivery::rendezvous) == "finishes");
      check_messages(one_f_one_b(p, m), send_at_use(one_f_one_b(p, m), send_pairing::with_next_receive));
    }
}

TEST_CASE("send_at_use: on a serial device GPipe finishes, and 1F1B finishes only if paired") {
  for (std::uint32_t p = 2; p < 6; ++p) {
    auto const order = one_f_one_b(p, 2 * p);
    CHECK(!find_deadlock(send_at_use(gpipe(p, 2 * p)), serial_device));
    CHECK(!find_deadlock(send_at_use(order, send_pairing::with_next_receive), serial_device));
    CHECK(find_deadlock(send_at_use(order), serial_device));
  }
}

TEST_CASE("send_at_use: rejects an invalid list and an invalid placement") {
  auto s = of_rows({"0F0", "1F0"});
  auto bad = s;
  bad.place.edges[0].to = stage_id{7};
  CHECK_THROWS_AS((void)send_at_use(bad), stage_placement_error);
  bad = s;
  bad.ranks[0][0].stage = stage_id{1};
  CHECK_THROWS_AS((void)send_at_use(bad), invalid_action_error);
}
