// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include "launch_ranks.hpp"

using namespace cleave::testing;

TEST_CASE("mpi::environment: if a rank throws, each rank can report its error, and the job fails") {
  auto const r = launch_ranks(2, "'end badly' throw");
  CHECK_MESSAGE(r.exit != 0, r.said);
  CHECK(r.count("rank 1 ends: out of paper\n") == 1);
  CHECK(r.count("rank 0 ends: heard of it\n") == 1);
}

TEST_CASE("mpi::environment: an error is printed in one line without control characters") {
  auto const r = launch_ranks(1, "'end badly' controls");
  CHECK_MESSAGE(r.exit != 0, r.said);
  CHECK(r.count("rank 0 ends: two\\x0alines in \\x1b[31mred\n") == 1);
}

TEST_CASE("mpi::environment: does not wait forever in MPI_Finalize for a missing rank") {
  auto const r = launch_ranks(2, "'end badly' late");
  CHECK_MESSAGE(r.exit != 0, r.said);
  CHECK(r.count("rank 0 ends: MPI_Finalize did not return in time\n") == 1);
  CHECK(r.seconds < 40);
}

TEST_CASE("mpi::environment: requires MPI_THREAD_SERIALIZED and rejects an MPI that has ended") {
  auto const r = launch_ranks(1, "threads");
  CHECK_MESSAGE(r.exit == 0, r.said);
  CHECK(r.count("MPI provides MPI_THREAD_FUNNELED, but MPI_THREAD_SERIALIZED is required") == 1);
  CHECK(r.count("MPI was already finalized in this process") == 1);
}
