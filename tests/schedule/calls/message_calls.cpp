// SPDX-License-Identifier: MIT
#include "cleave/schedule/calls/rank_calls.hpp"

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <vector>

#include "cleave/schedule/text/schedule_csv.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using texts = std::vector<std::string>;

/// The messages of one rank of a loop of four stages on four ranks.
struct fixture {
  stage_placement place = loop_placement(4);
  std::vector<rank_call> calls;
  message_calls messages;

  explicit fixture(exchange_issue issue, exchange_end ends = exchange_end::together)
      : messages(place, {.exchanges = issue, .ends = ends}, calls) {}

  action const* begin(std::string const& cells) {
    begun.push_back(read_row(cells));
    return messages.begin(begun.back());
  }
  texts lines() const { return call_lines(calls); }
  std::vector<std::vector<action>> begun;
};

action message(std::string const& cell) { return read_row(cell).front(); }

}  // namespace

TEST_CASE("message_calls: messages of one direction begin one by one, mixed directions in one batch") {
  fixture f(exchange_issue::together);
  f.begin("1SEND_F0,1SEND_B0");
  f.begin("1SEND_F1,1RECV_B1");
  CHECK(f.lines() ==
        texts{"send F0 stage 1->2", "send B0 stage 1->0", "batch[send F1 stage 1->2; recv B1 stage 1<-2]"});
}

TEST_CASE("message_calls: exchange_issue::by_rank_pair begins messages in ascending order of rank pairs") {
  fixture f(exchange_issue::by_rank_pair);
  f.begin("1SEND_B0,1SEND_F1,1RECV_B1,1RECV_F2");
  CHECK(f.lines() ==
        texts{"recv F2 stage 1<-0", "send B0 stage 1->0", "send F1 stage 1->2", "recv B1 stage 1<-2"});
}

TEST_CASE("message_calls: a wait covers every message of its exchange, each only once") {
  fixture f(exchange_issue::together);
  f.begin("1RECV_F0");
  f.begin("1SEND_F1,1RECV_B1");
  f.messages.wait_for_send(message("1WAIT_SEND_F1"));
  CHECK(f.messages.wait_for_receive(message("1RECV_B1")));
  CHECK(f.messages.wait_for_receive(message("1RECV_F0")));
  CHECK(f.messages.wait_for_receive(message("1RECV_F0")));
  CHECK(!f.messages.wait_for_receive(message("1RECV_F9")));
  auto const waits = std::span(f.calls).subspan(4);
  CHECK(call_lines(waits) ==
        texts{"wait send F1 stage 1->2", "wait recv B1 stage 1<-2", "wait recv F0 stage 1<-0"});
  CHECK(waits[0].begun == 2);
  CHECK(waits[1].begun == 3);
  CHECK(waits[2].begun == 0);
}

TEST_CASE("message_calls: with exchange_end::each, a wait covers its own message alone") {
  fixture f(exchange_issue::together, exchange_end::each);
  f.begin("1SEND_F1,1SEND_F1@3,1RECV_B1");
  f.messages.wait_for_send(message("1WAIT_SEND_F1@3"));
  CHECK(call_lines(std::span(f.calls).subspan(4)) == texts{"wait send F1 stage 1->3"});
  f.messages.wait_for_send(message("1WAIT_SEND_F1"));
  CHECK(f.calls.back().begun == 1);
}

TEST_CASE("message_calls: begin returns a receive that has already begun, even in the same exchange") {
  fixture f(exchange_issue::together);
  CHECK(f.begin("1RECV_F0") == nullptr);
  auto const* twice = f.begin("1SEND_F1,1RECV_F0");
  REQUIRE(twice);
  CHECK(*twice == message("1RECV_F0"));
  CHECK(f.begin("1RECV_F2,1RECV_F2") != nullptr);
}

TEST_CASE("message_calls: sends_ended counts the sends that have been waited for") {
  fixture f(exchange_issue::together);
  f.begin("1SEND_F0,1SEND_F0@3,1RECV_B0");
  f.messages.wait_for_send(message("1WAIT_SEND_F0"));
  CHECK(f.messages.sends_ended(stage_id{1}, microbatch_id{0}) == 1);
  f.messages.wait_for_send(message("1WAIT_SEND_F0@3"));
  CHECK(f.messages.sends_ended(stage_id{1}, microbatch_id{0}) == 2);
}
