// SPDX-License-Identifier: MIT
#include "cleave/run/gradients/tied_gradients.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {
constexpr stage_id s0{0}, s1{1}, s2{2}, s5{5};
}

TEST_CASE("tie_sets_of: groups ties of the same stages, ordered by their first tie") {
  std::vector<tied_gradients> const ties{{{s1, 0}, {s5, 2}}, {{s0, 1}, {s1, 1}}, {{s1, 3}, {s5, 0}}};
  CHECK(tie_sets_of(ties) == std::vector<tie_set>{{{s1, s5}, {ties[0], ties[2]}}, {{s0, s1}, {ties[1]}}});
  CHECK(tie_sets_of({}).empty());
}

TEST_CASE("tie_sets_of: lists a stage with several copies once") {
  std::vector<tied_gradients> const ties{{{s1, 0}, {s1, 4}, {s2, 0}}};
  CHECK(tie_sets_of(ties) == std::vector<tie_set>{{{s1, s2}, {ties[0]}}});
}

TEST_CASE("tie_sets_of: rejects ties that are out of stage order or repeat a gradient") {
  tied_gradients const good{{s0, 1}, {s1, 0}};
  for (tied_gradients const& bad : {tied_gradients{{s1, 0}, {s0, 1}}, tied_gradients{{s1, 1}, {s1, 0}},
                                    tied_gradients{{s0, 1}, {s1, 0}, {s1, 0}}}) {
    std::vector<tied_gradients> const ties{good, good, bad, bad};
    CHECK(find_tie_out_of_order(ties) == 2);
    CHECK_THROWS_WITH_AS(
        tie_sets_of(ties),
        "ties: the gradients of tie #2 are not in ascending order without repetitions; sort them by stage",
        tie_order_error);
  }
  CHECK_FALSE(find_tie_out_of_order(std::vector{good, good}));
}

TEST_CASE("ranks_of: lists each rank of a tie set once, in order") {
  std::vector<rank_id> const rank_of{rank_id{2}, rank_id{0}, rank_id{2}, rank_id{1}, rank_id{1}, rank_id{0}};
  CHECK(ranks_of({{s0, s1, s2, s5}, {}}, rank_of) == std::vector{rank_id{0}, rank_id{2}});
  CHECK(ranks_of({{s0, s2}, {}}, rank_of) == std::vector{rank_id{2}});
}

TEST_CASE("find_missing_tied_stage: finds a stage that does not exist") {
  std::vector<rank_id> const rank_of(6, rank_id{0});
  tie_set const set{{s0, s5, stage_id{6}, stage_id{7}}, {}};
  CHECK(find_missing_tied_stage(set, 0) == s0);
  CHECK(find_missing_tied_stage(set, 6) == stage_id{6});
  CHECK(find_missing_tied_stage(set, 7) == stage_id{7});
  CHECK_FALSE(find_missing_tied_stage(set, 8));
  try {
    ranks_of(set, rank_of);
    FAIL("accepted");
  } catch (tie_stage_error const& e) {
    CHECK(find_missing_tied_stage(set, rank_of.size()) == e.witness);
    CHECK(std::string(e.what()) == "ties: there is no stage 6; stages are numbered from 0");
  }
}

TEST_CASE("find_missing_tied_gradient: finds a gradient that its stage does not have") {
  tie_set const set{{s1, s2}, {{{s1, 0}, {s2, 5}}, {{s1, 3}, {s1, 4}, {s2, 6}}}};
  CHECK(find_missing_tied_gradient(set, s1, 0) == stage_gradient{s1, 0});
  CHECK(find_missing_tied_gradient(set, s1, 3) == stage_gradient{s1, 3});
  CHECK(find_missing_tied_gradient(set, s1, 4) == stage_gradient{s1, 4});
  CHECK_FALSE(find_missing_tied_gradient(set, s1, 5));
  CHECK(find_missing_tied_gradient(set, s2, 6) == stage_gradient{s2, 6});
  CHECK_FALSE(find_missing_tied_gradient(set, s0, 0));
}
