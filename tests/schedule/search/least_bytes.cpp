// SPDX-License-Identifier: MIT
#include "cleave/schedule/search/least_bytes.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>

#include "cleave/core/random.hpp"
#include "cleave/schedule/list/pass_lists.hpp"
#include "cleave/schedule/search/detail/schedule_candidates.hpp"
#include "support/random_step.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("least_bytes: is the peak of one microbatch at a time, and any lower limit is a shortage") {
  splitmix rng(11);
  for (int round = 0; round < 200; ++round) {
    auto problem = testing::random_step(rng);
    if (problem.ranks % 2 == 0) {
      problem.costs.resize(problem.ranks);
      problem.bytes = {};
      problem.links.clear();
      problem.resident.clear();
      problem.microbatches *= 2;
      problem.copies = model_copies::two;
    }
    for (auto step : placed_steps(problem))
      for (auto const form : {backward_choice::either, backward_choice::whole, backward_choice::split}) {
        auto const least = least_bytes(step, form);
        auto const lists = one_at_a_time(step, form);
        for (std::size_t r = 0; r < least.size(); ++r) {
          CHECK(most_kept(step, lists[r]) == least[r]);
          step.memory_limit[r] = step.resident[r] + least[r];
        }
        CHECK_FALSE(find_byte_shortage(step, form));
        if (least[0] + step.resident[0] == 0) continue;
        --step.memory_limit[0];
        CHECK(find_byte_shortage(step, form) ==
              byte_shortage{rank_id{0}, step.memory_limit[0] + 1, step.memory_limit[0]});
      }
  }
}

TEST_CASE("byte_cap_error: the message names the rank, both sizes and the fix") {
  CHECK(std::string(byte_cap_error({rank_id{2}, 30, 20}).what()) ==
        "schedule: rank 2 needs 30 bytes at least, but its limit is 20 bytes; raise the limit, give the rank "
        "fewer or smaller stages, or use smaller microbatches");
}
