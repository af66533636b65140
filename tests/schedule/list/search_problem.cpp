// SPDX-License-Identifier: MIT
#include "cleave/schedule/list/search_problem.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "cleave/schedule/list/placed_step.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

search_problem sound() {
  search_problem p{.ranks = 2, .microbatches = 3};
  p.costs.resize(4);
  return p;
}

std::string fault_in(search_problem const& p) {
  try {
    require_problem(p);
  } catch (search_error const& e) {
    CHECK(find_search_fault(p) == e.witness);
    return e.what();
  }
  CHECK_FALSE(find_search_fault(p));
  return {};
}

}  // namespace

TEST_CASE("require_problem: rejects each invalid field and says the fix") {
  CHECK(fault_in(sound()) == "");
  auto p = sound();
  p.ranks = 0;
  CHECK(fault_in(p) == "search: the number of ranks must be 1 or more");
  p = sound();
  p.microbatches = 0;
  CHECK(fault_in(p) == "search: the number of microbatches must be 1 or more");
  p = sound();
  p.costs.resize(1);
  CHECK(fault_in(p) == "search: costs are given for only 1 stages; give at least one stage per rank");
  p = sound();
  p.costs[2].forward = -1;
  CHECK(fault_in(p) == "search: each cost of stage 2 must be a time from 0 to 1e100");
  p = sound();
  p.base_latency = std::numeric_limits<double>::quiet_NaN();
  CHECK(fault_in(p) == "search: base_latency must be a time from 0 to 1e100");
  p = sound();
  p.links.resize(3);
  CHECK(fault_in(p) == "search: 3 links for 4 pairs of ranks; give one per pair, one for all, or none");
  p = sound();
  p.bytes.stages.resize(3);
  CHECK(fault_in(p) == "search: 3 byte counts for 4 stages; give one per stage, one for all, or none");
  p = sound();
  p.bytes.stages = {{~std::uint64_t{0}, 1, 1}};
  CHECK(fault_in(p).starts_with("search: 18446744073709551615 bytes for one microbatch"));
  p = sound();
  p.resident = {1, 2};
  CHECK(fault_in(p) == "search: 2 entries of resident bytes are given; expected one per stage, or none");
  p = sound();
  p.resident = {1, ~std::uint64_t{0}, 1, 1};
  CHECK(fault_in(p) == "search: the resident bytes up to stage 1 overflow when summed; use smaller values");
  p = sound();
  p.memory_limit = {1, 2, 3};
  CHECK(fault_in(p) == "search: 3 memory limits are given; expected one for each rank, one for all, or none");
}

TEST_CASE("require_problem: rejects a placement that is invalid or has other ranks or stages") {
  auto p = sound();
  p.place = loop_placement(2, 2);
  CHECK(fault_in(p) == "");
  p.place->rank_of[1] = rank_id{7};
  CHECK(fault_in(p) == "search: the placement is invalid; find_stage_placement_fault gives the reason");
  p.place = loop_placement(4);
  CHECK(fault_in(p) == "search: the placement has 4 ranks, which differs from the step's number of ranks");
  p.place = loop_placement(2);
  CHECK(fault_in(p) == "search: the placement has 2 stages; give costs for each of them");
}

TEST_CASE("require_problem: rejects huge counts") {
  auto p = sound();
  p.microbatches = 4'000'000'000;
  CHECK_THROWS_AS(require_problem(p), schedule_count_error);
}

TEST_CASE("placed_steps: gives loop, wave and, for two model copies, bidirectional placements") {
  auto p = sound();
  auto steps = placed_steps(p);
  REQUIRE(steps.size() == 2);
  CHECK(steps[0].place == loop_placement(2, 2));
  CHECK(steps[1].place == wave_placement(2));
  p.costs.resize(2);
  p.microbatches = 4;
  CHECK(placed_steps(p).size() == 1);
  p.copies = model_copies::two;
  steps = placed_steps(p);
  REQUIRE(steps.size() == 2);
  CHECK(steps[1].place == bidirectional_placement(2));
  CHECK(steps[1].microbatches == 2);
  p.costs.resize(5);
  steps = placed_steps(p);
  REQUIRE(steps.size() == 2);
  CHECK(index(steps[0].place.rank_of[4]) == 0);
}

TEST_CASE("placed_steps: a message takes its base latency, its link's latency and the time of its bytes") {
  auto p = sound();
  p.base_latency = 0.5;
  p.links = {{}, {1, 4}, {2, 8}, {}};
  p.bytes.edges = {{8, 16}, {4, 4}, {0, 0}};
  p.memory_limit = {10};
  p.resident = {1, 2, 3, 4};
  auto const step = placed_steps(p)[0];
  CHECK(step.forward[0].delay == 0.5 + 1 + 8.0 / 4);    // from rank 0 to 1
  CHECK(step.backward[0].delay == 0.5 + 2 + 16.0 / 8);  // and back
  CHECK(step.forward[1].delay == 0.5 + 2 + 4.0 / 8);    // stage 1 is on rank 1, stage 2 on rank 0
  CHECK(step.forward[0].leaving == 2);
  CHECK(placed_steps(p)[1].forward[1].delay == 0);  // in a wave, both are on rank 1
  CHECK(step.room(0) == 6);
  CHECK(step.room(1) == 4);
}
