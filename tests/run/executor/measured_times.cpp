// SPDX-License-Identifier: MIT
#include "cleave/run/executor/measured_times.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/some_schedule.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// A program with only the passes of a row.
rank_program passes_only(std::vector<action> const& row) {
  rank_program p;
  for (std::uint32_t i = 0; i < row.size(); ++i) {
    rank_instruction x;
    x.call.of = row[i];
    x.call.cell = i;
    x.pass = i;
    p.instructions.push_back(x);
  }
  return p;
}

}  // namespace

TEST_CASE("measured_times: aligns ranks with different clocks, each as early as its dependencies allow") {
  auto const s = testing::schedule_of_rows({"0F0,0F1,0B0,0B1", "1F0,1F1,1B0,1B1"});
  auto const first = passes_only(s.ranks[0]), second = passes_only(s.ranks[1]);
  // The clock of rank 1 begins 1000 after that of rank 0: F0 there begins when F0 on rank 0 ends.
  std::vector<measured_rank> const ranks{{first, {{0, 1000}, {1000, 2000}, {5000, 6000}, {7000, 8000}}},
                                         {second, {{0, 500}, {1000, 1500}, {1500, 4000}, {4000, 6000}}}};
  auto const t = measured_times(s, ranks, 1000);
  CHECK(t.spans[0] == std::vector<time_span>{{0, 1}, {1, 2}, {5, 6}, {7, 8}});
  CHECK(t.spans[1] == std::vector<time_span>{{1, 1.5}, {2, 2.5}, {2.5, 5}, {5, 7}});
  CHECK(t.makespan == 8);
  CHECK(t.busy == std::vector<double>{4, 5.5});
  CHECK(t.first == std::vector<double>{0, 1});
  CHECK(t.last == std::vector<double>{8, 7});
  CHECK(span_bubble(t, 1) == 0.5);
}

TEST_CASE("measured_times: instructions that are not passes take no time") {
  auto const s = testing::schedule_of_rows({"0F0,0B0"});
  auto p = passes_only(s.ranks[0]);
  p.instructions.insert(p.instructions.begin(), rank_instruction{});
  std::vector<measured_rank> const ranks{{p, {{0, 9}, {10, 12}, {12, 13}}}};
  auto const t = measured_times(s, ranks);
  CHECK(t.spans[0] == std::vector<time_span>{{10, 12}, {12, 13}});
  CHECK(t.busy == std::vector<double>{3});
  CHECK(t.makespan == 13);
}
