// SPDX-License-Identifier: MIT
#include "cleave/run/executor/rank_runtime.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {

constexpr stage_id s0{0}, s1{1}, s2{2}, s3{3};

region one(float& x) { return {&x, 1, element_type::f32}; }

}  // namespace

TEST_CASE("counted_gradients: counts the first copy of each tie and all untied gradients") {
  float x[7] = {};
  std::vector<gradients_of_stage> const first_rank{{s0, {one(x[0]), one(x[1])}},
                                                   {s2, {one(x[2]), one(x[3])}}};
  std::vector<gradients_of_stage> const second_rank{{s1, {one(x[4])}}, {s3, {one(x[5]), one(x[6])}}};
  std::vector<tied_gradients> const ties{{{s0, 1}, {s2, 0}, {s3, 1}}, {{s1, 0}, {s2, 1}}};
  auto const sets = tie_sets_of(ties);
  CHECK(counted_gradients(first_rank, sets) == std::vector{one(x[0]), one(x[1])});
  CHECK(counted_gradients(second_rank, sets) == std::vector{one(x[4]), one(x[5])});
  CHECK(counted_gradients(first_rank, {}) == std::vector{one(x[0]), one(x[1]), one(x[2]), one(x[3])});
}

TEST_CASE("counted_gradients: counts tied copies within one stage once") {
  float x[2] = {};
  std::vector<gradients_of_stage> const own{{s1, {one(x[0]), one(x[1])}}};
  std::vector<tied_gradients> const ties{{{s1, 0}, {s1, 1}}};
  CHECK(counted_gradients(own, tie_sets_of(ties)) == std::vector{one(x[0])});
}

TEST_CASE("clip_factor: is 1 for norms within the limit, else scales down to the limit") {
  CHECK(clip_factor(2, 2) == 1);
  CHECK(clip_factor(0, 1) == 1);
  CHECK(clip_factor(8, 2) == 0.25);
  CHECK(clip_factor(1e300, std::numeric_limits<double>::infinity()) == 1);
}
