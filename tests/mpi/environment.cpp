// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include "launch_ranks.hpp"

using namespace cleave::testing;

TEST_CASE("mpi environment: a rank that throws says why, the others can say so too, and the job fails") {
  auto const r = launch_ranks(2, "'end badly' throw");
  CHECK_MESSAGE(r.exit != 0, r.said);
  CHECK(r.count("rank 1 ends: out of paper\n") == 1);
  CHECK(r.count("rank 0 ends: heard of it\n") == 1);
}

TEST_CASE("mpi environment: MPI_Finalize does not wait for ever for a rank that does not come") {
  auto const r = launch_ranks(2, "'end badly' late");
  CHECK_MESSAGE(r.exit != 0, r.said);
  CHECK(r.count("rank 0 ends: MPI_Finalize did not return in time\n") == 1);
  CHECK(r.seconds < 40);
}

TEST_CASE("mpi environment: it lets calls come from any thread, not MPI alone") {
  auto const r = launch_ranks(1, "threads");
  CHECK_MESSAGE(r.exit == 0, r.said);
  CHECK(r.count("MPI offers MPI_THREAD_FUNNELED, but needed is MPI_THREAD_SERIALIZED") == 1);
  CHECK(r.count("MPI has ended in this process") == 1);
}
