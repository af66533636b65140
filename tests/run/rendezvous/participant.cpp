// SPDX-License-Identifier: MIT
#include "cleave/run/rendezvous/tcp_rendezvous.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

using namespace cleave;

using namespace cleave::detail;
using namespace std::chrono_literals;

namespace {
participant::time_point const start{};
failure because(std::string why) { return {failure_code::stage, {}, std::move(why)}; }
}  // namespace

TEST_CASE("participant: a failure counts once rank 0 confirms it, and keeps its exception") {
  participant m(rank_id{1}, 3);
  auto f = because("mine");
  f.cause = std::make_exception_ptr(std::runtime_error("mine"));
  auto const proposal = m.propose(f, start + 1s);
  REQUIRE(proposal);
  CHECK_FALSE(m.propose(because("again"), start + 1s));
  CHECK_FALSE(m.first());
  CHECK(m.due() == start + 1s);
  auto other = m;
  m.take(*proposal);
  CHECK(m.first()->detail == "mine");
  CHECK(m.first()->reporter == rank_id{1});
  CHECK(m.first()->cause);
  CHECK_FALSE(m.due());
  other.take(failed_message({rank_id{2}, because("theirs")}));
  CHECK(other.first()->detail == "theirs");
  CHECK_FALSE(other.first()->cause);
}

TEST_CASE("participant: without an answer from rank 0, its own failure counts, or rank 0 is blamed") {
  participant m(rank_id{1}, 3);
  CHECK(m.propose(because("mine"), start + 1s));
  m.pass(start + 1s - 1ns);
  CHECK_FALSE(m.first());
  m.pass(start + 1s);
  CHECK(m.first()->detail == "mine");

  participant asks(rank_id{1}, 3);
  CHECK(asks.report({activity_kind::waiting, {rank_id{2}}}, start + 1s));
  asks.pass(start + 1s);
  CHECK(asks.first()->code == failure_code::timeout);
  CHECK(asks.first()->culprit == rank_id{0});
  CHECK(asks.first()->detail == "asked which rank blocks the others, rank 0 does not answer");
}

TEST_CASE("participant: losing rank 0 is a failure; its leaving is one only for ranks that need it") {
  participant lost(rank_id{1}, 3);
  lost.on_hub_lost(rank_presence::lost, failure_code::peer_lost, "gone");
  CHECK(lost.first()->culprit == rank_id{0});
  CHECK(lost.presence()[0] == rank_presence::lost);

  participant left(rank_id{1}, 3);
  left.take({message_kind::leave});
  left.on_hub_lost(rank_presence::lost, failure_code::peer_lost, "the connection ends after the good-bye");
  CHECK_FALSE(left.first());
  CHECK(left.presence()[0] == rank_presence::left);
  CHECK_FALSE(left.report({activity_kind::waiting, {rank_id{2}}}, start + 1s));
  CHECK(left.first()->detail == "rank 1 waits for rank 2, rank 2 does not answer");

  participant meets(rank_id{1}, 3);
  meets.arrive();
  meets.take({message_kind::leave});
  CHECK(meets.first()->detail == "rank 0 has left, but all ranks must take part");

  participant fails(rank_id{1}, 3);
  CHECK(fails.propose(because("mine"), start + 1s));
  fails.take({message_kind::leave});
  CHECK(fails.first()->detail == "mine");
}

TEST_CASE("participant: rejects messages that only others may send or that make no sense") {
  participant m(rank_id{1}, 3);
  for (auto const word : {message_kind::start, message_kind::arrive, message_kind::activity})
    CHECK_THROWS_AS(m.take({word}), rendezvous_message_error);
  CHECK_THROWS_AS(m.take({message_kind::absent, std::string("\x03\0\0\0\1", 5)}), rendezvous_message_error);
  CHECK_THROWS_AS(m.take({message_kind::absent, std::string("\x02\0\0\0\3", 5)}), rendezvous_message_error);
  CHECK_THROWS_AS(m.take({message_kind::release, std::string(8, '\0')}), rendezvous_message_error);
  m.arrive();
  CHECK_THROWS_AS(m.take({message_kind::release, std::string(8, '\1')}), rendezvous_message_error);
  m.take({message_kind::release, std::string(8, '\0') + "bytes"});
  CHECK(m.may_go_on());
  CHECK(m.take_bytes() == "bytes");
}
