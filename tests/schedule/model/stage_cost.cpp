// SPDX-License-Identifier: MIT
#include "cleave/schedule/model/stage_cost.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("stage_cost: each kind of action takes its own time, messages and waits take none") {
  stage_cost const c{1, 2, 3, 4, 5, 6, 7, 8, 9};
  CHECK(c.of(action_kind::recompute) == 5);
  CHECK(c.of(action_kind::unshard) == 6);
  CHECK(c.of(action_kind::reduce_gradient) == 7);
  CHECK(c.of(action_kind::offload) == 8);
  CHECK(c.of(action_kind::reload) == 9);
  CHECK(c.of(action_kind::wait_reduce_gradient) == 0);
  CHECK(c.of(action_kind::forward) == 1);
  CHECK(c.of(action_kind::backward) == 2);
  CHECK(c.of(action_kind::input_gradient) == 3);
  CHECK(c.of(action_kind::weight_gradient) == 4);
  CHECK(c.of(action_kind::send_activation) == 0);
  CHECK(c.of(action_kind::overlap) == 0);
  CHECK(stage_cost{.overlapped = 2.5}.of(action_kind::overlap) == 2.5);
}

TEST_CASE("find_stage_cost_fault: finds NaN, negative and huge costs with their stage and kind") {
  double const bad[] = {-1, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                        1e101};
  for (double const b : bad) {
    std::vector<stage_cost> const costs = {{}, {.weight_gradient = b}};
    CHECK(find_stage_cost_fault(costs) == stage_cost_fault{stage_id{1}, action_kind::weight_gradient});
  }
  CHECK(!find_stage_cost_fault(std::vector<stage_cost>{{0, 0, 0, 1e100}}));
  CHECK(std::string(stage_cost_error({stage_id{1}, action_kind::backward}).what()) ==
        "costs: B of stage 1 must take a time from 0 to 1e100");
  std::vector<stage_cost> const pair = {{.overlapped = -1}};
  CHECK(std::string(stage_cost_error(*find_stage_cost_fault(pair)).what()) ==
        "costs: OVERLAP_F_B of stage 0 must take a time from 0 to 1e100");
}
