// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/message_graph.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// A naive greedy matching: each round takes the remaining pairs whose ranks are free.
std::vector<edge_round> plain_matchings(std::vector<rank_edge> left) {
  std::vector<edge_round> rounds;
  while (!left.empty()) {
    std::set<rank_id> busy;
    std::vector<rank_edge> later;
    auto& round = rounds.emplace_back();
    for (auto const e : left)
      if (busy.contains(e.from) || busy.contains(e.to))
        later.push_back(e);
      else
        busy.insert({e.from, e.to}), round.push_back(e);
    left = later;
  }
  return rounds;
}

stage_placement random_placement(testing::rng& random, std::uint32_t ranks, std::uint32_t stages) {
  stage_placement p{ranks, {}, {}};
  for (std::uint32_t s = 0; s < stages; ++s)
    p.rank_of.push_back(rank_id{static_cast<std::uint32_t>(random.below(ranks))});
  for (std::uint32_t from = 0; from < stages; ++from)
    for (std::uint32_t to = from + 1; to < stages; ++to)
      if (random.one_in(3)) p.edges.push_back({stage_id{from}, stage_id{to}});
  return p;
}

}  // namespace

TEST_CASE("edge_matchings: a chain takes two rounds, a ring of odd length three, one rank none") {
  CHECK(edge_matchings(loop_placement(4)) ==
        std::vector<edge_round>{{{rank_id{0}, rank_id{1}}, {rank_id{2}, rank_id{3}}},
                                {{rank_id{1}, rank_id{2}}}});
  CHECK(edge_matchings(loop_placement(3, 2)).size() == 3);
  CHECK(edge_matchings(loop_placement(1, 3)).empty());
  CHECK(directed_rounds(loop_placement(2)) ==
        std::vector<edge_round>{{{rank_id{0}, rank_id{1}}}, {{rank_id{1}, rank_id{0}}}});
}

TEST_CASE("edge_matchings: matches a naive greedy matching, and directed_rounds has each direction once") {
  testing::rng random(1);
  for (int round = 0; round < 200; ++round) {
    auto const ranks = static_cast<std::uint32_t>(1 + random.below(9));
    auto const p = random_placement(random, ranks, static_cast<std::uint32_t>(1 + random.below(12)));
    auto const pairs = rank_pairs(p);
    auto const matchings = edge_matchings(p);
    CHECK(matchings == plain_matchings(pairs));
    auto const rounds = directed_rounds(p);
    REQUIRE(rounds.size() == 2 * matchings.size());
    std::set<rank_edge> all;
    for (auto const& r : rounds)
      for (auto const e : r) CHECK(all.insert(e).second);
    CHECK(all.size() == 2 * pairs.size());
  }
}

TEST_CASE("edge_matchings: handles more than 64 rounds") {
  stage_placement star{100, {}, {}};
  for (std::uint32_t r = 0; r < 100; ++r) star.rank_of.push_back(rank_id{r});
  for (std::uint32_t r = 1; r < 100; ++r) star.edges.push_back({stage_id{0}, stage_id{r}});
  CHECK(edge_matchings(star).size() == 99);
}

TEST_CASE("edge_matchings: rejects a stage on a rank that does not exist") {
  stage_placement p = loop_placement(2);
  p.ranks = 1;
  CHECK_THROWS_AS(edge_matchings(p), stage_placement_error);
}
