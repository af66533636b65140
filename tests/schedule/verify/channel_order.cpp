// SPDX-License-Identifier: MIT
#include "cleave/schedule/verify/verify.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cleave/schedule/families/one_f_one_b.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "support/plain_lowering.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

schedule of_rows(std::vector<std::string> const& rows) {
  std::vector<std::vector<action>> lists;
  for (auto const& row : rows) lists.push_back(read_row(row));
  return schedule_from_rows(lists, row_contents::with_communication);
}

}  // namespace

TEST_CASE("find_channel_mismatch: finds the first receive that is not in the order of the sends") {
  auto const s =
      of_rows({"0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2", "1RECV_F0,1RECV_F2,1RECV_F1,1F0,1F1,1F2"});
  auto const found = find_channel_mismatch(s);
  REQUIRE(found);
  CHECK(found->from == rank_id{0});
  CHECK(found->to == rank_id{1});
  CHECK(found->place == 1);
  CHECK(action_text(found->sent) == "0SEND_F1");
  CHECK(action_text(found->received) == "1RECV_F2");
}

TEST_CASE("find_channel_mismatch: the two directions of a pair of ranks are independent") {
  CHECK(!find_channel_mismatch(testing::with_plain_messages(one_f_one_b(4, 8))));
  CHECK(!find_channel_mismatch(of_rows({"0F0,0RECV_B0,0SEND_F0", "1F0,1RECV_F0,1SEND_B0"})));
}

TEST_CASE("find_channel_mismatch: ignores messages with only one end") {
  CHECK(!find_channel_mismatch(of_rows({"0F0,0SEND_F0,0SEND_F1,0SEND_F2", "1RECV_F1,1RECV_F2"})));
  CHECK(!find_channel_mismatch(one_f_one_b(3, 3)));
}
