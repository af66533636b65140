// SPDX-License-Identifier: MIT
#include "cleave/schedule/memory/activation_slots.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "support/some_schedule.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

schedule one_row(std::string const& row, std::uint32_t microbatches) {
  schedule s;
  s.microbatches = microbatches;
  s.ranks.push_back(read_row(row));
  return s;
}

std::vector<stage_id> const first_stage{stage_id{0}};

lifetime_fault::kind fault_of(std::string const& row, std::uint32_t microbatches,
                              std::vector<stage_id> const& stages = first_stage) {
  auto const s = one_row(row, microbatches);
  auto const fault = find_lifetime_fault(s, rank_id{0}, stages);
  REQUIRE(fault.has_value());
  CHECK_THROWS_AS(pass_lifetimes(s, rank_id{0}, stages), lifetime_error);
  return fault->what;
}

}  // namespace

TEST_CASE("pass_lifetimes: a lifetime lasts from F to B or W, counted in cells") {
  auto const found =
      pass_lifetimes(one_row("0F0,,(0F1;0B0)OVERLAP_F_B,0I1,1F0,0W1", 2), rank_id{0}, first_stage);
  CHECK(found == std::vector<pass_lifetime>{{stage_id{0}, microbatch_id{0}, {0, 2}},
                                            {stage_id{0}, microbatch_id{1}, {2, 5}}});
}

TEST_CASE("pass_lifetimes: random schedules match a separate search for each pass") {
  testing::rng random(3);
  for (int i = 0; i < 60; ++i) {
    auto const compute = testing::some_schedule(random);
    if (passes_of(compute) == expected_passes::forward_alone) continue;
    auto const s = random.one_in(2) ? compute : lower(compute);
    for (std::uint32_t r = 0; r < s.ranks.size(); ++r) {
      std::vector<stage_id> stages;
      for (std::uint32_t st = 0; st < s.place.stages(); ++st)
        if (s.place.rank_of[st] == rank_id{r}) stages.push_back(stage_id{st});
      if (stages.empty()) continue;
      auto const found = pass_lifetimes(s, rank_id{r}, stages);
      REQUIRE(found.size() == stages.size() * s.microbatches);
      auto next = found.begin();
      for (auto const st : stages)
        for (std::uint32_t m = 0; m < s.microbatches; ++m, ++next) {
          lifetime alive;
          std::uint32_t cell = 0;
          each_cell(std::span(s.ranks[r]), [&](action const& head, std::span<action const> parts) {
            for (auto const& a : parts.empty() ? std::span(&head, 1) : parts) {
              if (a.stage != st || a.microbatch != microbatch_id{m}) continue;
              if (a.kind == action_kind::forward) alive.first = cell;
              if (a.kind == action_kind::backward || a.kind == action_kind::weight_gradient)
                alive.last = cell;
            }
            ++cell;
          });
          REQUIRE(*next == pass_lifetime{st, microbatch_id{m}, alive});
        }
    }
  }
}

TEST_CASE("find_lifetime_fault: finds each fault") {
  using enum lifetime_fault::kind;
  CHECK(fault_of("0F0,0B0", 1, {}) == no_stages);
  CHECK(fault_of("0F0,0B0", 1, {stage_id{0}, stage_id{0}}) == stage_repeated);
  CHECK(fault_of("0F,0B0", 1) == microbatch_missing);
  CHECK(fault_of("0F0,0B0,0F1", 1) == unknown_microbatch);
  CHECK(fault_of("0F0,0F0,0B0", 1) == repeated);
  CHECK(fault_of("0F0,0I0,0I0,0W0", 1) == repeated);
  CHECK(fault_of("0F0,0B0,0B0", 1) == released_again);
  CHECK(fault_of("0F0,0I0,0W0,0B0", 1) == released_again);
  CHECK(fault_of("0F0,0B0,0B1", 2) == forward_missing);
  CHECK(fault_of("0F0,0F1,0B0", 2) == release_missing);
  CHECK(fault_of("0F0,0W0", 1) == input_gradient_missing);
  CHECK(fault_of("0F0,0W0,0I0", 1) == weight_before_input);
  CHECK(fault_of("0B0,0F0", 1) == released_before_forward);
  auto const s = one_row("0F0,0B0", 1);
  CHECK(find_lifetime_fault(s, rank_id{3}, first_stage)->what == unknown_rank);
  CHECK(find_lifetime_fault(s, rank_id{0}, std::vector{stage_id{0}, stage_id{7}})->at.stage == stage_id{7});
  CHECK(!find_lifetime_fault(one_row("0F0,1F0,1F0,0B0", 1), rank_id{0}, first_stage));
}

TEST_CASE("pass_lifetimes: ignores the order of I and W if both are parts of compounds") {
  auto const found =
      pass_lifetimes(one_row("0F0,(0W0)OVERLAP_F_B,(0I0)OVERLAP_F_B", 1), rank_id{0}, first_stage);
  CHECK(found == std::vector<pass_lifetime>{{stage_id{0}, microbatch_id{0}, {0, 1}}});
  CHECK(fault_of("0F0,(0W0)OVERLAP_F_B,0I0", 1) == lifetime_fault::kind::weight_before_input);
}

TEST_CASE("find_lifetime_fault: a huge number of microbatches is a fault and is not allocated") {
  auto const fault = find_lifetime_fault(one_row("0F0,0B0", 0xffffffff), rank_id{0}, first_stage);
  REQUIRE(fault.has_value());
  CHECK(fault->what == lifetime_fault::kind::forward_missing);
  CHECK(fault->at.microbatch == microbatch_id{1});
}

TEST_CASE("lifetime_error: the message names the rank and the action") {
  CHECK(std::string(
            lifetime_error({lifetime_fault::kind::released_again, rank_id{2}, read_cell("3B1")[0]}).what()) ==
        "lifetimes: rank 2: '3B1' releases activations that an earlier B or W has released; use either B, or "
        "I and W");
}
