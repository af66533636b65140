// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/sending_lists.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("stuck_error: the message names each rank and the action it is stuck at") {
  stuck_error const e({{rank_id{0}, "0B0"}, {rank_id{2}, "2F1"}});
  CHECK(std::string(e.what()) ==
        "messages: rank 0 is stuck at 0B0, rank 2 is stuck at 2F1; list the actions that they wait for "
        "earlier");
  CHECK(e.witness.size() == 2);
}
