// SPDX-License-Identifier: MIT
#include "cleave/schedule/memory/activation_slots.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/schedule/families/one_f_one_b.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/model/simulate_options.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "support/some_schedule.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("slots_of_activations: rank r of 1F1B on p ranks needs p - r slots") {
  auto const s = lower(one_f_one_b(4, 9));
  for (std::uint32_t r = 0; r < 4; ++r)
    CHECK(slots_of_activations(s, rank_id{r}, std::vector{stage_id{r}}).count == 4 - r);
}

TEST_CASE("slots_of_activations: equals most_kept_passes for lists without compounds") {
  testing::rng random(4);
  for (int i = 0; i < 60; ++i) {
    auto const s = testing::some_schedule(random);
    if (passes_of(s) == expected_passes::forward_alone) continue;
    auto const kept = most_kept_passes(s);
    for (std::uint32_t r = 0; r < s.ranks.size(); ++r) {
      std::vector<stage_id> stages;
      for (std::uint32_t st = 0; st < s.place.stages(); ++st)
        if (s.place.rank_of[st] == rank_id{r}) stages.push_back(stage_id{st});
      if (stages.empty()) continue;
      bool const compounds = std::ranges::any_of(s.ranks[r], [](action const& a) { return a.parts > 0; });
      auto const passes = slots_of_activations(s, rank_id{r}, stages).count;
      auto const microbatches = slots_of_activations(s, rank_id{r}, stages, slot_grain::microbatch).count;
      REQUIRE(passes >= kept[r].passes);
      REQUIRE(microbatches >= kept[r].microbatches);
      REQUIRE(microbatches <= passes);
      if (!compounds) REQUIRE(passes == kept[r].passes);
    }
  }
}

TEST_CASE("slots_of_activations: with slot_grain::microbatch, all stages of a microbatch share one slot") {
  auto const s = testing::schedule_of_rows({"0F0,1F0,0F1,1B0,0B0,1F1,1B1,0B1"});
  auto const found =
      slots_of_activations(s, rank_id{0}, std::vector{stage_id{1}, stage_id{0}}, slot_grain::microbatch);
  CHECK(found.count == 2);
  CHECK(found.passes == std::vector<activation_slot>{{{stage_id{0}, microbatch_id{0}, {0, 4}}, 0},
                                                     {{stage_id{0}, microbatch_id{1}, {2, 7}}, 1},
                                                     {{stage_id{1}, microbatch_id{0}, {0, 4}}, 0},
                                                     {{stage_id{1}, microbatch_id{1}, {2, 7}}, 1}});
}
