// SPDX-License-Identifier: MIT
#include "cleave/core/stage_text.hpp"

#include <doctest/doctest.h>

using namespace cleave;

TEST_CASE("stage_text: prints the number of a stage, and names the caller") {
  CHECK(stage_text(stage_id{3}) == "stage 3");
  CHECK(stage_text(the_caller) == "the caller");
}
