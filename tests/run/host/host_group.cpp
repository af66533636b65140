// SPDX-License-Identifier: MIT
#include "cleave/run/host/host_group.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

constexpr rank_id r1{1}, r2{2}, r3{3};

/// One end of a message of doubles, with its own event.
struct message_end {
  std::vector<double> numbers;
  std::uint32_t number = 0;
  host_event event{};

  region memory() { return {numbers.data(), numbers.size(), element_type::f64}; }
  message with(std::uint32_t member) const {
    return {rank_id{member}, number, {stage_id{4}, microbatch_id{5}}};
  }
  void send(host_group& g, std::uint32_t from, std::uint32_t to) {
    g.issue(from, std::array{group_transfer::send(memory(), with(to))}, 0, event);
  }
  void receive(host_group& g, std::uint32_t from, std::uint32_t to) {
    g.issue(to, std::array{group_transfer::receive(memory(), with(from))}, 0, event);
  }
  /// Issues reduction `n` of the member.
  void reduce(host_group& g, std::uint32_t member, std::uint64_t n, reduce_op op) {
    g.issue(member, std::array{group_transfer::reduce(memory(), op, number)}, n, event);
  }
};

}  // namespace

TEST_CASE("host_group: the second end of a message copies it, and both ends complete") {
  host_ranks ranks(4);
  host_group group(ranks, {r3, r1});
  CHECK(group.size() == 2);
  for (bool const send_first : {true, false}) {
    message_end sent{{1, 2, 3}}, received{{0, 0, 0}};
    auto const send = [&] { sent.send(group, 0, 1); };
    auto const receive = [&] { received.receive(group, 0, 1); };
    send_first ? send() : receive();
    CHECK_FALSE((send_first ? sent : received).event.happened());
    CHECK(received.numbers == std::vector<double>{0, 0, 0});
    send_first ? receive() : send();
    CHECK(sent.event.happened());
    CHECK(received.event.happened());
    CHECK(received.numbers == std::vector<double>{1, 2, 3});
  }
  CHECK_FALSE(ranks.failed());
}

TEST_CASE("host_group: messages of a pair match in order, independently of other pairs") {
  rng random(21);
  for (int round = 0; round < 100; ++round) {
    host_ranks ranks(4);
    host_group group(ranks, {r1, r2, r3});
    std::deque<message_end> ends;
    struct channel {
      std::uint32_t from, to, sent = 0, received = 0;
      std::vector<message_end*> there{}, here{};
    };
    std::vector<channel> channels{{0, 1}, {1, 0}, {0, 2}, {2, 1}, {1, 1}};
    for (int i = 0; i < 60; ++i) {
      auto& c = channels[random.below(channels.size())];
      bool const sends = random.one_in(2);
      auto& n = sends ? c.sent : c.received;
      auto& e = ends.emplace_back(message_end{{sends ? c.from * 1000. + c.to * 100 + n : -1}, n});
      ++n;
      (sends ? c.there : c.here).push_back(&e);
      sends ? e.send(group, c.from, c.to) : e.receive(group, c.from, c.to);
    }
    for (auto const& c : channels)
      for (std::uint32_t n = 0; n < std::max(c.sent, c.received); ++n) {
        bool const met = n < std::min(c.sent, c.received);
        if (n < c.sent) CHECK(c.there[n]->event.happened() == met);
        if (n < c.received) CHECK(c.here[n]->event.happened() == met);
        if (n < c.received) CHECK(c.here[n]->numbers[0] == (met ? c.from * 1000. + c.to * 100 + n : -1));
      }
    CHECK_FALSE(ranks.failed());
  }
}

TEST_CASE("host_group: a group of transfers ends with its last one, while each proceeds on its own") {
  host_ranks ranks(2);
  host_group group(ranks, {rank_id{0}, rank_id{1}});
  message_end first{{1}, 0}, second{{2}, 1}, first_there{{0}, 0}, second_there{{0}, 1};
  message_end one{{3}, 2}, other{{4}, 3}, one_there{{5}, 2}, other_there{{6}, 3};
  host_event end;
  group.issue(0,
              std::array{group_transfer::reduce(one.memory(), reduce_op::sum, 2),
                         group_transfer::send(first.memory(), first.with(1)),
                         group_transfer::send(second.memory(), second.with(1)),
                         group_transfer::reduce(other.memory(), reduce_op::max, 3)},
              7, end);
  for (std::uint64_t n = 0; n < 7; ++n) {
    message_end here{{1}}, there{{1}};
    here.reduce(group, 0, n, reduce_op::sum);
    there.reduce(group, 1, n, reduce_op::sum);
  }
  other_there.reduce(group, 1, 8, reduce_op::max);
  CHECK(other.numbers[0] == 6);
  first_there.receive(group, 0, 1);
  CHECK(first_there.numbers[0] == 1);
  one_there.reduce(group, 1, 7, reduce_op::sum);
  CHECK(one.numbers[0] == 8);
  CHECK_FALSE(end.happened());
  second_there.receive(group, 0, 1);
  CHECK(second_there.numbers[0] == 2);
  CHECK(end.happened());
  CHECK_FALSE(ranks.failed());
}

TEST_CASE("host_group: an empty group has ended at once") {
  host_ranks ranks(1);
  host_group group(ranks, {rank_id{0}});
  host_event end;
  group.issue(0, {}, 0, end);
  CHECK(end.happened());
  CHECK(end.at() > host_event::clock::time_point());
}

