// SPDX-License-Identifier: MIT
#include "cleave/schedule/schedule_listing.hpp"

#include <doctest/doctest.h>

#include "cleave/schedule/verify.hpp"

using namespace cleave;

TEST_CASE("listing: stages are as many as the schedule usually has") {
  CHECK(schedule_listing("gpipe", 2, 4).place.stages() == 2);
  CHECK(schedule_listing("Interleaved1F1B", 2, 4).place.stages() == 4);
  CHECK(schedule_listing("Interleaved1F1B", 2, 4, {.stages_per_rank = 3}).place.stages() == 6);
}

TEST_CASE("listing: what interleaves stages is not listed with one, where it is another schedule") {
  CHECK_THROWS_WITH_AS((void)schedule_listing("LoopedBFS", 2, 4, {.stages_per_rank = 1}),
                       "LoopedBFS: each rank must have 2 stages, not 1", shape_error);
  CHECK_THROWS_AS((void)schedule_listing("GPipe", 2, 4, {.stages_per_rank = 2}), shape_error);
  CHECK_THROWS_AS((void)schedule_listing("Loped", 2, 4), schedule_name_error);
}

TEST_CASE("listing: with messages it is a schedule that runs, and spaced it is the same one") {
  auto const sent = schedule_listing("1F1B", 3, 4, {.content = listing_content::messages});
  CHECK(!find_schedule_fault(sent));
  auto spaced = schedule_listing("1F1B", 3, 4, {.content = listing_content::spaced_messages});
  CHECK(spaced != sent);
  for (auto& row : spaced.ranks)
    std::erase_if(row, [](action const& a) { return a.kind == action_kind::idle; });
  CHECK(spaced == sent);
}
