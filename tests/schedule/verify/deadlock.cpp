// SPDX-License-Identifier: MIT
#include "cleave/schedule/verify/deadlock.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "support/cases.hpp"
#include "support/plain_lowering.hpp"
#include "support/queue_run.hpp"
#include "support/rng.hpp"
#include "support/run_order.hpp"
#include "support/thread_run.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

constexpr delivery deliveries[] = {delivery::buffered,    delivery::rendezvous, delivery::async,
                                   delivery::pair_stream, delivery::one_queue,  delivery::two_queues};

schedule of_rows(std::vector<std::string> const& rows) {
  std::vector<std::vector<action>> lists;
  for (auto const& row : rows) lists.push_back(read_row(row));
  return schedule_from_rows(lists, row_contents::with_communication);
}

std::string text_of(std::vector<waiting_action> const& waits) {
  std::string text;
  for (auto const& w : waits)
    text += std::to_string(index(w.rank)) + ":" + action_text(w.at) + ">" +
            std::to_string(index(w.for_rank)) + ":" + action_text(w.for_what) + " ";
  return text;
}

/// Returns true if each action waits for the next rank, is where its rank is, and none is repeated.
bool is_circle(schedule const& s, std::vector<waiting_action> const& c) {
  for (std::size_t i = 0; i < c.size(); ++i) {
    if (c[i].for_rank != c[(i + 1) % c.size()].rank) return false;
    if (s.ranks[index(c[i].rank)][c[i].position] != c[i].at) return false;
    for (std::size_t k = 0; k < i; ++k)
      if (c[k].rank == c[i].rank && c[k].position == c[i].position) return false;
  }
  return true;
}

schedule_family const families[] = {schedule_family::gpipe, schedule_family::one_f_one_b,
                                    schedule_family::interleaved_1f1b, schedule_family::zbv,
                                    schedule_family::interleaved_zero_bubble};

/// A random family with messages.
schedule random_lowered(testing::rng& random) {
  auto const family = families[random.below(std::size(families))];
  auto const ranks = static_cast<std::uint32_t>(1 + random.below(4));
  bool const one = family == schedule_family::gpipe || family == schedule_family::one_f_one_b;
  auto const s =
      make_schedule(family, {.ranks = ranks,
                             .stages_per_rank = one ? 1u : 2u,
                             .microbatches = ranks * static_cast<std::uint32_t>(1 + random.below(2))});
  return testing::with_plain_messages(s);
}

/// Swaps a few actions of some ranks.
void shuffle_some(testing::rng& random, schedule& s) {
  for (auto& row : s.ranks)
    for (std::size_t n = random.below(4); n > 0 && row.size() > 1; --n) {
      auto const i = random.below(row.size());
      std::swap(row[i], row[std::min(row.size() - 1, i + 1 + random.below(5))]);
    }
}

/// Returns true if each wait for a send follows the send.
bool waits_follow_sends(schedule const& s) {
  for (auto const& row : s.ranks)
    for (auto at = row.begin(); at != row.end(); ++at)
      if (is_wait_send(at->kind) && std::none_of(row.begin(), at, [&](action const& a) {
            return is_send(a.kind) && a.stage == at->stage && a.microbatch == at->microbatch &&
                   (a.kind == action_kind::send_activation) ==
                       (at->kind == action_kind::wait_send_activation);
          }))
        return false;
  return true;
}

}  // namespace

TEST_CASE("find_deadlock: receives in the order of the sends finish with every delivery") {
  auto const s =
      of_rows({"0F0,0SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0", "1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0"});
  for (auto const d : deliveries) CHECK(deadlock_verdict(s, d) == "finishes");
}

TEST_CASE("find_deadlock: two ranks that send to each other first finish only if sends do not block") {
  auto const both_send = of_rows({"0F0,0SEND_F0,2RECV_F0,2F0", "1RECV_F0,1F0,1SEND_F0"});
  CHECK(deadlock_verdict(both_send, delivery::rendezvous) == "finishes");
  auto const crossed = of_rows(
      {"0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2RECV_F1,2F1", "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1"});
  CHECK(deadlock_verdict(crossed, delivery::buffered) == "finishes");
  CHECK(deadlock_verdict(crossed, delivery::async) == "finishes");
  CHECK(deadlock_verdict(crossed, delivery::rendezvous) ==
        "deadlock: rank 0 at 0SEND_F1, rank 1 at 1SEND_F0");
  CHECK(deadlock_verdict(crossed, delivery::pair_stream) == "deadlock: rank 0 at 2F0, rank 1 at 1F1");
  CHECK(text_of(find_deadlock(crossed, delivery::rendezvous)->cycle) ==
        "0:0SEND_F1>1:1RECV_F1 1:1SEND_F0>0:2RECV_F0 ");
}

