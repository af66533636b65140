// SPDX-License-Identifier: MIT
#include "cleave/analysis/bucket_times.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

TEST_CASE("bucket times: sending overlaps computing, one bucket after another") {
  std::vector<bucket_load> const loads{{2, 8}, {1, 4}, {5, 0}, {1, 2}};
  auto const t = bucket_times_of(loads, {.bandwidth = 2, .latency = 1});
  CHECK(t.buckets[0].begin == 2);
  CHECK(t.buckets[0].end == 7);
  CHECK(t.buckets[1].ready == 3);
  CHECK(t.buckets[1].begin == 7);
  CHECK(t.buckets[1].end == 10);
  CHECK(t.buckets[2].begin == 8);
  CHECK(t.buckets[2].end == 8);
  CHECK(t.buckets[3].begin == 10);
  CHECK(t.computed == 9);
  CHECK(t.finish == 12);
}

TEST_CASE("bucket times: nothing is sent before it is ready, nothing twice at a time") {
  testing::rng random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<bucket_load> loads(random.below(8));
    for (auto& l : loads) l = {static_cast<double>(random.below(5)), random.below(5)};
    link_speed const link{static_cast<double>(1 + random.below(4)), static_cast<double>(random.below(3))};
    auto const t = bucket_times_of(loads, link);
    double free = 0, last = 0;
    for (std::size_t i = 0; i < loads.size(); ++i) {
      auto const& b = t.buckets[i];
      CHECK(b.ready == last + loads[i].backward);
      last = b.ready;
      if (loads[i].bytes == 0) continue;
      CHECK(b.begin >= b.ready);
      CHECK(b.begin >= free);
      CHECK((b.begin == b.ready || b.begin == free));
      CHECK(b.end == b.begin + sending_time(link, loads[i].bytes));
      free = b.end;
    }
    CHECK(t.finish == std::max(last, free));
  }
}

TEST_CASE("bucket times: what makes no sense is an error that names the bucket") {
  double const nan = std::numeric_limits<double>::quiet_NaN();
  double const most = std::numeric_limits<double>::max();
  for (double const bad : {-1.0, nan, most}) {
    std::vector<bucket_load> const loads{{most, 1}, {bad, 1}};
    CHECK(find_bad_load(loads) == 1);
    try {
      bucket_times_of(loads, {1, 0});
      FAIL("no error");
    } catch (bucket_load_error const& e) {
      CHECK(e.witness == 1);
    }
  }
  CHECK(!find_bad_load({}));
  CHECK_THROWS_AS(bucket_times_of({}, {0, 0}), error);
}
