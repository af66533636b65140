// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/lower.hpp"

#include <doctest/doctest.h>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("find_lower_option_fault: finds each invalid option and returns its value") {
  using enum lower_option_fault::kind;
  auto const by_rank = unshard_ahead::policy::by_rank;
  CHECK(!find_lower_option_fault({}, 2));
  CHECK(find_lower_option_fault({.max_active_stages = 0}, 2) == lower_option_fault{active_stages, 0});
  CHECK(find_lower_option_fault({.max_active_stages = -1}, 2) == lower_option_fault{active_stages, -1});
  CHECK(find_lower_option_fault({.lookahead = {by_rank, {1}}}, 2) ==
        lower_option_fault{lookahead_ranks, 1, 2});
  CHECK(find_lower_option_fault({.lookahead = {by_rank, {0, 1}}}, 2) ==
        lower_option_fault{lookahead, 0, 3, 0});
  CHECK(find_lower_option_fault({.max_active_stages = 2, .lookahead = {by_rank, {1, 3}}}, 2) ==
        lower_option_fault{lookahead, 3, 2, 1});
  CHECK(find_lower_option_fault({.max_outstanding_sends = -1}, 2) ==
        lower_option_fault{outstanding_sends, -1});
  CHECK(!find_lower_option_fault({.max_outstanding_sends = 0}, 2));
}

TEST_CASE("lookahead_of: follows the unshard_ahead policy of the options") {
  CHECK(lookahead_of({.max_active_stages = 5}, 0) == 5);
  lower_options const automatic{.max_active_stages = 3, .lookahead = {unshard_ahead::policy::automatic}};
  CHECK(lookahead_of(automatic, 0) == 2);
  CHECK(lookahead_of(automatic, 4) == 3);
  CHECK(lookahead_of({.lookahead = {unshard_ahead::policy::by_rank, {1, 2}}}, 1) == 2);
}
