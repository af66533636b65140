// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "launch_ranks.hpp"

using namespace cleave::testing;

TEST_CASE("mpi_communicator: random groups of messages of all lengths arrive between 2, 4 and 8 ranks") {
  for (std::uint32_t const ranks : {2u, 4u, 8u}) {
    auto const r = launch_ranks(ranks, "messages " + std::to_string(120 / ranks));
    CHECK_MESSAGE(r.exit == 0, r.said);
    CHECK(r.count("messages arrived\n") == 1);
  }
}

TEST_CASE("mpi_communicator: a receiver of an unexpected message reports both ends") {
  auto const r = launch_ranks(2, "disagree");
  CHECK_MESSAGE(r.exit == 3, r.said);
  auto const mismatch = [&](std::string const& name, std::string const& sent, std::string const& received) {
    auto const line = name +
                      ": rank 1, stage 3, microbatch 5, caused by rank 0: operation mismatch: rank 0 sends " +
                      sent + ", but rank 1 receives " + received + "; both must run the same program\n";
    CHECK_MESSAGE(r.count(line) == 1, line, r.said);
  };
  mismatch("number", "message 17 of 400 bytes", "message 18 of 400 bytes");
  mismatch("short", "message 17 of 40 bytes", "message 17 of 400 bytes");
  auto const beyond = [&](char const* exactly,
                          char const* at_least) {  // the library's description of a truncated message
    return std::string("message 17 of ") + (is_openmpi ? exactly : at_least) + " bytes";
  };
  mismatch("long", beyond("400", "more than 40"), "message 17 of 40 bytes");
  mismatch("very long", beyond("1000000", "more than 500000"), "message 17 of 500000 bytes");
}

TEST_CASE("mpi_communicator: abort() from another thread releases all waits in the process") {
  auto const r = launch_ranks(2, "'give up'");
  CHECK_MESSAGE(r.exit == 4, r.said);
  CHECK(r.count("released\n") == 2);
}
