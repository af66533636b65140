// SPDX-License-Identifier: MIT
#include "cleave/schedule/simulate/step_simulation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "support/rng.hpp"
#include "support/step_run.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using texts = std::vector<std::string>;

schedule of_rows(texts const& rows, row_contents contents = row_contents::with_communication) {
  std::vector<std::vector<action>> lists;
  for (auto const& row : rows) lists.push_back(read_row(row));
  return schedule_from_rows(std::move(lists), contents);
}

texts rows_in_steps(schedule const& s) {
  texts rows;
  for (auto const& row : step_rows(s, simulate_steps(s))) rows.push_back(row_text(row));
  return rows;
}

std::string refusal(schedule const& s) {
  try {
    simulate_steps(s);
  } catch (step_error const& e) {
    REQUIRE(find_step_fault(s) == e.witness);
    return e.what();
  }
  return {};
}

schedule random_schedule(testing::rng& random) {
  static constexpr schedule_family families[] = {
      schedule_family::gpipe, schedule_family::one_f_one_b, schedule_family::interleaved_1f1b,
      schedule_family::zbv,   schedule_family::dual_pipe_v, schedule_family::interleaved_zero_bubble};
  auto const family = families[random.below(std::size(families))];
  auto const ranks = static_cast<std::uint32_t>(1 + random.below(4));
  auto const s = make_schedule(
      family,
      {.ranks = ranks, .stages_per_rank = stages_per_rank_of(family).value_or(2), .microbatches = 2 * ranks});
  switch (random.below(4)) {
    case 0:
      return s;
    case 1:
      return send_in_rounds(s);
    case 2:
      return add_send_waits(send_in_rounds(s));
    default:
      return lower(s);
  }
}

/// Swaps some neighbours in lists without compounds.
void shuffle_some(testing::rng& random, schedule& s) {
  for (auto& row : s.ranks)
    for (std::size_t n = random.below(3); n > 0; --n) {
      auto const i = random.below(row.size());
      bool const in_compound = std::ranges::any_of(row, [](action const& a) { return a.parts > 0; });
      if (i + 1 < row.size() && !in_compound) std::swap(row[i], row[i + 1]);
    }
}

}  // namespace

TEST_CASE("simulate_steps: each action takes one step, and a rank that waits gets idle steps") {
  auto const s = of_rows({"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
                          "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1"});
  CHECK(rows_in_steps(s) == texts{"0F0,0SEND_F0,0F1,0SEND_F1,,,0RECV_B0,0B0,,0RECV_B1,0B1",
                                  ",1RECV_F0,,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1"});
  CHECK(simulate_steps(s).steps == 11);
}

TEST_CASE("simulate_steps: an action of a higher rank frees a lower one in the same step") {
  CHECK(rows_in_steps(of_rows({"0RECV_B0,0B0", "1B0,1SEND_B0"})) == texts{",0RECV_B0,0B0", "1B0,1SEND_B0"});
}

TEST_CASE("simulate_steps: drops idle steps, and actions that do not compute take a step too") {
  CHECK(rows_in_steps(of_rows({"0F0,,,0B0"}, row_contents::compute_only)) == texts{"0F0,0B0"});
  CHECK(rows_in_steps(of_rows({"0UNSHARD,0F0,0B0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD"})) ==
        texts{"0UNSHARD,0F0,0B0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD"});
  CHECK(rows_in_steps(of_rows({"(0F0;0B0)OVERLAP_F_B,0F1"})) == texts{"(0F0;0B0)OVERLAP_F_B,0F1"});
}

TEST_CASE("simulate_steps: a compound ends with its last part, and other ranks see its first part before") {
  auto const s = of_rows({"(0F0;0B0)OVERLAP_F_B,0F1,0B1", "1F0,1B0,1F1,1B1"});
  CHECK(rows_in_steps(s) == texts{",(0F0;0B0)OVERLAP_F_B,0F1,0B1", "1F0,1B0,1F1,1B1"});
}

TEST_CASE("simulate_steps: rejects deadlocks and repeated actions, and names the rank and the action") {
  CHECK(refusal(of_rows({"0F0", "1RECV_F0,1F0"})) ==
        "steps: no rank can continue: rank 1 at 1RECV_F0; list the actions that they wait for earlier");
  CHECK(refusal(of_rows({"0F0,0W0,0I0"})).find("rank 0 at 0W0;") != std::string::npos);
  CHECK(refusal(of_rows({"0B0,0F0"})).find("rank 0 at 0B0;") != std::string::npos);
  CHECK(refusal(of_rows({"0F0,0F0,0B0"})) ==
        "steps: rank 0 at 0F0 repeats an earlier action; list each action once");
  CHECK(refusal(of_rows({"0F0,0I0,0W0,0W0"})).find("0W0 repeats an earlier action") != std::string::npos);
  schedule nothing{loop_placement(2), 1, {{}, {action{}}}};
  CHECK(refusal(nothing) == "steps: the schedule has no actions; add at least one");
}

TEST_CASE("simulate_steps: rejects an action with an unknown stage") {
  auto s = of_rows({"0F0", "1F0"});
  s.ranks[0][0].stage = stage_id{9};
  CHECK_THROWS_AS((void)simulate_steps(s), invalid_action_error);
}

TEST_CASE("simulate_steps: matches a naive step simulation, for good and shuffled lists") {
  testing::rng random(31);
  std::size_t stuck = 0, finished = 0;
  for (int i = 0; i < 400; ++i) {
    auto s = random_schedule(random);
    if (i % 2 == 1) shuffle_some(random, s);
    testing::step_run plain(s);
    if (auto const waits = plain.run(); !waits.empty()) {
      ++stuck;
      CHECK(find_step_fault(s) == step_fault{step_fault::kind::no_progress, waits});
    } else {
      ++finished;
      CHECK(rows_in_steps(s) == plain.rows());
    }
  }
  CHECK(stuck > 20);
  CHECK(finished > 200);
}
