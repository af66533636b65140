// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "launch_ranks.hpp"

using namespace cleave::testing;

TEST_CASE(
    "mpi_communicator: ordered sums match one process bit for bit, and library sums match where exact") {
  for (std::uint32_t const ranks : {2u, 3u, 8u}) {
    auto const r = launch_ranks(ranks, "reductions");
    CHECK_MESSAGE(r.exit == 0, r.said);
    CHECK(r.count("reductions agree\n") == 1);
  }
}

TEST_CASE("mpi_communicator: ranks that reduce different things each report the mismatch") {
  auto const r = launch_ranks(2, "disagree");
  CHECK_MESSAGE(r.exit == 3, r.said);
  auto const mismatch = [&](std::string const& what, std::string const& rank0, std::string const& rank1,
                            std::string const& begin) {
    auto const line = what + ": " + begin + ": operation mismatch: " + rank0 + ", but " + rank1 + "; both";
    CHECK_MESSAGE(r.count(line) == 1, line, r.said);
  };
  auto const part = [](char const* rank, std::string const& bytes) {
    return std::string(rank) + " contributes message 4, the sum of " + bytes + " bytes of f32";
  };
  for (std::string const what : {"reduction by the library", "reduction in order"}) {
    mismatch(what, part("rank 0", "32"), part("rank 1", "28"), "rank 0, caused by rank 1");
    bool const exact = is_openmpi || what != "reduction in order";
    mismatch(what, part("rank 1", "28"), part("rank 0", exact ? "32" : "more than 28"),
             "rank 1, caused by rank 0");
  }
}
