// SPDX-License-Identifier: MIT
#include "cleave/run/program/program_agreement.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/run/program/step_plan.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "support/kept_broadcasts.hpp"
#include "support/linear_chain.hpp"
#include "support/linear_engine.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

/// A chain of stages, one per rank; tests change what a rank is given.
struct given {
  schedule s = make_schedule(schedule_family::one_f_one_b, {3, 1, 4});
  dataflow t = dataflow_of_chain(s);
  run_layouts l = linear_layouts(t, {2, 2, 2, 2});

  step_plan plan() const { return step_plan(s, t, l); }
};

/// The error text of each rank, or nothing.
std::vector<std::string> outcomes(std::vector<given> const& ranks) {
  std::vector<std::vector<std::byte>> kept;
  std::vector<std::string> told;
  for (int round = 0; round < 2; ++round)
    for (std::uint32_t r = 0; r < ranks.size(); ++r) {
      kept_broadcasts rendezvous{&kept, rank_id{r}};
      std::string words;
      try {
        agree_on_program(rendezvous, ranks[r].plan(), rank_id{r}, rank_id{r},
                         static_cast<std::uint32_t>(ranks.size()), {});
      } catch (disagreement_error const& e) {
        words = e.what();
      }
      if (round == 1) told.push_back(words);
    }
  return told;
}

}  // namespace

TEST_CASE("agree_on_program: ranks given the same program agree") {
  CHECK(outcomes(std::vector<given>(3)) == std::vector<std::string>(3));
}

TEST_CASE("agree_on_program: every rank names both ends whose types or shapes differ") {
  std::vector<given> ranks(3);
  ranks[2].l.edges[2].type = element_type::f32;
  CHECK(outcomes(ranks) ==
        std::vector<std::string>(3,
                                 "ranks disagree: edge #2 from stage 1 to stage 2 is f64[2*] on rank 1, but "
                                 "f32[2*] on rank 2; make both ends the same"));
  ranks = std::vector<given>(3);
  ranks[0].l.edges[1].shape = {2, 3};
  CHECK(
      outcomes(ranks)[1] ==
      "ranks disagree: edge #1 from stage 0 to stage 1 is f64[2*, 3] on rank 0, but f64[2*] on rank 1; make "
      "both ends the same");
  ranks = std::vector<given>(3);
  ranks[0].l.edges[1].extents = shape_kind::dynamic;
  ranks[1].l.edges[1].gradient = gradient_use::none;
  CHECK(outcomes(ranks)[2] ==
        "ranks disagree: edge #1 from stage 0 to stage 1 is f64[2*]? on rank 0, but f64[2*] without gradient "
        "on "
        "rank 1; make both ends the same");
}

TEST_CASE("agree_on_program: reports another schedule, other edges and other rows") {
  std::vector<given> ranks(3);
  ranks[2].s = make_schedule(schedule_family::gpipe, {3, 1, 4});
  CHECK(outcomes(ranks) ==
        std::vector<std::string>(3,
                                 "ranks disagree: rank 2 has another schedule than rank 0; "
                                 "give all ranks the same"));
  ranks = std::vector<given>(3);
  ranks[1].l.rows[3] = 1;
  CHECK(outcomes(ranks)[0] ==
        "ranks disagree: rank 1 has other types or shapes than rank 0; give all ranks the same");
  ranks = std::vector<given>(3);
  ranks[1].t.edges[0].output = 1;
  CHECK(outcomes(ranks)[0] ==
        "ranks disagree: rank 1 has other edges between stages than rank 0; give all ranks the same");
  ranks = std::vector<given>(3);
  std::swap(ranks[1].t.edges[1], ranks[1].t.edges[2]);
  CHECK(outcomes(ranks)[0].find(
            "edge #1 goes from stage 0 to stage 1 on rank 0, but from stage 1 to stage 2 on "
            "rank 1") != std::string::npos);
}

TEST_CASE("difference_of: names the first differing part, beginning with the schedule") {
  program_digest const here{1, 2, 3, 4};
  CHECK_FALSE(difference_of(here, rank_id{2}, here, rank_id{0}));
  CHECK(difference_of(here, rank_id{2}, {0, 0, 0, 0}, rank_id{0}) ==
        "rank 2 has another schedule than rank 0; give all ranks the same");
  CHECK(difference_of(here, rank_id{2}, {1, 0, 0, 0}, rank_id{0}) ==
        "rank 2 has other edges between stages than rank 0; give all ranks the same");
  CHECK(difference_of(here, rank_id{2}, {1, 2, 0, 0}, rank_id{1}) ==
        "rank 2 has other types or shapes than rank 1; give all ranks the same");
  CHECK(difference_of(here, rank_id{2}, {1, 2, 3, 0}, rank_id{1}) ==
        "rank 2 has other options of calls (call_options) than rank 1; give all ranks the same");
}