TEST_CASE("find_deadlock: names the shortest cycle, without the ranks that wait for it") {
  auto const s = of_rows({"0F0,0B0,0F1,0B1", "1F0,1F1,1B0,1B1"});
  auto const found = find_deadlock(s);
  REQUIRE(found);
  CHECK(describe(*found) == "rank 0 at 0B0, rank 1 at 1F1");
  CHECK(text_of(found->cycle) == "0:0B0>1:1B0 1:1F1>0:0F1 ");
  auto const itself = find_deadlock(of_rows({"0F0,0B0", "1B0,1F0"}));
  REQUIRE(itself);
  CHECK(text_of(itself->cycle) == "1:1B0>1:1F0 ");
  CHECK(itself->waiting.size() == 2);
}

TEST_CASE("find_deadlock: a rank that waits for an action that is not listed is in no cycle") {
  auto const found = find_deadlock(of_rows({"0F0", "1F0,1F1"}));
  REQUIRE(found);
  CHECK(found->cycle.empty());
  CHECK(text_of(found->waiting) == "1:1F1>0:0F1 ");
}

TEST_CASE("find_deadlock: a compound runs its parts one after the other") {
  CHECK(!find_deadlock(of_rows({"0F0,(0F1;0B0)OVERLAP_F_B,0B1"})));
  CHECK(deadlock_verdict(of_rows({"(0B0;0F0)OVERLAP_F_B"}), delivery::buffered) == "deadlock: rank 0 at 0B0");
}

TEST_CASE("find_deadlock: rejects counts that are too large for the lists, and an invalid placement") {
  auto s = of_rows({"0F0", "1F0"});
  s.microbatches = 1u << 30;
  CHECK_THROWS_AS((void)find_deadlock(s), schedule_count_error);
  s.microbatches = 1;
  s.place.rank_of[1] = rank_id{7};
  CHECK_THROWS_AS((void)find_deadlock(s), stage_placement_error);
}

TEST_CASE("find_deadlock: verdicts match real queues, for good and shuffled lists") {
  testing::rng random(20);
  std::size_t stuck = 0, finished = 0;
  auto const rounds = testing::cases(200, 600);
  for (std::size_t i = 0; i < rounds; ++i) {
    auto s = random_lowered(random);
    if (i % 4 != 0) shuffle_some(random, s);
    for (auto const d : {delivery::buffered, delivery::rendezvous, delivery::async, delivery::pair_stream}) {
      auto const verdict = deadlock_verdict(s, d);
      REQUIRE(verdict == testing::queue_run(s, d).verdict());
      ++(verdict == "finishes" ? finished : stuck);
      if (auto const found = find_deadlock(s, d)) REQUIRE(is_circle(s, found->cycle));
    }
  }
  CHECK(stuck > rounds / 2);
  CHECK(finished > rounds / 2);
}

TEST_CASE("find_deadlock: without messages, verdicts match a naive run") {
  testing::rng random(21);
  std::size_t stuck = 0;
  for (int i = 0; i < 300; ++i) {
    auto const ranks = static_cast<std::uint32_t>(1 + random.below(4));
    auto s = make_schedule(schedule_family::zbv, {.ranks = ranks, .stages_per_rank = 2, .microbatches = 3});
    shuffle_some(random, s);
    bool const expected = !testing::run_order(s).stuck.empty();
    stuck += expected ? 1 : 0;
    for (auto const d : deliveries) REQUIRE(find_deadlock(s, d).has_value() == expected);
  }
  CHECK(stuck > 20);
  CHECK(stuck < 280);
}

TEST_CASE("find_deadlock: buffers for the messages ahead of their receives are enough to finish") {
  auto const crossed = of_rows(
      {"0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2RECV_F1,2F1", "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1"});
  CHECK(deadlock_verdict(crossed, {.buffers = 0}) == deadlock_verdict(crossed, delivery::rendezvous));
  CHECK(deadlock_verdict(crossed, {.buffers = 1}) == "finishes");
  auto const ahead = of_rows({"0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0F3,0SEND_F3,0RECV_B0,0RECV_B1",
                              "1RECV_F0,1RECV_F1,1F0,1F1,1B0,1B1,1SEND_B0,1SEND_B1,1RECV_F2,1RECV_F3"});
  CHECK(deadlock_verdict(ahead, {.buffers = 0}) == "deadlock: rank 0 at 0SEND_F2, rank 1 at 1SEND_B0");
  CHECK(deadlock_verdict(ahead, {.buffers = 2}) == "finishes");
  auto const found = find_deadlock(ahead, {.buffers = 1});
  REQUIRE(found);
  CHECK(text_of(found->cycle) == "0:0SEND_F3>1:1RECV_F2 1:1SEND_B1>0:0RECV_B0 ");
}

