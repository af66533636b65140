// SPDX-License-Identifier: MIT
#include "cleave/run/model/wait_chain.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using cleave::testing::rng;

namespace {

rank_activity waits_for(std::vector<std::uint32_t> peers, std::string operation = {}) {
  rank_activity a{activity_kind::waiting};
  for (auto const p : peers) a.peers.push_back(rank_id{p});
  a.operation = std::move(operation);
  return a;
}
rank_activity in_stage(std::uint32_t stage, std::uint32_t microbatch) {
  return {activity_kind::computing, {}, stage_call{stage_id{stage}, microbatch_id{microbatch}}, "forward"};
}

std::vector<rank_activity> random_activities(rng& random, std::size_t ranks) {
  std::vector<rank_activity> all;
  for (std::size_t r = 0; r < ranks; ++r) {
    rank_activity a{static_cast<activity_kind>(random.one_in(3) ? random.below(5) : 4)};
    if (a.kind == activity_kind::waiting)
      for (std::size_t n = 1 + random.below(2); n > 0; --n)
        a.peers.push_back(rank_id{static_cast<std::uint32_t>(random.below(ranks))});
    all.push_back(a);
  }
  return all;
}

bool is_waiting(rank_activity const& a, rank_id peer) {
  return a.kind == activity_kind::waiting && std::ranges::find(a.peers, peer) != a.peers.end();
}

/// `from` and all ranks that it waits for directly or indirectly, computed as a closure.
std::set<std::uint32_t> awaited(std::vector<rank_activity> const& all, std::uint32_t from) {
  std::set<std::uint32_t> found = {from};
  for (std::size_t round = 0; round < all.size(); ++round)
    for (auto const r : std::set(found))
      for (auto const p : all[r].peers) found.insert(index(p));
  return found;
}

}  // namespace

TEST_CASE("find_culprit: follows a chain of waiting ranks to its end") {
  std::vector const all = {waits_for({1}, "recv B0 stage 0<-1"), waits_for({2}, "recv B0 stage 1<-2"),
                           in_stage(2, 5), waits_for({2})};
  for (std::uint32_t const from : {0u, 1u, 2u, 3u})
    CHECK(find_culprit(all, rank_id{from}).culprit() == rank_id{2});
  auto const b = find_culprit(all, rank_id{0});
  CHECK(b.chain == std::vector{rank_id{0}, rank_id{1}, rank_id{2}});
  auto const f = failure_of(b, all, rank_id{0});
  CHECK(describe(f) ==
        "rank 0, recv B0 stage 0<-1, stage 2, microbatch 5, caused by rank 2: timed out: rank 0 waits for "
        "rank 1 "
        "(recv B0 stage 0<-1), rank 1 waits for rank 2 (recv B0 stage 1<-2), rank 2 computes stage 2 "
        "microbatch 5 "
        "(forward)");
}

TEST_CASE("find_culprit: prefers ranks in this order: silent, gone, computing, done") {
  std::vector all = {waits_for({4, 3, 2, 1}), rank_activity{}, rank_activity{activity_kind::gone},
                     in_stage(0, 0), rank_activity{activity_kind::done}};
  for (std::uint32_t const expected : {1u, 2u, 3u, 4u}) {
    auto const b = find_culprit(all, rank_id{0});
    CHECK(b.culprit() == rank_id{expected});
    all[expected] = waits_for({4});
  }
  CHECK(describe(rank_activity{}, rank_id{1}) == "rank 1 does not answer");
  CHECK(describe(rank_activity{activity_kind::gone}, rank_id{2}) == "rank 2 is gone");
  CHECK(describe(rank_activity{activity_kind::done}, rank_id{4}) == "rank 4 has nothing left to do");
}

TEST_CASE("find_culprit: blames the nearest of equals") {
  std::vector const all = {waits_for({1, 2}), waits_for({3}), rank_activity{}, rank_activity{}};
  CHECK(find_culprit(all, rank_id{0}).chain == std::vector{rank_id{0}, rank_id{2}});
}

TEST_CASE("find_culprit: ranks that wait in a cycle are a deadlock without a culprit") {
  std::vector const all = {waits_for({1}, "send F0"), waits_for({2}, "send F1"), waits_for({1}, "send B1")};
  auto const b = find_culprit(all, rank_id{0});
  CHECK(b.deadlock);
  CHECK(b.culprit() == no_rank);
  CHECK(b.chain == std::vector{rank_id{1}, rank_id{2}});
  CHECK(describe(b, all) == "deadlock: rank 1 waits for rank 2 (send F1), rank 2 waits for rank 1 (send B1)");
  CHECK(failure_of(b, all, rank_id{0}).culprit == no_rank);
  std::vector const alone = {waits_for({0})};
  CHECK(find_culprit(alone, rank_id{0}) == wait_chain{{rank_id{0}}, true});
}

TEST_CASE("find_culprit: blames a rank that waits for no rank or for one that does not exist") {
  std::vector const all = {waits_for({1}), waits_for({}), waits_for({7})};
  CHECK(find_culprit(all, rank_id{0}).culprit() == rank_id{1});
  CHECK(find_culprit(all, rank_id{2}).culprit() == rank_id{2});
}

TEST_CASE("find_culprit: on random ranks, the culprit is awaited and no awaited rank is more to blame") {
  rng random(41);
  std::size_t deadlocks = 0;
  for (int round = 0; round < 2000; ++round) {
    auto const all = random_activities(random, 1 + random.below(16));
    auto const from = static_cast<std::uint32_t>(random.below(all.size()));
    auto const b = find_culprit(all, rank_id{from});
    auto const reached = awaited(all, from);
    auto const least = all[*std::ranges::min_element(reached, {}, [&](auto r) { return all[r].kind; })].kind;
    CHECK(b.deadlock == (least == activity_kind::waiting));
    for (std::size_t i = 0; i + 1 < b.chain.size(); ++i)
      CHECK(is_waiting(all[index(b.chain[i])], b.chain[i + 1]));
    for (auto const r : b.chain) CHECK(reached.contains(index(r)));
    if (b.deadlock) {
      ++deadlocks;
      CHECK(is_waiting(all[index(b.chain.back())], b.chain.front()));
    } else {
      CHECK(b.chain.front() == rank_id{from});
      CHECK(all[index(b.culprit())].kind == least);
    }
  }
  CHECK(deadlocks > 10);
}
