// SPDX-License-Identifier: MIT
#include "cleave/split/stage_contract.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("find_argument_beyond_first: finds a later argument that is not a tensor or needs a gradient") {
  using list = std::vector<argument_traits>;
  CHECK_FALSE(find_argument_beyond_first(list{}));
  CHECK_FALSE(find_argument_beyond_first(list{{false, true}, {true, false}}));
  CHECK(find_argument_beyond_first(list{{true, true}, {true, false}, {true, true}}) == 2);
  CHECK(find_argument_beyond_first(list{{true, true}, {false, false}}) == 1);
}

TEST_CASE("stage_argument_error: names the stage and the argument") {
  stage_argument_error const e(stage_id{3}, 1, "submod_0");
  CHECK(std::string(e.what()).find("argument #1 of stage 3, 'submod_0'") != std::string::npos);
  CHECK(e.witness == std::pair(stage_id{3}, std::size_t{1}));
}

TEST_CASE("runs_hook: runs each hook of the whole program once, in the first or the last stage") {
  using enum program_hook;
  for (std::uint32_t stages = 1; stages < 5; ++stages)
    for (auto const hook : {before_forward, after_forward, after_backward}) {
      std::uint32_t runs = 0;
      for (std::uint32_t k = 0; k < stages; ++k) runs += runs_hook(hook, stage_id{k}, stages);
      CHECK(runs == 1);
      CHECK(runs_hook(hook, stage_id{hook == after_forward ? stages - 1 : 0}, stages));
    }
}
