// SPDX-License-Identifier: MIT
#include "cleave/schedule/list/list_schedule.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/random.hpp"
#include "support/run_order.hpp"

using namespace cleave;

using namespace cleave::detail;
using testing::order_defect;
using testing::run_order;

namespace {

std::uint64_t most_kept(schedule const& s, std::vector<std::uint64_t> const& kept) {
  std::uint64_t most = 0;
  for (auto const& row : s.ranks) {
    std::uint64_t now = 0;
    each_action(std::span(row), [&](action const& a) {
      if (a.kind == action_kind::forward) most = std::max(most, now += kept[index(a.stage)]);
      if (a.kind == action_kind::backward || a.kind == action_kind::weight_gradient)
        now -= kept[index(a.stage)];
    });
  }
  return most;
}

/// A chain of stages on random ranks, at least one stage on each.
stage_placement random_placement(splitmix& rng) {
  auto const ranks = static_cast<std::uint32_t>(1 + rng.below(5));
  auto const stages = ranks + static_cast<std::uint32_t>(rng.below(8));
  stage_placement p{ranks, {}, chain_edges(stages)};
  for (std::uint32_t s = 0; s < stages; ++s)
    p.rank_of.push_back(rank_id{s < ranks ? s : static_cast<std::uint32_t>(rng.below(ranks))});
  rng.shuffle(p.rank_of);
  return p;
}

}  // namespace

TEST_CASE("list_schedule: random chains run within the tightest memory cap, with random costs") {
  splitmix rng(3);
  for (int round = 0; round < 400; ++round) {
    auto const place = random_placement(rng);
    list_options options{.base_latency = static_cast<double>(rng.below(4)) / 2,
                         .backward = rng.below(2) == 0 ? backward_form::whole : backward_form::split};
    std::vector<std::uint64_t> needed(place.ranks);
    for (std::uint32_t s = 0; s < place.stages(); ++s) {
      auto const cost = [&] { return static_cast<double>(rng.below(5)); };
      options.costs.push_back({cost(), cost(), cost(), cost()});
      options.kept.push_back(rng.below(6));
      needed[index(place.rank_of[s])] += options.kept.back();
    }
    options.most_kept = *std::ranges::max_element(needed) + rng.below(8);
    auto const s = list_schedule(place, static_cast<std::uint32_t>(1 + rng.below(7)), options);
    CHECK(order_defect(s) == "");
    CHECK(most_kept(s, options.kept) <= options.most_kept);
  }
}

TEST_CASE("list_schedule: two chains in opposite directions run within the tightest memory cap") {
  for (std::uint32_t const p : {1u, 2u, 3u, 4u, 7u})
    for (std::uint64_t const cap : {2u, 3u, p + 1})
      if (cap >= 2)
        CHECK(order_defect(list_schedule(bidirectional_placement(p), 9, {.most_kept = cap})) == "");
}

TEST_CASE("list_schedule: with one stage per rank and the memory of 1F1B, has the makespan of 1F1B") {
  for (std::uint32_t const p : {1u, 2u, 4u, 6u}) {
    auto const s = list_schedule(loop_placement(p), 3 * p, {.most_kept = p});
    CHECK(run_order(s).makespan == 3 * 3 * p + 3 * (p - 1));
  }
}

TEST_CASE("list_schedule: split backward passes fill idle time and end before 1F1B") {
  for (std::uint32_t const p : {2u, 4u, 6u}) {
    auto const s =
        list_schedule(loop_placement(p), 3 * p, {.backward = backward_form::split, .most_kept = p});
    CHECK(order_defect(s) == "");
    CHECK(run_order(s).makespan < 3 * 3 * p + 3 * (p - 1));
  }
}

TEST_CASE("list_schedule: stages with skip edges run without a memory cap") {
  auto place = loop_placement(4, 2);
  place.edges.push_back({stage_id{0}, stage_id{5}});
  place.edges.push_back({stage_id{2}, stage_id{7}});
  std::ranges::sort(place.edges);
  CHECK(order_defect(list_schedule(place, 6)) == "");
}

TEST_CASE("list_schedule: rejects caps that no order meets, cycles of stages and invalid costs") {
  CHECK_THROWS_WITH_AS(
      list_schedule(loop_placement(2, 3), 4, {.most_kept = 2}),
      "list schedule: rank 0 must keep 3 bytes for one microbatch in each of its stages, but its limit is 2",
      list_memory_error);
  auto place = loop_placement(2);
  place.edges.push_back({stage_id{1}, stage_id{0}});
  CHECK_THROWS_AS(list_schedule(place, 1), infeasible_error);
  CHECK_THROWS_AS(list_schedule(loop_placement(2), 1, {.costs = {{.forward = -1}}}), stage_cost_error);
  CHECK_THROWS_AS(list_schedule(loop_placement(2), 0), schedule_count_error);
}
