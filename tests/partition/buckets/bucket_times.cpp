// SPDX-License-Identifier: MIT
#include "cleave/partition/buckets/bucket_times.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "cleave/schedule/simulate/simulate.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("bucket_times_of: sends a bucket while later ones compute, one at a time") {
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

TEST_CASE("bucket_times_of: sends no bucket before it is ready and no two at once") {
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

TEST_CASE("bucket_times_of: equals simulate() of a schedule with one computing and one sending rank") {
  testing::rng random(2);
  for (int round = 0; round < 200; ++round) {
    auto const buckets = static_cast<std::uint32_t>(1 + random.below(8));
    std::vector<bucket_load> loads(buckets);
    for (auto& l : loads) l = {random.unit(), 1 + random.below(9)};
    link_speed const link{1 + random.unit(), random.unit()};

    // Stage b computes bucket b, stage buckets + b sends it.
    schedule s{{2, std::vector(2 * buckets, rank_id{0}), {}}, 1, std::vector<std::vector<action>>(2)};
    simulate_options o{.costs = std::vector<stage_cost>(2 * buckets)};
    for (std::uint32_t b = 0; b < buckets; ++b) {
      stage_id const computed{b}, sent{buckets + b};
      s.place.rank_of[index(sent)] = rank_id{1};
      s.place.edges.push_back({computed, sent});
      for (auto const stage : {computed, sent})
        s.ranks[index(s.place.rank_of[index(stage)])].push_back(
            {.kind = action_kind::forward, .stage = stage, .microbatch = microbatch_id{0}});
      o.costs[index(computed)].forward = loads[b].backward;
      o.costs[index(sent)].forward = sending_time(link, loads[b].bytes);
    }
    auto const simulated = simulate(s, o);
    auto const t = bucket_times_of(loads, link);
    CHECK(simulated.makespan == t.finish);
    for (std::uint32_t b = 0; b < buckets; ++b) {
      CHECK(simulated.spans[0][b].end == t.buckets[b].ready);
      CHECK(simulated.spans[1][b] == time_span{t.buckets[b].begin, t.buckets[b].end});
    }
  }
}

TEST_CASE("bucket_times_of: rejects an invalid load and names the bucket") {
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

TEST_CASE("sending_time: is the latency plus the bytes divided by the bandwidth") {
  CHECK(sending_time({.bandwidth = 4, .latency = 1}, 8) == 3);
  CHECK(sending_time({.bandwidth = 4}, 0) == 0);
}

TEST_CASE("find_link_fault: rejects invalid bandwidths and latencies") {
  double const nan = std::numeric_limits<double>::quiet_NaN();
  double const inf = std::numeric_limits<double>::infinity();
  CHECK(!find_link_fault({1, 0}));
  for (auto const& link : {link_speed{0}, {-1}, {nan}, {inf}, {1, -1}, {1, nan}, {1, inf}})
    CHECK(find_link_fault(link).has_value());
}
