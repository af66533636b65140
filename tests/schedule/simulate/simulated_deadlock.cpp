// SPDX-License-Identifier: MIT
#include "cleave/schedule/simulate/simulate.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"

using namespace cleave;

namespace {

/// Returns the waits and the ranks of the cycle, or "" if all ranks finish.
std::string waits(std::vector<std::string> const& rows, simulate_options const& o = {}) {
  std::vector<std::vector<action>> lists;
  for (auto const& row : rows) lists.push_back(read_row(row));
  auto const found = find_simulated_deadlock(schedule_from_rows(lists, row_contents::with_communication), o);
  if (!found) return {};
  std::string text;
  for (auto const& w : found->waiting) text += action_text(w.at) + ">" + action_text(w.for_what) + " ";
  text += "circle";
  for (auto const& w : found->cycle) text += " " + std::to_string(index(w.rank));
  return text;
}

}  // namespace

TEST_CASE("find_simulated_deadlock: finds a cycle of ranks that wait for each other") {
  CHECK(waits({"0F0,0B0,0F1,0B1", "1F0,1F1,1B0,1B1"}) == "0B0>1B0 1F1>0F1 circle 0 1");
  CHECK(waits({"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"}).empty());
}

TEST_CASE("find_simulated_deadlock: finds a rank that waits for itself or for a pass that is not listed") {
  CHECK(waits({"0B0,0F0"}) == "0B0>0F0 circle 0");
  CHECK(waits({"0F0,0B0", "1F0"}) == "0B0>1B0 circle");
  CHECK(waits({"0F0,0W0,0I0"}) == "0W0>0I0 circle 0");
  CHECK(waits({"0F0,0RELOAD1,0F1,0B0,0B1"}) == "0RELOAD1>0F1 circle 0");
}

TEST_CASE("find_simulated_deadlock: finds a wait for the end of a message that has not begun") {
  CHECK(waits({"0F0,0SEND_F0,0B0,0RECV_B0", "1RECV_F0,1F0,1B0,1SEND_B0"}) == "0B0>0RECV_B0 circle 0");
  CHECK(waits({"0F0,0RECV_B0,0B0,0SEND_F0", "1RECV_F0,1F0,1B0,1SEND_B0"}) ==
        "0B0>1SEND_B0 1F0>0SEND_F0 circle 0 1");
  CHECK(waits({"0F0,0SEND_F0,0WAIT_SEND_F0,0RECV_B0,0B0", "1F0,1RECV_F0,1B0,1SEND_B0"}) ==
        "0WAIT_SEND_F0>1RECV_F0 1F0>1RECV_F0 circle 1");
}

TEST_CASE("find_simulated_deadlock: with message_time::within, a receive blocks its rank") {
  simulate_options const within{.messages = message_time::within};
  std::vector<std::string> const rows = {"0F0,0RECV_B0,0SEND_F0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"};
  CHECK(waits(rows).empty());
  CHECK(waits(rows, within) == "0RECV_B0>1SEND_B0 1RECV_F0>0SEND_F0 circle 0 1");
}

TEST_CASE("find_simulated_deadlock: with longest_part, a part that needs another part waits for ever") {
  std::vector<std::string> const rows = {"0F0,(0F1;0B1)OVERLAP_F_B,0B0"};
  CHECK(waits(rows).empty());
  CHECK(waits(rows, {.compounds = compound_time::longest_part}) == "0B1>0F1 circle 0");
}
