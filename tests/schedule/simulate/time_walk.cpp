// SPDX-License-Identifier: MIT
#include "cleave/schedule/simulate/simulate.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cleave/schedule/text/schedule_csv.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

schedule of_rows(std::vector<std::string> const& rows) {
  std::vector<std::vector<action>> lists;
  for (auto const& row : rows) lists.push_back(read_row(row));
  return schedule_from_rows(lists, row_contents::with_communication);
}

}  // namespace

TEST_CASE("time_walk: after a deadlock, gives the positions of ranks and all that is done") {
  auto const s = of_rows({"0F0,0SEND_F0,0B0", "1RECV_F0,1F0"});
  simulate_options const options;
  time_walk walk(s, options);
  CHECK_FALSE(walk.run());
  CHECK(walk.progress().position(0) == 2);
  CHECK(walk.progress().is_finished(1));
  CHECK(walk.marks().is_done(1, microbatch_id{0}, pass_mark::forward));
  CHECK_FALSE(walk.marks().is_done(0, microbatch_id{0}, pass_mark::gradient));
  CHECK(walk.messages().at({0, edge_flow::activations, microbatch_id{0}}).where == message_place::there);
}

TEST_CASE("time_walk: within an exchange, a send does not wait for a receive") {
  simulate_options const within{.links = {{.bandwidth = 1}},
                                .bytes = {{.activation = 2, .gradient = 3}},
                                .messages = message_time::within};
  std::vector<std::string> const apart = {"0F0,0SEND_F0,0F1,0RECV_B0,0SEND_F1,0B0",
                                          "1RECV_F0,1F0,1B0,1RECV_F1,1SEND_B0,1F1"};
  std::vector<std::string> const as_one = {"0F0,0SEND_F0,0F1,(0RECV_B0;0SEND_F1)EXCHANGE,0B0",
                                           "1RECV_F0,1F0,1B0,(1RECV_F1;1SEND_B0)EXCHANGE,1F1"};
  auto const s = of_rows(apart), exchanged = of_rows(as_one);
  CHECK_FALSE(time_walk(s, within).run());
  time_walk walk(exchanged, within);
  REQUIRE(walk.run());
  auto const times = walk.take();
  CHECK(times.spans[0][5] == time_span{4, 6});   // 0SEND_F1
  CHECK(times.spans[0][4] == time_span{6, 9});   // 0RECV_B0
  CHECK(times.spans[1][5] == time_span{6, 9});   // 1SEND_B0
  CHECK(times.spans[1][6] == time_span{9, 10});  // 1F1
}
