// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/lower.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/lower/defer_receives.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "cleave/schedule/verify/deadlock.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

schedule two_ranks(char const* first, char const* second) {
  return {loop_placement(2), 2, {read_row(first), read_row(second)}};
}

schedule with_waits(schedule_family family, std::uint32_t p, std::uint32_t m) {
  return add_send_waits(
      send_in_rounds(make_schedule(family, {p, stages_per_rank_of(family).value_or(2), m})));
}

std::size_t most_pending(std::vector<action> const& row) {
  std::size_t now = 0, most = 0;
  for (action const& a : row) {
    if (is_send(a.kind)) most = std::max(most, ++now);
    if (is_wait_send(a.kind)) --now;
  }
  return most;
}

std::vector<std::vector<action>> without_waits(schedule s) {
  for (auto& row : s.ranks) std::erase_if(row, [](action const& a) { return is_wait_send(a.kind); });
  return s.ranks;
}

}  // namespace

TEST_CASE(
    "limit_sends: every family stays within the limit, moves only waits and finishes with posted sends") {
  for (std::size_t f = 0; f < schedule_names.size(); ++f)
    for (bool const deferred : {false, true})
      for (std::uint32_t limit = 1; limit < 5; ++limit) {
        auto s = with_waits(static_cast<schedule_family>(f), 4, 8);
        if (deferred) s = defer_receives(s);
        schedule limited;
        try {
          limited = limit_sends(s, limit);
        } catch (send_limit_error const& e) {
          CHECK(e.witness.pending.size() == limit);
          continue;
        }
        for (auto const& row : limited.ranks) CHECK(most_pending(row) <= limit);
        CHECK(without_waits(limited) == without_waits(s));
        CHECK(!find_send_wait_fault(limited));
        CHECK(deadlock_verdict(limited, delivery::async) == "finishes");
      }
}

TEST_CASE("limit_sends: prefers the wait for a send that has surely arrived to one that may stall") {
  auto const s = two_ranks("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B1,0B1,0WAIT_SEND_F1,0WAIT_SEND_F0",
                           "1RECV_F0,1RECV_F1,1F1,1B1,1SEND_B1,1WAIT_SEND_B1");
  auto const limited = limit_sends(s, 1);
  CHECK(row_text(limited.ranks[0]) == "0F0,0SEND_F0,0F1,0WAIT_SEND_F0,0SEND_F1,0RECV_B1,0B1,0WAIT_SEND_F1");
}

TEST_CASE("limit_sends: lower limits the sends as its options say") {
  auto const s = make_schedule(schedule_family::one_f_one_b, {4, 1, 8});
  auto const free = lower(s);
  CHECK(std::ranges::any_of(free.ranks, [](auto const& row) { return most_pending(row) > 1; }));
  CHECK(lower(s, {.max_outstanding_sends = 1}) == limit_sends(free, 1));
}

TEST_CASE("limit_sends: a high limit changes nothing") {
  auto const s = with_waits(schedule_family::interleaved_1f1b, 3, 6);
  CHECK(limit_sends(s, 1000) == s);
}

TEST_CASE("limit_sends: only a schedule without sends meets a limit of zero") {
  auto const s = with_waits(schedule_family::gpipe, 2, 2);
  CHECK_THROWS_AS(limit_sends(s, 0), send_limit_error);
  auto const alone = with_waits(schedule_family::gpipe, 1, 2);
  CHECK(limit_sends(alone, 0) == alone);
}

TEST_CASE("limit_sends: rejects a send without wait or receive, a cycle and an action out of place") {
  CHECK_THROWS_AS(limit_sends(two_ranks("0F0,0SEND_F0", "1RECV_F0,1F0"), 1), send_wait_error);
  CHECK_THROWS_AS(limit_sends(two_ranks("0F0,0SEND_F0,0WAIT_SEND_F0", "1F0"), 1), unreceived_error);
  CHECK_THROWS_AS(
      limit_sends(
          two_ranks("0F0,0SEND_F0,0WAIT_SEND_F0,0RECV_B0,0B0", "1B0,1SEND_B0,1WAIT_SEND_B0,1RECV_F0,1F0"), 1),
      message_cycle_error);
  CHECK_THROWS_AS(limit_sends(two_ranks("1F0", ""), 1), invalid_action_error);
}
