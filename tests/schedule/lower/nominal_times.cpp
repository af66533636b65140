// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/nominal_times.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {

std::string refusal(nominal_times const& t) {
  try {
    require_nominal_times(t, 3);
  } catch (nominal_time_error const& e) {
    CHECK(e.witness == find_nominal_time_fault(t, 3));
    return e.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("require_nominal_times: accepts no costs, one for all stages, or one per stage") {
  CHECK(refusal({}) == "none");
  CHECK(refusal({.costs = {{}}, .base_latency = 0}) == "none");
  CHECK(refusal({.costs = {{}, {}, {}}}) == "none");
  CHECK(refusal({.costs = {{}, {}}}) ==
        "times: 2 costs for 3 stages; give one per stage, one for all, or none");
}

TEST_CASE("require_nominal_times: rejects values that are not valid times") {
  CHECK(refusal({.costs = {{}, {.backward = -1}, {}}}) ==
        "times: each cost of stage 1 must be a time from 0 to 1e100");
  for (auto const base_latency : {-0.5, 1e101, std::numeric_limits<double>::quiet_NaN()})
    CHECK(refusal({.base_latency = base_latency}) == "times: base_latency must be a time from 0 to 1e100");
}
