// SPDX-License-Identifier: MIT
#include "cleave/run/rendezvous/detail/coordinator.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/run/rendezvous/tcp_rendezvous.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace std::chrono_literals;
using cleave::testing::rng;

namespace {

using time_point = coordinator::time_point;

/// Rank 0 and members, connected by queues in which messages stay in order and take any time.
struct star {
  coordinator hub;
  std::vector<participant> members;
  std::vector<std::deque<rendezvous_message>> up, down;
  time_point now{};

  explicit star(std::uint32_t ranks) : hub(ranks, 100ms), up(ranks), down(ranks) {
    for (std::uint32_t r = 0; r < ranks; ++r) members.emplace_back(rank_id{r}, ranks);
  }
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(members.size()); }

  void say(std::uint32_t r, std::optional<rendezvous_message> m) {
    if (m) up[r].push_back(*m);
  }
  void publish(std::uint32_t r, std::string what) {
    say(r, members[r].propose({failure_code::stage, {}, what}, now + 1h));
  }
  void arrive(std::uint32_t r, rank_id root = no_rank, std::string bytes = {},
              std::chrono::microseconds d = 1h) {
    barrier_arrival a{members[r].arrive(), root, bytes.size(), d};
    if (root == rank_id{r}) a.bytes = bytes;
    say(r, arrive_message(a));
  }
  /// Moves one message; returns false if there is none.
  bool step(rng& random) {
    std::vector<std::pair<bool, std::uint32_t>> ways;
    for (std::uint32_t r = 0; r < ranks(); ++r) {
      if (!up[r].empty()) ways.emplace_back(true, r);
      if (!down[r].empty()) ways.emplace_back(false, r);
    }
    if (ways.empty()) return false;
    auto const [is_up, r] = ways[random.below(ways.size())];
    auto& way = is_up ? up[r] : down[r];
    auto const m = way.front();
    way.pop_front();
    is_up ? hub.take(rank_id{r}, m, now) : members[r].take(m);
    settle();
    return true;
  }
  void settle() {
    for (auto& l : hub.take_letters()) down[index(l.to)].push_back(l.what);
  }
  void deliver_all(rng& random) {
    while (step(random)) {
    }
  }
};

}  // namespace

TEST_CASE("coordinator: all remaining ranks report the first failure that arrived") {
  rng random(23);
  for (int round = 0; round < 400; ++round) {
    star s(2 + static_cast<std::uint32_t>(random.below(15)));
    auto const any = [&] { return static_cast<std::uint32_t>(random.below(s.ranks())); };
    std::vector<bool> gone(s.ranks());
    for (auto n = 1 + random.below(5); n > 0; --n) {
      s.publish(any(), std::to_string(n));
      for (auto moves = random.below(6); moves > 0; --moves) s.step(random);
      if (auto const r = any(); r != 0 && random.one_in(4)) {
        gone[r] = true;
        s.up[r].clear();
        s.hub.lose(rank_id{r}, failure_code::peer_lost, "rank " + std::to_string(r) + " is lost");
        s.settle();
      }
    }
    s.deliver_all(random);
    std::optional<std::string> first;
    for (std::uint32_t r = 0; r < s.ranks(); ++r) {
      if (gone[r]) continue;
      REQUIRE(s.members[r].first());
      auto const said = describe(*s.members[r].first());
      CHECK(said == first.value_or(said));
      first = said;
      for (std::uint32_t q = 0; q < s.ranks(); ++q)
        CHECK((s.members[r].presence()[q] == rank_presence::lost) == gone[q]);
    }
  }
}

