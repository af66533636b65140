// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/reduce_ties.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cleave/schedule/families/one_f_one_b.hpp"
#include "cleave/schedule/families/zbv.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "cleave/schedule/verify/deadlock.hpp"
#include "support/some_schedule.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::vector<tied_stages> some_ties(testing::rng& random, std::uint32_t stages) {
  std::vector<tied_stages> ties(1 + random.below(4));
  for (auto& t : ties) {
    std::set<stage_id> chosen;
    while (chosen.size() < 2 || (chosen.size() < stages && random.one_in(3)))
      chosen.insert(stage_id{static_cast<std::uint32_t>(random.below(stages))});
    t = {{chosen.begin(), chosen.end()}, static_cast<double>(random.below(7)) / 2};
  }
  return ties;
}

/// Returns true if a rank computes at any time from `begin` to `end`.
bool is_busy(schedule const& s, schedule_times const& times, std::uint32_t r, double begin, double end) {
  for (std::size_t i = 0; i < s.ranks[r].size(); ++i)
    if (auto const t = times.spans[r][i]; is_compute(s.ranks[r][i].kind) && t.begin < end && begin < t.end)
      return true;
  return false;
}

}  // namespace

TEST_CASE("reduce_ties: in 1F1B, a tie of the first and last stage is reduced at the end") {
  auto const s = one_f_one_b(3, 4);
  std::vector<tied_stages> const ties{{{stage_id{0}, stage_id{2}}, 1}};
  auto const found = tie_reductions(s, ties);
  REQUIRE(found.size() == 1);
  CHECK(found[0].ready == simulate(s).makespan);
  CHECK(found[0].begin == found[0].ready);
  auto const reduced = reduce_ties(s, ties);
  CHECK(row_text(reduced.ranks[0]) == row_text(s.ranks[0]) + ",0REDUCE_TIE@2,0WAIT_REDUCE_TIE@2");
  CHECK(row_text(reduced.ranks[2]) == row_text(s.ranks[2]) + ",2REDUCE_TIE@0,2WAIT_REDUCE_TIE@0");
  CHECK(reduced.ranks[1] == s.ranks[1]);
}

TEST_CASE("reduce_ties: a reduction begins between passes when all ranks of its tie are idle") {
  auto const s = testing::schedule_of_rows({"0F0,2F0,2B0,0B0", "1F0,3F0,3B0,1B0"});
  std::vector<tied_stages> const ties{{{stage_id{2}, stage_id{3}}, 1}};
  auto const early = tie_reductions(s, ties, {.base_latency = 1});
  CHECK(early[0].begin == early[0].ready);
  auto const reduced = reduce_ties(s, ties, {.base_latency = 1});
  CHECK(row_text(reduced.ranks[0]) == "0F0,2F0,2B0,2REDUCE_TIE@3,0B0,2WAIT_REDUCE_TIE@3");
  CHECK(row_text(reduced.ranks[1]) == "1F0,3F0,3B0,3REDUCE_TIE@2,1B0,3WAIT_REDUCE_TIE@2");
  // Without latency, one of the two ranks is always busy.
  auto const late = tie_reductions(s, ties);
  CHECK(late[0].begin == simulate(s).makespan);
  CHECK(late[0].begin == late[0].ready + 4);
}

TEST_CASE("tie_reductions: each begins at the first moment when all its ranks are idle") {
  testing::rng random(21);
  for (int i = 0; i < 150; ++i) {
    auto const compute = testing::some_schedule(random);
    if (passes_of(compute) == expected_passes::forward_alone) continue;
    auto const s = random.one_in(2) ? lower(compute) : compute;
    simulate_options const options{.base_latency = static_cast<double>(random.below(3)) / 2};
    auto const ties = some_ties(random, s.place.stages());
    auto const times = simulate(s, options);
    auto placed = tie_reductions(s, ties, options);
    REQUIRE(placed.size() == ties.size());
    REQUIRE(std::ranges::is_sorted(placed, {}, &tie_reduction::begin));
    std::ranges::sort(placed, {}, [](tie_reduction const& t) { return std::pair(t.ready, t.tie); });
    for (std::size_t n = 0; n < placed.size(); ++n) {
      auto const& tie = ties[placed[n].tie];
      double ready = 0;
      std::set<std::uint32_t> ranks;
      for (auto const st : tie.stages) {
        auto const r = index(s.place.rank_of[index(st)]);
        ranks.insert(r);
        for (std::size_t a = 0; a < s.ranks[r].size(); ++a)
          if (s.ranks[r][a].stage == st && is_compute(s.ranks[r][a].kind))
            ready = std::max(ready, times.spans[r][a].end);
      }
      REQUIRE(placed[n].ready == ready);
      auto const is_free = [&](double begin) {
        for (auto const r : ranks) {
          if (is_busy(s, times, r, begin, begin + tie.time)) return false;
          for (std::size_t before = 0; before < n; ++before) {
            auto const& other = placed[before];
            bool shared = false;
            for (auto const st : ties[other.tie].stages) shared |= index(s.place.rank_of[index(st)]) == r;
            if (shared && other.begin < begin + tie.time && begin < other.end) return false;
          }
        }
        return true;
      };
      REQUIRE(placed[n].begin >= ready);
      REQUIRE(is_free(placed[n].begin));
      for (double begin = ready; begin < placed[n].begin; begin += 0.25)
        if (tie.time > 0) REQUIRE(!is_free(begin));
    }
  }
}

