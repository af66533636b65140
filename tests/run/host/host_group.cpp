// SPDX-License-Identifier: MIT
#include "cleave/run/host/host_group.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;
using namespace cleave::testing;

namespace {

constexpr rank_id r1{1}, r2{2}, r3{3};

/// One end of a message of doubles, with an event of its own.
struct message_end {
  std::vector<double> numbers;
  std::uint32_t number = 0;
  host_event event{};

  host_group::issued issue(std::uint32_t transfers = 1) {
    return {{numbers.data(), numbers.size(), element_type::f64},
            {rank_id{0}, number, {stage_id{4}, microbatch_id{5}}},
            &event.expect(transfers)};
  }
};

}  // namespace

TEST_CASE("host group: whoever comes second copies, and both have ended then") {
  host_ranks ranks(4);
  host_group group(ranks, {r3, r1});
  CHECK(group.size() == 2);
  for (bool const send_first : {true, false}) {
    message_end sent{{1, 2, 3}}, received{{0, 0, 0}};
    auto const send = [&] { group.send(0, 1, sent.issue()); };
    auto const receive = [&] { group.receive(0, 1, received.issue()); };
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

TEST_CASE("host group: messages of a pair match in order, whoever is ahead; pairs know nothing of others") {
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
      sends ? group.send(c.from, c.to, e.issue()) : group.receive(c.from, c.to, e.issue());
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

TEST_CASE("host group: an end of several transfers happens with the last") {
  host_ranks ranks(2);
  host_group group(ranks, {rank_id{0}, rank_id{1}});
  message_end sent{{1}}, first{{0}}, second{{0}};
  auto both = sent.issue(2);
  group.send(0, 1, both);
  group.send(0, 1, both);
  group.receive(0, 1, first.issue());
  CHECK_FALSE(sent.event.happened());
  group.receive(0, 1, second.issue());
  CHECK(sent.event.happened());
}

TEST_CASE("host group: ends that disagree about the number or the bytes fail the run, and both are named") {
  for (bool const send_first : {true, false}) {
    for (bool const by_number : {true, false}) {
      host_ranks ranks(4);
      host_group group(ranks, {r3, r1});
      message_end sent{{1, 2}, 7}, received{{0, 0, 0}, 7};
      if (by_number) received = {{0, 0}, 8};
      auto const before = received.numbers;
      if (send_first) group.send(0, 1, sent.issue());
      group.receive(0, 1, received.issue());
      if (!send_first) group.send(0, 1, sent.issue());
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

TEST_CASE("host group: messages without bytes only meet") {
  host_ranks ranks(2);
  host_group group(ranks, {rank_id{0}, rank_id{1}});
  message_end sent, received;
  group.send(0, 1, sent.issue());
  group.receive(0, 1, received.issue());
  CHECK(received.event.happened());
}

TEST_CASE("host group: a reduction is the sum in the order of the members, or the maximum, at all of them") {
  for (auto const op : {reduce_op::sum, reduce_op::max}) {
    host_ranks ranks(4);
    host_group group(ranks, {r3, r1, r2});
    std::vector<message_end> parts(3);
    parts[0].numbers = {1e30, 1};
    parts[1].numbers = {-1e30, 2};
    parts[2].numbers = {1, 3};
    for (std::uint32_t const m : {2u, 0u}) {
      group.reduce(m, 0, parts[m].issue(), op);
      CHECK_FALSE(parts[m].event.happened());
    }
    group.reduce(1, 0, parts[1].issue(), op);
    for (auto const& p : parts) {
      CHECK(p.event.happened());
      CHECK(p.numbers == (op == reduce_op::sum ? std::vector<double>{1, 6} : std::vector<double>{1e30, 3}));
    }
  }
}

TEST_CASE(
    "host group: reductions match by their place in the order of each member, however far one is ahead") {
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
      group.reduce(m, next[m], parts[m][next[m]].issue(), reduce_op::sum);
      ++next[m];
      auto const all = std::min({next[0], next[1], next[2]});
      for (std::uint32_t n = 0; n < next[m]; ++n) CHECK(parts[m][n].event.happened() == (n < all));
    }
    for (auto const& member : parts)
      for (std::uint32_t n = 0; n < reductions; ++n) CHECK(member[n].numbers[0] == 300. + 3 * n);
    CHECK_FALSE(ranks.failed());
  }
}

TEST_CASE("host group: reductions that disagree fail the run, and both ranks are named") {
  auto const failed_with = [](message_end other, element_type type) {
    host_ranks ranks(4);
    host_group group(ranks, {r3, r1});
    message_end part{{1, 2}, 4};
    group.reduce(0, 0, part.issue(), reduce_op::sum);
    auto issued = other.issue();
    issued.memory.type = type;
    group.reduce(1, 0, issued, reduce_op::sum);
    auto const f = ranks.poll();
    REQUIRE(f);
    CHECK(f->code == failure_code::mismatch);
    CHECK(f->reporter == r1);
    CHECK(f->culprit == r3);
    CHECK_FALSE(part.event.happened());
    CHECK(part.numbers == std::vector<double>{1, 2});
    return f->detail;
  };
  std::string const begins = "of a reduction rank 3 brings message 4 of 16 bytes, but rank 1 brings message ";
  std::string const ends = " bytes; both must run the same program";
  CHECK(failed_with({{1, 2}, 5}, element_type::f64) == begins + "5 of 16" + ends);
  CHECK(failed_with({{1, 2, 3}, 4}, element_type::f64) == begins + "4 of 24" + ends);
  CHECK(failed_with({{1, 2}, 4}, element_type::f32) == begins + "4 of 8" + ends);
}
