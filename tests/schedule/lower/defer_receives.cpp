// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/defer_receives.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <tuple>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "cleave/schedule/verify/deadlock.hpp"
#include "cleave/schedule/verify/verify.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

schedule two_ranks(char const* first, char const* second) {
  return {loop_placement(2), 2, {read_row(first), read_row(second)}};
}

/// Returns the lists with sorted actions, to compare them regardless of order.
std::vector<std::vector<action>> sorted_rows(schedule s) {
  for (auto& row : s.ranks)
    std::ranges::sort(row, {}, [](action const& a) {
      return std::tuple(a.kind, index(a.stage), index(a.microbatch), index(a.peer), a.parts);
    });
  return s.ranks;
}

}  // namespace

TEST_CASE("defer_receives: moves a receive to its use, or to a send to the higher rank it comes from") {
  auto const s = defer_receives(two_ranks("0RECV_B0,0F1,0SEND_F1,0B0", "1RECV_F0,1RECV_F1,1F0,1B0,1F1"));
  CHECK(row_text(s.ranks[0]) == "0F1,0RECV_B0,0SEND_F1,0B0");
  CHECK(row_text(s.ranks[1]) == "1RECV_F0,1F0,1B0,1RECV_F1,1F1");
}

TEST_CASE("defer_receives: an early use pulls in earlier messages of the pair, unless order is as_needed") {
  auto const s = two_ranks("", "1RECV_F0,1RECV_F1,1F1,1F0");
  CHECK(row_text(defer_receives(s).ranks[1]) == "1RECV_F0,1RECV_F1,1F1,1F0");
  CHECK(row_text(defer_receives(s, receive_order::as_needed).ranks[1]) == "1RECV_F1,1F1,1RECV_F0,1F0");
}

TEST_CASE(
    "defer_receives: every family keeps its actions and channel order, and finishes with posted sends") {
  for (std::size_t f = 0; f < schedule_names.size(); ++f) {
    auto const family = static_cast<schedule_family>(f);
    for (std::uint32_t p = 2; p < 5; ++p) {
      auto const s = send_in_rounds(
          make_schedule(family, {p + p % 2, stages_per_rank_of(family).value_or(2), 4 * (p + p % 2)}));
      auto const deferred = defer_receives(s);
      CHECK(sorted_rows(deferred) == sorted_rows(s));
      CHECK(!find_channel_mismatch(deferred));
      CHECK(deadlock_verdict(deferred, delivery::buffered) == "finishes");
      CHECK(deadlock_verdict(deferred, delivery::async) == "finishes");
      for (auto const& row : deferred.ranks)
        for (std::size_t i = 0; i + 1 < row.size(); ++i)
          if (is_receive(row[i].kind)) CHECK(row[i + 1].kind != action_kind::weight_gradient);
    }
  }
}

TEST_CASE("defer_receives: receive_order::as_needed reorders messages of a pair in ZBV") {
  auto const s = send_in_rounds(make_schedule(schedule_family::zbv, {2, 2, 4}));
  CHECK(find_channel_mismatch(defer_receives(s, receive_order::as_needed)));
  CHECK(!find_channel_mismatch(defer_receives(s)));
}

TEST_CASE("defer_receives: rejects an unused receive, and drops a receive listed twice") {
  CHECK_THROWS_AS(defer_receives(two_ranks("0F0,0RECV_B0", "")), unused_receive_error);
  CHECK(row_text(defer_receives(two_ranks("0RECV_B0,0RECV_B0,0B0", "")).ranks[0]) == "0RECV_B0,0B0");
  CHECK_THROWS_AS(defer_receives(two_ranks("1RECV_F0", "")), invalid_action_error);
}