TEST_CASE(
    "reduce_ties: reductions follow all gradients, in one order on all ranks, and their waits come last") {
  testing::rng random(22);
  for (int i = 0; i < 100; ++i) {
    auto const compute = testing::some_schedule(random);
    if (passes_of(compute) == expected_passes::forward_alone) continue;
    auto const s = random.one_in(2) ? lower(compute) : compute;
    auto const ties = some_ties(random, s.place.stages());
    auto const order = tie_reductions(s, ties);
    auto const reduced = reduce_ties(s, ties);
    REQUIRE(!find_schedule_fault(reduced));
    for (std::uint32_t r = 0; r < s.ranks.size(); ++r) {
      std::vector<action> begun, awaited, expected;
      std::map<stage_id, std::uint32_t> gradients;
      bool in_compound = false;
      std::size_t parts_left = 0;
      for (auto const& a : reduced.ranks[r]) {
        in_compound = parts_left > 0;
        if (in_compound) --parts_left;
        if (a.parts > 0) parts_left = a.parts;
        if (a.kind == action_kind::backward || a.kind == action_kind::weight_gradient) ++gradients[a.stage];
        if (a.kind == action_kind::wait_reduce_tie) {
          awaited.push_back(a);
        } else {
          REQUIRE(awaited.empty());
        }
        if (a.kind != action_kind::reduce_tie) continue;
        REQUIRE(!in_compound);
        REQUIRE(gradients[a.stage] == s.microbatches);
        begun.push_back(a);
      }
      for (auto const& t : order) {
        auto const& stages = ties[t.tie].stages;
        for (std::size_t k = 0; k < stages.size(); ++k)
          if (s.place.rank_of[index(stages[k])] == rank_id{r})
            expected.push_back(
                {action_kind::reduce_tie, 0, stages[k], no_microbatch, stages[(k + 1) % stages.size()]});
      }
      REQUIRE(begun == expected);
      for (auto& a : expected) a.kind = action_kind::wait_reduce_tie;
      REQUIRE(awaited == expected);
      auto rest = reduced.ranks[r];
      std::erase_if(rest, [](action const& a) {
        return a.kind == action_kind::reduce_tie || a.kind == action_kind::wait_reduce_tie;
      });
      REQUIRE(rest == s.ranks[r]);
    }
  }
}

TEST_CASE("reduce_ties: two tied stages on one rank begin their reductions one right after the other") {
  auto const s = zbv(2, 4);
  std::vector<tied_stages> const ties{{{stage_id{0}, stage_id{3}}, 1}};  // both on rank 0
  auto const found = tie_reductions(s, ties);
  CHECK(found[0].begin >= found[0].ready);
  auto const reduced = reduce_ties(s, ties);
  CHECK(row_text(reduced.ranks[0]).find("0REDUCE_TIE@3,3REDUCE_TIE@0") != std::string::npos);
}

TEST_CASE("reduce_ties: rejects invalid ties and invalid schedules") {
  auto const s = one_f_one_b(2, 2);
  CHECK_THROWS_AS(reduce_ties(s, std::vector<tied_stages>{{{stage_id{1}}, 1}}), tied_stages_error);
  auto broken = s;
  broken.ranks[0].pop_back();
  CHECK_THROWS_AS(tie_reductions(broken, {}), schedule_error);
  CHECK(reduce_ties(s, {}) == s);
}
