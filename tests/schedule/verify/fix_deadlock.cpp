// SPDX-License-Identifier: MIT
#include "cleave/schedule/verify/fix_deadlock.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "cleave/schedule/verify/verify.hpp"
#include "support/plain_lowering.hpp"
#include "support/rng.hpp"
#include "support/run_order.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

schedule of_rows(std::vector<std::string> const& rows) {
  std::vector<std::vector<action>> lists;
  for (auto const& row : rows) lists.push_back(read_row(row));
  return schedule_from_rows(lists, row_contents::with_communication);
}

std::string text_of(std::vector<moved_action> const& moved) {
  std::string text;
  for (auto const& m : moved) text += (text.empty() ? "" : "; ") + describe(m);
  return text;
}

/// Returns the sorted actions of each rank, without compounds, which may have been split.
std::vector<std::vector<std::string>> done_in(schedule const& s) {
  std::vector<std::vector<std::string>> all;
  for (auto const& row : s.ranks) {
    auto& names = all.emplace_back();
    each_action(row, [&](action const& a) { names.push_back(action_text(a)); });
    std::ranges::sort(names);
  }
  return all;
}

/// Returns true if each reported move is correct and all other actions keep their order.
bool tells_the_truth(schedule const& before, deadlock_free_order const& after) {
  auto old = before.ranks, now = after.order.ranks;
  for (auto const& m : after.moved) {
    auto &from = old[index(m.rank)][m.from], &to = now[index(m.rank)][m.to];
    if (from != m.what || to != m.what) return false;
    from = to = {};
  }
  for (auto* rows : {&old, &now})
    for (auto& row : *rows) std::erase_if(row, [](action const& a) { return a == action{} || a.parts > 0; });
  return old == now;
}

verify_options options_of(delivery_rules const& rules) {
  return {.delivery = rules.delivery, .buffers = rules.buffers, .groups = rules.groups};
}

constexpr delivery_rules ways[] = {
    {.delivery = delivery::buffered},    {.delivery = delivery::buffered, .buffers = 1},
    {.delivery = delivery::rendezvous},  {.delivery = delivery::async},
    {.delivery = delivery::pair_stream}, {.delivery = delivery::one_queue},
    {.delivery = delivery::two_queues},  serial_device};

}  // namespace

TEST_CASE("fix_deadlock: leaves a schedule unchanged that finishes") {
  auto const s = of_rows({"0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"});
  for (auto const& rules : ways) {
    auto const repaired = fix_deadlock(s, rules);
    CHECK(repaired.order == s);
    CHECK(repaired.moved.empty());
  }
}

TEST_CASE("fix_deadlock: of two ranks that send to each other first, one receives first instead") {
  auto const s = of_rows(
      {"0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2RECV_F1,2F1", "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1"});
  for (auto const d : {delivery::rendezvous, delivery::pair_stream, delivery::one_queue}) {
    auto const repaired = fix_deadlock(s, {.delivery = d});
    CHECK(text_of(repaired.moved) == "rank 1: '1RECV_F1' from #3 to #2");
    CHECK(!find_deadlock(repaired.order, d));
  }
  CHECK(fix_deadlock(s, {.buffers = 1}).moved.empty());
}

TEST_CASE("fix_deadlock: without messages, moves a pass forward") {
  auto const repaired = fix_deadlock(of_rows({"0F0,0B0,0F1,0B1", "1F0,1F1,1B0,1B1"}));
  CHECK(text_of(repaired.moved) == "rank 1: '1B0' from #2 to #1");
  CHECK(text_of(fix_deadlock(of_rows({"0B0,0F0"})).moved) == "rank 0: '0F0' from #1 to #0");
}

TEST_CASE("fix_deadlock: moves an action forward together with its dependencies") {
  auto const s = of_rows({"0F0,0SEND_F0,0RECV_B0,0B0,0F1,0SEND_F1,0RECV_B1,0B1",
                          "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1"});
  for (auto const& rules : ways) {
    auto const repaired = fix_deadlock(s, rules);
    CHECK(!find_deadlock(repaired.order, rules));
    CHECK(schedule_faults(repaired.order, options_of(rules)).empty());
    if (rules == serial_device)
      CHECK(text_of(repaired.moved) == "rank 1: '1B0' from #4 to #2; rank 1: '1SEND_B0' from #5 to #3");
  }
}

TEST_CASE("fix_deadlock: with delivery::rendezvous, puts receives in the order of the sends") {
  auto const s = of_rows({"0F0,0SEND_F0,0F1,0SEND_F1", "1RECV_F1,1RECV_F0,1F0,1F1"});
  auto const repaired = fix_deadlock(s, {.delivery = delivery::rendezvous});
  CHECK(text_of(repaired.moved) == "rank 1: '1RECV_F0' from #1 to #0");
  CHECK(!find_channel_mismatch(repaired.order));
}

