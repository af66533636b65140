// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/group_messages.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "cleave/schedule/verify/deadlock.hpp"
#include "cleave/schedule/verify/verify.hpp"
#include "support/every_delivery.hpp"
#include "support/random_schedule.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::string grouped(std::string_view row) {
  schedule const s{loop_placement(3), 9, {{}, read_row(row), {}}};
  return row_text(group_messages(s).ranks[1]);
}

schedule flattened(schedule s) {
  for (auto& row : s.ranks)
    std::erase_if(row, [](action const& a) { return a.kind == action_kind::exchange; });
  return s;
}

bool is_end(action const& a) { return is_send(a.kind) || is_receive(a.kind); }

struct cell {
  std::vector<action> actions;
  bool messages, passes;
};

std::vector<cell> cells_of(std::vector<action> const& row) {
  std::vector<cell> cells;
  each_cell(row, [&](action const& head, std::span<action const> parts) {
    auto const all = parts.empty() ? std::span(&head, 1) : parts;
    cells.push_back({{all.begin(), all.end()}, is_end(all.front()), is_compute(all.front().kind)});
  });
  return cells;
}

/// Returns true if one of the passes needs the message.
bool is_used(action const& message, std::vector<action> const& passes) {
  for (action const& pass : passes)
    if (pass.stage == message.stage && pass.microbatch == message.microbatch &&
        pass.kind != action_kind::weight_gradient &&
        (pass.kind == action_kind::forward ? message.kind == action_kind::receive_activation
                                           : message.kind == action_kind::receive_gradient))
      return true;
  return false;
}

/// Describes an error in the grouping of a list, or returns "": an exchange with other actions than messages,
/// two exchanges that could be one, or a pass that waits for messages it does not need.
std::string grouping_defect(std::vector<action> const& row) {
  auto const cells = cells_of(row);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!cells[i].messages) continue;
    for (action const& a : cells[i].actions)
      if (!is_end(a)) return action_text(a) + " in an exchange";
    std::vector<action> next;
    for (auto n = i; n < cells.size() && next.empty(); ++n)
      if (cells[n].passes) next = cells[n].actions;
    bool const last_used = is_used(cells[i].actions.back(), next);
    bool any_used = last_used;
    for (action const& a : cells[i].actions) any_used |= is_used(a, next);
    if (any_used && !last_used) return action_text(next[0]) + " waits for what it does not need";
    bool const another = i + 1 < cells.size() && cells[i + 1].messages;
    if (another && !last_used) return action_text(cells[i + 1].actions[0]) + " is apart";
  }
  return "";
}

}  // namespace

TEST_CASE("group_messages: joins adjacent messages into one exchange and leaves single ones alone") {
  CHECK(grouped("1F0,1SEND_F0,1RECV_B0,1B0,1SEND_B0,1F1") ==
        "1F0,(1SEND_F0;1RECV_B0)EXCHANGE,1B0,1SEND_B0,1F1");
  CHECK(grouped("1F0,1B0,1SEND_B0,1RECV_F1,1RECV_B2") == "1F0,1B0,(1SEND_B0;1RECV_F1;1RECV_B2)EXCHANGE");
  CHECK(grouped("") == "");
}

TEST_CASE("group_messages: the next pass does not wait for messages that it does not use") {
  CHECK(grouped("1RECV_F0,1RECV_F1,1F0,1F1") == "1RECV_F0,1RECV_F1,1F0,1F1");
  CHECK(grouped("1SEND_F0,1RECV_F1,1RECV_F2,1RECV_F3,1RESHARD,1F1") ==
        "(1SEND_F0;1RECV_F1)EXCHANGE,(1RECV_F2;1RECV_F3)EXCHANGE,1RESHARD,1F1");
  CHECK(grouped("1RECV_F1,1RECV_B0,1RECV_F2,(1F1;1B0)OVERLAP_F_B") ==
        "(1RECV_F1;1RECV_B0)EXCHANGE,1RECV_F2,(1F1;1B0)OVERLAP_F_B");
}

TEST_CASE("group_messages: a wait for a send separates exchanges") {
  CHECK(grouped("1SEND_F0,1SEND_F1,1WAIT_SEND_F0,1SEND_F2,1RECV_B0") ==
        "(1SEND_F0;1SEND_F1)EXCHANGE,1WAIT_SEND_F0,(1SEND_F2;1RECV_B0)EXCHANGE");
}

TEST_CASE("group_messages: grouping a second time changes nothing") {
  auto const once = group_messages(lower(one_f_one_b(4, 8)));
  CHECK(group_messages(once) == once);
}

TEST_CASE("group_messages: splits a run of messages that is longer than a compound can be") {
  schedule s{loop_placement(2), 70000, {{}, {}}};
  for (std::uint32_t m = 0; m < 70000; ++m)
    s.ranks[1].push_back({action_kind::receive_activation, 0, stage_id{1}, microbatch_id{m}, stage_id{0}});
  auto const grouped = group_messages(s);
  CHECK(grouped.ranks[1][0].parts == 0xffff);
  CHECK(flattened(grouped) == s);
}

TEST_CASE(
    "group_messages: random schedules keep every message in place, and all that can be merged is merged") {
  testing::rng random(1);
  for (int round = 0; round < 200; ++round) {
    auto const s = random.one_in(2)
                       ? testing::random_list_schedule(random)
                       : testing::family_schedule(
                             static_cast<schedule_family>(random.below(schedule_names.size())), 4, 8);
    lower_options const options{
        .messages = random.one_in(2) ? message_order::timed : message_order::rounds,
        .receives = random.one_in(2) ? receive_time::at_once : receive_time::deferred};
    auto const lowered = lower(s, options);
    auto const grouped = group_messages(lowered);
    CHECK(flattened(grouped) == lowered);
    for (auto const& row : grouped.ranks) CHECK(grouping_defect(row) == "");
    CHECK(!find_schedule_fault(grouped, {.passes = passes_of(s)}));
    CHECK(deadlock_verdict(grouped, delivery::async) == "finishes");
    if (options.receives == receive_time::deferred) continue;
    CHECK(testing::stuck_with(grouped) == "");
  }
}
