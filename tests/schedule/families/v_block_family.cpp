// SPDX-License-Identifier: MIT
#include "cleave/schedule/families/v_schedules.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cleave/schedule/model/simulate_options.hpp"
#include "cleave/schedule/simulate/simulate.hpp"
#include "cleave/schedule/verify/verify.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

schedule made_of(v_block_rule const& rule, std::uint32_t ranks, std::uint32_t microbatches) {
  return v_block_schedule(ranks, microbatches, [&](std::uint32_t r) { return rule.block(r, ranks); });
}

std::uint64_t most_on_a_rank(schedule const& s) {
  std::uint64_t most = 0;
  for (auto const& kept : most_kept_passes(s)) most = std::max(most, kept.passes);
  return most;
}

}  // namespace

TEST_CASE("v_block_family: every rule gives a schedule that runs and keeps the predicted number of passes") {
  for (std::uint32_t const p : {2u, 3u, 4u, 6u}) {
    auto const family = v_block_family(p);
    CHECK(family.size() > 100);
    for (auto const& rule : family) {
      auto const made = made_of(rule, p, 5 * p);
      CHECK_FALSE(find_schedule_fault(made));
      CHECK(most_on_a_rank(made) == kept_by(rule, p));
    }
  }
}

TEST_CASE(
    "v_block_family: has a rule that is as good as v_min, and one as good as v_half, in time and memory") {
  for (std::uint32_t const p : {4u, 5u, 6u, 8u, 9u})
    for (auto const& known : {v_min(p, 6 * p), v_half(p, 6 * p)}) {
      bool found = false;
      for (auto const& rule : v_block_family(p)) {
        auto const made = made_of(rule, p, 6 * p);
        found = found || (simulate(made).makespan <= simulate(known).makespan &&
                          most_on_a_rank(made) <= most_on_a_rank(known));
      }
      CHECK(found);
    }
}

TEST_CASE("v_block_rule: the V-Min and V-Half rules give the known block offsets and name") {
  v_block_rule const min{{1, 1, 1, 1}, {1, 1, 1}}, half{{2, 1, 2, 1}, {1, 1, 2}};
  auto const four = min.block(2, 4);
  CHECK(four.forward_down == 2);
  CHECK(four.forward_up == 5);
  CHECK(four.input_up == 10);
  CHECK(four.input_down == 13);
  CHECK(half.block(1, 5).forward_up == 12);
  CHECK(name_of(half) == "VBlock 2 1 2 1 / 1 1 2");
  CHECK_FALSE(kept_by({{1, 1, 1, 1}, {6, 1, 1}}, 1));
}
