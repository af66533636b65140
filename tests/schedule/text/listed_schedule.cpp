// SPDX-License-Identifier: MIT
#include "cleave/schedule/text/listed_schedule.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "cleave/schedule/text/schedule_csv.hpp"

using namespace cleave;

TEST_CASE("listed_schedule: a stage is on the rank of its first action, even if the list has faults") {
  auto const s = listed_schedule({read_row("2F0,0F0"), read_row("0B0,1F7")});
  CHECK(s.place.rank_of == std::vector<rank_id>{rank_id{0}, rank_id{1}, rank_id{0}});
  CHECK(s.microbatches == 8);
  CHECK(s.place.ranks == 2);
  CHECK(s.place.edges == chain_edges(3));
}

TEST_CASE("listed_schedule: given counts hold, and stages without actions go round the ranks") {
  auto const s = listed_schedule({read_row("5F0"), {}}, {.ranks = 2, .stages = 4, .microbatches = 1});
  CHECK(s.place.rank_of == std::vector<rank_id>{rank_id{0}, rank_id{1}, rank_id{0}, rank_id{1}});
  CHECK(s.microbatches == 1);
}

TEST_CASE("listed_schedule: a huge stage number does not enlarge the placement") {
  CHECK(listed_schedule({read_row("4000000000F0,1F0")}).place.stages() == 2);
  CHECK(listed_schedule({}).place.stages() == 0);
}
