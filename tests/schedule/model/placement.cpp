// SPDX-License-Identifier: MIT
#include "cleave/schedule/model/placement.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {

std::vector<std::uint32_t> ranks_of(stage_placement const& p) {
  std::vector<std::uint32_t> ranks;
  for (auto const r : p.rank_of) ranks.push_back(index(r));
  return ranks;
}

}  // namespace

TEST_CASE("loop_placement: starts again at rank 0, and wave_placement turns at the last rank") {
  CHECK(ranks_of(loop_placement(3, 2)) == std::vector<std::uint32_t>{0, 1, 2, 0, 1, 2});
  CHECK(ranks_of(wave_placement(3)) == std::vector<std::uint32_t>{0, 1, 2, 2, 1, 0});
  CHECK(ranks_of(wave_placement(2, 3)) == std::vector<std::uint32_t>{0, 1, 1, 0, 0, 1});
  CHECK(loop_placement(2, 2).edges == chain_edges(4));
}

TEST_CASE("bidirectional_placement: makes two chains that meet on every rank") {
  auto const p = bidirectional_placement(4);
  CHECK(ranks_of(p) == std::vector<std::uint32_t>{0, 1, 2, 3, 3, 2, 1, 0});
  CHECK(p.edges.size() == 6);
  for (auto const e : p.edges) {
    CHECK(index(e.to) == index(e.from) + 1);
    CHECK(index(e.to) != 4);
  }
}

TEST_CASE("require_counts: rejects zero and huge counts") {
  CHECK_THROWS_WITH_AS(loop_placement(0), "schedule: the number of ranks must be 1 or more",
                       schedule_count_error);
  CHECK_THROWS_WITH_AS(wave_placement(2, 0), "schedule: the number of stages per rank must be 1 or more",
                       schedule_count_error);
  CHECK_THROWS_AS(loop_placement(0xffffffff, 0xffffffff), schedule_count_error);
  try {
    require_counts(1, 1, 0);
    FAIL("a count of zero was accepted");
  } catch (schedule_count_error const& e) {
    CHECK(e.witness == 0);
  }
  CHECK_THROWS_AS(require_counts(std::uint64_t{1} << 32, std::uint64_t{1} << 32, 1), schedule_count_error);
  CHECK_NOTHROW(require_counts(64, 4, 1024));
}