TEST_CASE("host_group: ends that disagree on number or size fail the run with both ranks named") {
  for (bool const send_first : {true, false}) {
    for (bool const by_number : {true, false}) {
      host_ranks ranks(4);
      host_group group(ranks, {r3, r1});
      message_end sent{{1, 2}, 7}, received{{0, 0, 0}, 7};
      if (by_number) received = {{0, 0}, 8};
      auto const before = received.numbers;
      if (send_first) sent.send(group, 0, 1);
      received.receive(group, 0, 1);
      if (!send_first) sent.send(group, 0, 1);
      auto const f = ranks.poll();
      REQUIRE(f);
      CHECK(f->code == failure_code::mismatch);
      CHECK(f->at == stage_call{stage_id{4}, microbatch_id{5}});
      CHECK(f->reporter == r1);
      CHECK(f->culprit == r3);
      CHECK(f->detail == (by_number
                              ? "rank 3 sends message 7 of 16 bytes, but rank 1 receives message 8 of 16 "
                                "bytes; both must run the same program"
                              : "rank 3 sends message 7 of 16 bytes, but rank 1 receives message 7 of 24 "
                                "bytes; both must run the same program"));
      CHECK_FALSE(sent.event.happened());
      CHECK_FALSE(received.event.happened());
      CHECK(received.numbers == before);
    }
  }
}

TEST_CASE("host_group: messages without bytes still match") {
  host_ranks ranks(2);
  host_group group(ranks, {rank_id{0}, rank_id{1}});
  message_end sent, received;
  sent.send(group, 0, 1);
  received.receive(group, 0, 1);
  CHECK(received.event.happened());
}

TEST_CASE("host_group: a reduction gives all members the sum in member order, or the maximum") {
  for (auto const op : {reduce_op::sum, reduce_op::max}) {
    host_ranks ranks(4);
    host_group group(ranks, {r3, r1, r2});
    std::vector<message_end> parts(3);
    parts[0].numbers = {1e30, 1};
    parts[1].numbers = {-1e30, 2};
    parts[2].numbers = {1, 3};
    for (std::uint32_t const m : {2u, 0u}) {
      parts[m].reduce(group, m, 0, op);
      CHECK_FALSE(parts[m].event.happened());
    }
    parts[1].reduce(group, 1, 0, op);
    for (auto const& p : parts) {
      CHECK(p.event.happened());
      CHECK(p.numbers == (op == reduce_op::sum ? std::vector<double>{1, 6} : std::vector<double>{1e30, 3}));
    }
  }
}

TEST_CASE("host_group: reductions match by each member's sequence number, however far one is ahead") {
  rng random(22);
  for (int round = 0; round < 100; ++round) {
    host_ranks ranks(3);
    host_group group(ranks, {rank_id{0}, r1, r2});
    constexpr std::uint32_t reductions = 8;
    std::vector<std::vector<message_end>> parts(3);
    for (std::uint32_t m = 0; m < 3; ++m) {
      parts[m].resize(reductions);
      for (std::uint32_t n = 0; n < reductions; ++n) {
        parts[m][n].numbers = {m * 100. + n};
        parts[m][n].number = n;
      }
    }
    std::vector<std::uint32_t> next(3);
    while (next != std::vector{reductions, reductions, reductions}) {
      auto const m = static_cast<std::uint32_t>(random.below(3));
      if (next[m] == reductions) continue;
      parts[m][next[m]].reduce(group, m, next[m], reduce_op::sum);
      ++next[m];
      auto const all = std::min({next[0], next[1], next[2]});
      for (std::uint32_t n = 0; n < next[m]; ++n) CHECK(parts[m][n].event.happened() == (n < all));
    }
    for (auto const& member : parts)
      for (std::uint32_t n = 0; n < reductions; ++n) CHECK(member[n].numbers[0] == 300. + 3 * n);
    CHECK_FALSE(ranks.failed());
  }
}

TEST_CASE("host_group: reductions that disagree fail the run with both ranks named") {
  auto const failed_with = [](message_end other, element_type type, reduce_op op = reduce_op::sum) {
    host_ranks ranks(4);
    host_group group(ranks, {r3, r1});
    message_end part{{1, 2}, 4};
    part.reduce(group, 0, 0, reduce_op::sum);
    auto theirs = group_transfer::reduce(other.memory(), op, other.number);
    theirs.memory.type = type;
    group.issue(1, std::span(&theirs, 1), 0, other.event);
    auto const f = ranks.poll();
    REQUIRE(f);
    CHECK(f->code == failure_code::mismatch);
    CHECK(f->reporter == r1);
    CHECK(f->culprit == r3);
    CHECK_FALSE(part.event.happened());
    CHECK(part.numbers == std::vector<double>{1, 2});
    return f->detail;
  };
  auto const text = [](std::string const& theirs) {
    return "rank 3 contributes message 4, the sum of 16 bytes of f64, but rank 1 contributes " + theirs +
           "; both must run the same program";
  };
  CHECK(failed_with({{1, 2}, 5}, element_type::f64) == text("message 5, the sum of 16 bytes of f64"));
  CHECK(failed_with({{1, 2, 3}, 4}, element_type::f64) == text("message 4, the sum of 24 bytes of f64"));
  CHECK(failed_with({{1, 2}, 4}, element_type::i64) == text("message 4, the sum of 16 bytes of i64"));
  CHECK(failed_with({{1, 2}, 4}, element_type::f64, reduce_op::max) ==
        text("message 4, the maximum of 16 bytes of f64"));
}