TEST_CASE("find_deadlock: messages that begin together need no order among them") {
  std::vector<std::string> const rows = {"0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2RECV_F1,2F1",
                                         "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1"};
  auto const s = of_rows(rows);
  CHECK(deadlock_verdict(s, serial_device) == "finishes");
  CHECK(deadlock_verdict(s, {.delivery = delivery::pair_stream, .groups = message_groups::adjacent}) ==
        "finishes");
  // Messages of a compound begin together with every delivery.
  auto marked = s;
  marked.ranks[0].insert(marked.ranks[0].begin() + 3, action{.kind = action_kind::exchange, .parts = 2});
  marked.ranks[1].insert(marked.ranks[1].begin() + 2, action{.kind = action_kind::exchange, .parts = 2});
  CHECK(deadlock_verdict(marked, delivery::rendezvous) == "finishes");
  CHECK(deadlock_verdict(marked, delivery::one_queue) == "finishes");
  // But the rank continues only when all of them have ended.
  auto const needed =
      of_rows({"0F0,0SEND_F0,0RECV_B0,0F1,0SEND_F1,0B0", "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0"});
  CHECK(deadlock_verdict(needed, {.delivery = delivery::two_queues}) == "finishes");
  CHECK(deadlock_verdict(needed, {.delivery = delivery::two_queues, .groups = message_groups::adjacent}) ==
        "finishes");
  CHECK(deadlock_verdict(needed, serial_device) == "deadlock: rank 0 at 0RECV_B0, rank 1 at 1RECV_F1");
}

TEST_CASE("find_deadlock: one queue gets stuck and two do not, and the cycle names the queued actions") {
  auto const s = testing::with_plain_messages(
      make_schedule(schedule_family::one_f_one_b, {.ranks = 2, .microbatches = 3}));
  CHECK(deadlock_verdict(s, delivery::two_queues) == "finishes");
  auto const found = find_deadlock(s, delivery::one_queue);
  REQUIRE(found);
  CHECK(text_of(found->cycle) == "0:0SEND_F1>1:1RECV_F1 1:1SEND_B0>0:0RECV_B0 ");
}

TEST_CASE("find_deadlock: a wait before its send is passed, except with delivery::pair_stream") {
  auto const s = of_rows({"0F0,0WAIT_SEND_F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"});
  for (auto const d : deliveries) CHECK(!!find_deadlock(s, d) == (d == delivery::pair_stream));
}

TEST_CASE("find_deadlock: more buffers or queues never add a deadlock") {
  testing::rng random(22);
  for (std::size_t i = 0; i < testing::cases(70, 200); ++i) {
    auto s = random_lowered(random);
    shuffle_some(random, s);
    auto const finishes = [&](delivery_rules const& rules) { return !find_deadlock(s, rules); };
    for (std::uint32_t k = 0; k < 4; ++k)
      if (finishes({.buffers = k})) REQUIRE(finishes({.buffers = k + 1}));
    REQUIRE(finishes({.buffers = 0}) == finishes({.delivery = delivery::rendezvous}));
    if (finishes({.buffers = 3})) REQUIRE(finishes({.delivery = delivery::buffered}));
    if (waits_follow_sends(s) && finishes({.delivery = delivery::rendezvous}))
      for (auto const d : deliveries)
        for (auto const g : {message_groups::listed, message_groups::adjacent})
          REQUIRE(finishes({.delivery = d, .groups = g}));
    if (finishes({.delivery = delivery::one_queue})) REQUIRE(finishes({.delivery = delivery::two_queues}));
  }
}

TEST_CASE("find_deadlock: verdicts match threads with blocking queues, for good and shuffled lists") {
  testing::rng random(23);
  std::size_t stuck = 0, finished = 0;
  auto const rounds = testing::cases(28, 80);
  for (std::size_t i = 0; i < rounds; ++i) {
    auto s = random_lowered(random);
    if (i % 4 != 0) shuffle_some(random, s);
    if (i % 3 == 0) testing::mark_some_groups(random, s);
    for (auto const& rules : testing::all_deliveries) {
      auto const verdict = deadlock_verdict(s, rules);
      CAPTURE(static_cast<int>(rules.delivery));
      CAPTURE(rules.buffers);
      REQUIRE(verdict == testing::thread_run(s, rules).verdict());
      ++(verdict == "finishes" ? finished : stuck);
      if (auto const found = find_deadlock(s, rules)) REQUIRE(is_circle(s, found->cycle));
    }
  }
  CHECK(stuck > rounds * 5 / 4);
  CHECK(finished > rounds * 5 / 4);
}
