// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/lower.hpp"

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "cleave/schedule/verify/deadlock.hpp"
#include "cleave/schedule/verify/verify.hpp"
#include "support/run_order.hpp"

using namespace cleave;

using namespace cleave::detail;
using testing::rows_of;

namespace {

schedule schedule_of(std::vector<std::string_view> const& texts) {
  std::vector<std::vector<action>> rows;
  for (auto const text : texts) rows.push_back(read_row(text));
  return schedule_from_rows(std::move(rows));
}

std::vector<std::string> sent(std::vector<std::string_view> const& texts) {
  return rows_of(send_in_rounds(schedule_of(texts)));
}

schedule without_messages(schedule s) {
  for (auto& row : s.ranks)
    std::erase_if(row, [](action const& a) { return is_message(a.kind) || a.kind == action_kind::idle; });
  return s;
}

/// Checks that passes and the order of messages are kept and that every delivery finishes.
void check_sent(schedule const& s) {
  auto const lowered = send_in_rounds(s);
  CHECK(without_messages(lowered) == without_messages(s));
  CHECK(!find_channel_mismatch(lowered));
  for (auto const d : {delivery::buffered, delivery::rendezvous, delivery::async, delivery::pair_stream})
    CHECK(deadlock_verdict(lowered, d) == "finishes");
}

}  // namespace

TEST_CASE("send_in_rounds: a send follows its pass, and its receive comes next on the other rank") {
  CHECK(sent({"0F0,0F1,,0B0,,0B1", ",1F0,1B0,1F1,1B1,"}) ==
        std::vector<std::string>{"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
                                 "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1"});
}

TEST_CASE("send_in_rounds: every family keeps its passes and finishes with every delivery") {
  for (std::size_t f = 0; f < schedule_names.size(); ++f) {
    auto const family = static_cast<schedule_family>(f);
    for (std::uint32_t p = 1; p < 4; ++p)
      check_sent(make_schedule(family, {2 * p, stages_per_rank_of(family).value_or(2), 4 * p}));
  }
}

TEST_CASE("send_in_rounds: a stage sends to each reader on another rank and none on its own") {
  schedule s{{2, {rank_id{0}, rank_id{0}, rank_id{1}}, {}}, 1, {}};
  s.place.edges = {{stage_id{0}, stage_id{1}}, {stage_id{0}, stage_id{2}}, {stage_id{1}, stage_id{2}}};
  s.ranks = {read_row("0F0,1F0,1B0,0B0"), read_row("2F0,2B0")};
  auto const lowered = send_in_rounds(s);
  CHECK(row_text(std::span(lowered.ranks[0]).first(4)) == "0F0,0SEND_F0@2,1F0,1SEND_F0");
  check_sent(s);
}

TEST_CASE("send_in_rounds: a part of a compound may depend on an earlier part") {
  CHECK(sent({"(0F0;1F0)OVERLAP_F_B,(1B0;0B0)OVERLAP_F_B"}) ==
        std::vector<std::string>{"(0F0;1F0)OVERLAP_F_B,(1B0;0B0)OVERLAP_F_B"});
}

TEST_CASE("send_in_rounds: splits a compound that needs another rank's answer to its own part") {
  auto const s = schedule_of({"(0F0;0B0)OVERLAP_F_B,0F1,0B1", "1F0,1B0,1F1,1B1"});
  CHECK(rows_of(send_in_rounds(s)) ==
        std::vector<std::string>{"0F0,0SEND_F0,0RECV_B0,0B0,0F1,0SEND_F1,0RECV_B1,0B1",
                                 "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1"});
}

TEST_CASE("send_in_rounds: the error of a deadlock names each stuck rank and its next action") {
  auto const s = schedule_of({"0F0,0B0,0F1,0B1", "1F1,1B1,1F0,1B0"});
  try {
    send_in_rounds(s);
    CHECK(false);
  } catch (stuck_error const& e) {
    CHECK(e.witness == std::vector<stuck_rank>{{rank_id{0}, "0B0"}, {rank_id{1}, "1F1"}});
  }
}

TEST_CASE("send_in_rounds: rejects W before I, B before F, and a pass whose input is never made") {
  CHECK_THROWS_AS(sent({"0F0,0W0,0I0"}), stuck_error);
  CHECK_THROWS_AS(sent({"0B0,0F0"}), stuck_error);
  CHECK_THROWS_AS(sent({"0F0,0B0", "1F0,1B0,1F1,1B1"}), stuck_error);
}

TEST_CASE("send_in_rounds: rejects an action on the wrong rank") {
  auto s = gpipe(2, 2);
  s.ranks[0].push_back(s.ranks[1].back());
  CHECK_THROWS_AS(send_in_rounds(s), invalid_action_error);
}
