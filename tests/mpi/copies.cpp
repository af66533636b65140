// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include "launch_ranks.hpp"

using namespace cleave::testing;

TEST_CASE("mpi::pipeline: stages with copies have the gradients of the uncut run, in each step") {
  auto const r = launch_ranks(4, "copies");
  CHECK_MESSAGE(r.exit == 0, r.said);
  CHECK_MESSAGE(r.count("a copy trains\n") == 4, r.said);
}
