// SPDX-License-Identifier: MIT
#include "cleave/partition/buckets/module_buckets.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "cleave/partition/buckets/bucket_times.hpp"
#include "support/model.hpp"
using namespace cleave;
using namespace cleave::detail;
using testing::layers;

TEST_CASE("fill_optimal_buckets: buckets of a module_graph are no slower than greedy ones") {
  auto const m = layers(12, 1000);
  auto const time = [](module_graph::position) { return 1.0; };
  link_speed const link{.bandwidth = 700, .latency = 3};
  auto const finish = [&](std::vector<module_bucket> const& b) {
    return bucket_times_of(loads_of(b, time), link).finish;
  };
  auto const best = finish(fill_optimal_buckets(m.g, m.parameters, time, link));
  double best_greedy = 1e9;
  for (std::uint64_t cap = 0; cap <= 12'000; cap += 1000)
    best_greedy = std::min(best_greedy, finish(fill_buckets(m.g, m.parameters, {.caps = {.cap = cap}})));
  CHECK(best <= best_greedy);
  CHECK(best < finish(fill_buckets(m.g, m.parameters, {.caps = {.cap = 0}})));
}

TEST_CASE("fill_optimal_buckets: rejects negative times of a module_graph") {
  auto const m = layers(2, 10);
  auto const negative = [](module_graph::position) { return -1.0; };
  CHECK_THROWS_AS(fill_optimal_buckets(m.g, m.parameters, negative, {.bandwidth = 1}), backward_step_error);
}
