// SPDX-License-Identifier: MIT
#include "cleave/partition/buckets/bucket_load.hpp"

#include <doctest/doctest.h>

#include <limits>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("bucket load: sending takes the latency and the bytes") {
  CHECK(sending_time({.bandwidth = 4, .latency = 1}, 8) == 3);
  CHECK(sending_time({.bandwidth = 4}, 0) == 0);
}

TEST_CASE("bucket load: a link has a positive finite bandwidth and a finite latency") {
  double const nan = std::numeric_limits<double>::quiet_NaN();
  double const inf = std::numeric_limits<double>::infinity();
  CHECK(!find_link_fault({1, 0}));
  for (auto const& link : {link_speed{0}, {-1}, {nan}, {inf}, {1, -1}, {1, nan}, {1, inf}})
    CHECK(find_link_fault(link).has_value());
}
