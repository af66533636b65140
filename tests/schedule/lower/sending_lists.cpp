// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/sending_lists.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/schedule/text/schedule_csv.hpp"
#include "support/run_order.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

schedule schedule_of(std::vector<std::string_view> const& texts) {
  std::vector<std::vector<action>> rows;
  for (auto const text : texts) rows.push_back(read_row(text));
  return schedule_from_rows(std::move(rows));
}

}  // namespace

TEST_CASE("sending_lists: take copies actions, and send_results adds both ends of a message") {
  auto const s = schedule_of({"0F0,,0B0", "1F0,1B0"});
  sending_lists lists(s);
  std::vector<std::uint32_t> receivers;
  auto const step = [&](std::size_t r) {
    for (action const& a : lists.take(r, 1))
      lists.send_results(a, [&](std::uint32_t q) { receivers.push_back(q); });
  };
  step(0);
  CHECK(lists.stuck() == std::vector<stuck_rank>{{rank_id{0}, ""}, {rank_id{1}, "1F0"}});
  for (auto const r : {0, 1, 1, 0}) step(static_cast<std::size_t>(r));
  CHECK(receivers == std::vector<std::uint32_t>{1, 0});
  CHECK(testing::rows_of(lists.finish()) ==
        std::vector<std::string>{"0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"});
}

TEST_CASE("sending_lists: a compound can be taken in parts, and a single part is no compound") {
  auto const s = schedule_of({"(0F0;0F1;0B0)OVERLAP_F_B,0B1"});
  sending_lists lists(s);
  lists.take(0, 2);
  CHECK(lists.rest_of_cell(0).size() == 1);
  lists.take(0, 1);
  CHECK_THROWS_AS(lists.finish(), stuck_error);
  lists.take(0, 1);
  CHECK(lists.at_end(0));
  CHECK(testing::rows_of(lists.finish()) == std::vector<std::string>{"(0F0;0F1)OVERLAP_F_B,0B0,0B1"});
}