TEST_CASE("coordinator: no rank passes a barrier before all arrive, and broadcasts carry the root's bytes") {
  rng random(29);
  for (int round = 0; round < 100; ++round) {
    star s(1 + static_cast<std::uint32_t>(random.below(8)));
    std::vector<std::uint32_t> meetings(s.ranks());  // the number of meetings that each has come to
    auto const root_of = [&](std::uint32_t n) { return n % 3 == 0 ? no_rank : rank_id{n % s.ranks()}; };
    auto const bytes_of = [&](std::uint32_t n) {
      return n % 3 == 0 ? "" : std::string(n, 'x') + std::to_string(n);
    };
    for (bool moved = true; moved;) {
      moved = s.step(random);
      for (std::uint32_t r = 0; r < s.ranks(); ++r) {
        auto& n = meetings[r];
        if (!s.members[r].may_go_on() || n == 10) continue;
        if (n > 0) {
          CHECK(*std::ranges::min_element(meetings) >= n);
          CHECK(s.members[r].take_bytes() == (root_of(n) == rank_id{r} ? "" : bytes_of(n)));
        }
        ++n;
        s.arrive(r, root_of(n), bytes_of(n));
        moved = true;
      }
    }
    CHECK(meetings == std::vector(s.ranks(), 10u));
    for (auto const& m : s.members) CHECK(m.may_go_on());
    CHECK_FALSE(s.hub.due());
  }
}

TEST_CASE("coordinator: the shortest deadline decides how long all wait") {
  rng random(1);
  star s(3);
  s.arrive(1, no_rank, "", 5s);
  s.arrive(2, no_rank, "", 2s);
  s.deliver_all(random);
  CHECK(s.hub.due() == s.now + 2s);
  s.hub.pass(s.now + 2s - 1ns);
  CHECK(s.hub.take_letters().empty());
  s.hub.pass(s.now + 2s);
  s.settle();
  s.deliver_all(random);
  for (auto const& m : s.members)
    CHECK(describe(m.first().value()) ==
          "rank 0: timed out: only 2 of 3 ranks reached a barrier before the deadline: rank 0 is missing");
}

TEST_CASE("coordinator: asked ranks have a time limit, and the inquiry ends when all have answered") {
  rng random(2);
  star t(3);
  auto const waiting = [](std::uint32_t peer) {
    return rank_activity{activity_kind::waiting, {rank_id{peer}}};
  };
  t.say(1, t.members[1].report(waiting(2), t.now + 1h));
  t.deliver_all(random);
  CHECK(t.members[0].is_asked());
  CHECK(t.members[2].is_asked());
  CHECK_FALSE(t.members[1].is_asked());
  CHECK(t.hub.due() == t.now + 100ms);
  t.say(2, t.members[2].answer(waiting(0)));
  CHECK_FALSE(t.members[2].answer(waiting(0)));
  t.deliver_all(random);
  CHECK_FALSE(t.members[1].first());
  auto late = t;
  t.say(0, t.members[0].answer({activity_kind::computing}));
  t.deliver_all(random);
  CHECK(t.members[1].first()->detail == "rank 1 waits for rank 2, rank 2 waits for rank 0, rank 0 computes");
  late.hub.pass(late.now + 100ms);
  late.settle();
  late.deliver_all(random);
  CHECK(late.members[1].first()->detail ==
        "rank 1 waits for rank 2, rank 2 waits for rank 0, rank 0 does not answer");
  CHECK(late.members[1].first()->culprit == rank_id{0});
}

TEST_CASE("coordinator: a rank that leaves during an inquiry counts as answered") {
  rng random(3);
  star s(3);
  s.say(0, s.members[0].report({activity_kind::waiting, {rank_id{1}}}, s.now + 1h));
  s.deliver_all(random);
  s.say(2, rendezvous_message{message_kind::leave});
  s.say(1, rendezvous_message{message_kind::leave});
  s.deliver_all(random);
  CHECK(s.members[0].first()->detail == "rank 0 waits for rank 1, rank 1 is gone");
  CHECK(s.hub.is_alone());
}

TEST_CASE("coordinator: rejects repeated or contradictory messages and those that only rank 0 sends") {
  star s(2);
  auto const refuses = [&](rendezvous_message const& m) {
    try {
      s.hub.take(rank_id{1}, m, s.now);
      return false;
    } catch (rendezvous_message_error const&) {
      return true;
    }
  };
  for (auto const word :
       {message_kind::start, message_kind::absent, message_kind::release, message_kind::asked})
    CHECK(refuses({word}));
  CHECK(refuses({message_kind::failed}));
  CHECK(refuses(arrive_message({.number = 1})));
  CHECK(refuses(arrive_message({.root = rank_id{0}, .bytes = "x"})));
  CHECK(refuses(arrive_message({.root = rank_id{1}, .size = 2, .bytes = "x"})));
  CHECK_FALSE(refuses(arrive_message({})));
  CHECK(refuses(arrive_message({})));
}