TEST_CASE("fix_deadlock: keeps stages unsharded while they compute, and splits a compound only if needed") {
  auto const s = of_rows({"0UNSHARD,0F0,0B0,0RESHARD,0UNSHARD,0F1,0B1,0RESHARD", "1F0,1F1,1B0,1B1"});
  auto const repaired = fix_deadlock(s);
  CHECK(schedule_faults(repaired.order).empty());
  auto const parted = fix_deadlock(of_rows({"(0F0;0B0)OVERLAP_F_B,(0F1;0B1)OVERLAP_F_B", "1F0,1F1,1B0,1B1"}));
  CHECK(schedule_faults(parted.order).empty());
  auto const kept = fix_deadlock(of_rows({"0F0,(0F1;0B0)OVERLAP_F_B,0B1", "1F0,1B1,1F1,1B0"}));
  CHECK(schedule_faults(kept.order).empty());
  CHECK(row_text(kept.order.ranks[0]) == "0F0,(0F1;0B0)OVERLAP_F_B,0B1");
}

TEST_CASE("fix_deadlock: rejects a wait for an action that is not listed") {
  auto const s = of_rows({"0F0", "1F0,1F1"});
  CHECK(!find_deadlock_fix(s));
  CHECK_THROWS_WITH_AS(fix_deadlock(s),
                       "repair: ranks wait for actions that are never done: rank 1 at 1F1; schedule_faults "
                       "names what is missing",
                       deadlock_fix_error);
  auto invalid = s;
  invalid.ranks[0][0].stage = stage_id{7};
  CHECK_THROWS_AS(find_deadlock_fix(invalid), invalid_action_error);
}

TEST_CASE("fix_deadlock: shuffled schedules finish with the same actions, and every move is reported") {
  testing::rng random(40);
  std::size_t repaired_ones = 0;
  for (int i = 0; i < 150; ++i) {
    auto const family = random.one_in(2) ? schedule_family::zbv : schedule_family::interleaved_1f1b;
    auto const ranks = static_cast<std::uint32_t>(2 + random.below(3));
    auto const passes = make_schedule(family, {.ranks = ranks, .stages_per_rank = 2, .microbatches = ranks});
    auto s = random.one_in(3)   ? passes
             : random.one_in(2) ? testing::with_plain_messages(passes)
                                : lower(passes);
    for (auto& row : s.ranks)
      for (auto n = random.below(4); n > 0; --n) {
        auto const at = random.below(row.size());
        std::swap(row[at], row[std::min(row.size() - 1, at + 1 + random.below(6))]);
      }
    for (auto& row : s.ranks)  // the swaps may have separated compounds from their parts
      std::erase_if(row, [](action const& a) { return a.parts > 0 || a.kind == action_kind::overlap; });
    auto const& rules = ways[random.below(std::size(ways))];
    auto const before = schedule_faults(s, options_of(rules)).size();
    auto const repaired = fix_deadlock(s, rules);
    REQUIRE(!find_deadlock(repaired.order, rules));
    REQUIRE(done_in(repaired.order) == done_in(s));
    REQUIRE(tells_the_truth(s, repaired));
    REQUIRE(schedule_faults(repaired.order, options_of(rules)).size() <= before);
    repaired_ones += repaired.moved.empty() ? 0 : 1;
  }
  CHECK(repaired_ones > 60);
}

namespace {

/// Returns the smallest number of moves after which a tiny schedule finishes, or more than `most`.
std::size_t least_moves(schedule const& s, delivery_rules const& rules, std::size_t most) {
  if (!find_deadlock(s, rules)) return 0;
  if (most == 0) return 1;
  std::size_t best = most + 1;
  for (std::size_t r = 0; r < s.ranks.size(); ++r)
    for (std::size_t from = 1; from < s.ranks[r].size(); ++from)
      for (std::size_t to = 0; to < from && best > 1; ++to) {
        auto moved = s;
        auto const row = moved.ranks[r].begin();
        std::rotate(row + static_cast<std::ptrdiff_t>(to), row + static_cast<std::ptrdiff_t>(from),
                    row + static_cast<std::ptrdiff_t>(from) + 1);
        best = std::min(best, 1 + least_moves(moved, rules, std::min(most, best) - 1));
      }
  return best;
}

}  // namespace

TEST_CASE("fix_deadlock: makes no more moves than an exhaustive search, on most tiny schedules") {
  testing::rng random(41);
  std::size_t equal = 0, compared = 0;
  for (int i = 0; i < 4000; ++i) {
    auto s = make_schedule(schedule_family::one_f_one_b, {.ranks = 2, .microbatches = 2});
    if (random.one_in(2)) s = testing::with_plain_messages(s);
    for (auto& row : s.ranks)
      for (auto n = 1 + random.below(2); n > 0; --n)
        std::swap(row[random.below(row.size())], row[random.below(row.size())]);
    delivery_rules const rules{.delivery = random.one_in(2) ? delivery::buffered : delivery::rendezvous};
    // `fix_deadlock` would correct other faults too, with more moves.
    auto options = options_of(rules);
    options.matching = message_matching::by_name;
    auto const faults = schedule_faults(s, options);
    if (faults.size() != 1 || faults[0].what != schedule_fault::kind::deadlock) continue;
    auto const moves = fix_deadlock(s, rules).moved.size();
    auto const least = least_moves(s, rules, std::min<std::size_t>(2, moves - 1));
    ++compared;
    equal += moves == least ? 1 : 0;
    REQUIRE(moves >= least);
  }
  MESSAGE("equal " << equal << " of " << compared);
  CHECK(compared > 20);
  CHECK(equal * 4 >= compared * 3);
}
