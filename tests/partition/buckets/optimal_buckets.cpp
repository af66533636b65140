// SPDX-License-Identifier: MIT
#include "cleave/partition/buckets/optimal_buckets.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "cleave/partition/buckets/bucket_times.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"

namespace {

using namespace cleave;

using namespace cleave::detail;
using testing::rng;

std::vector<bucket_load> loads_of_ends(std::vector<backward_step> const& steps,
                                       std::vector<std::size_t> const& ends) {
  std::vector<bucket_load> loads;
  for (std::size_t i = 0; auto const end : ends)
    for (loads.emplace_back(); i < end; ++i) {
      loads.back().backward += steps[i].time;
      loads.back().bytes += steps[i].bytes;
    }
  return loads;
}

bool allowed(std::vector<backward_step> const& steps, std::vector<std::size_t> const& ends) {
  for (std::size_t begin = 0; auto const end : ends) {
    if (end < steps.size() && (!steps[end - 1].may_end || end - 1 < steps[begin].first_end)) return false;
    begin = end;
  }
  return true;
}

/// The least finish time of all allowed cuts.
double least_finish(std::vector<backward_step> const& steps, link_speed const& link) {
  std::optional<double> best;
  for (std::uint32_t cuts = 0; cuts < 1u << (steps.size() - 1); ++cuts) {
    std::vector<std::size_t> ends;
    for (std::size_t i = 1; i < steps.size(); ++i)
      if (cuts >> (i - 1) & 1) ends.push_back(i);
    ends.push_back(steps.size());
    if (!allowed(steps, ends)) continue;
    auto const finish = bucket_times_of(loads_of_ends(steps, ends), link).finish;
    best = std::min(best.value_or(finish), finish);
  }
  return *best;
}

/// Whole numbers and powers of two, so that sums are exact.
std::vector<backward_step> random_steps(rng& random, std::size_t size) {
  std::vector<backward_step> steps(size);
  for (std::size_t i = 0; i < size; ++i) {
    steps[i].time = static_cast<double>(random.below(5));
    steps[i].bytes = random.one_in(3) ? 0 : random.below(8);
    steps[i].first_end = random.one_in(3) ? i + random.below(4) : 0;
    if (random.one_in(12)) steps[i].first_end = none<std::size_t>;
    steps[i].may_end = !random.one_in(8);
  }
  return steps;
}

link_speed random_link(rng& random) {
  static constexpr double speeds[] = {0.25, 0.5, 1, 2, 8};
  return {speeds[random.below(5)], static_cast<double>(random.below(9)) / 2};
}

}  // namespace

TEST_CASE("optimal_cut_of: no allowed cut finishes earlier") {
  rng random(1);
  for (int round = 0; round < 1500; ++round) {
    auto const steps = random_steps(random, 1 + random.below(10));
    auto const link = random_link(random);
    auto const cut = optimal_cut_of(steps, link);
    CHECK(allowed(steps, cut.ends));
    CHECK(cut.ends.back() == steps.size());
    CHECK(cut.finish == least_finish(steps, link));
    CHECK(bucket_times_of(loads_of_ends(steps, cut.ends), link).finish == cut.finish);
  }
}

TEST_CASE("optimal_cut_of: no steps give no buckets and finish at 0") {
  auto const cut = optimal_cut_of({}, {1, 0});
  CHECK(cut.ends.empty());
  CHECK(cut.finish == 0);
}

TEST_CASE("optimal_cut_of: sends steps one by one without latency, and all together with a large one") {
  std::vector<backward_step> const steps(6, {.time = 1, .bytes = 1});
  CHECK(optimal_cut_of(steps, {1, 0}).finish == 7);
  CHECK(optimal_cut_of(steps, {1, 100}).ends == std::vector<std::size_t>{6});
}

TEST_CASE("optimal_cut_of: makes no cut that gains nothing") {
  std::vector<backward_step> const idle(5, {.time = 1, .bytes = 0});
  CHECK(optimal_cut_of(idle, {1, 1}).ends == std::vector<std::size_t>{5});
  std::vector<backward_step> steps;  // a layer with gradients, one without, …
  for (int i = 0; i < 4; ++i) steps.insert(steps.end(), {{.time = 1, .bytes = 4}, {.time = 1, .bytes = 0}});
  CHECK(optimal_cut_of(steps, {.bandwidth = 4, .latency = 1}).ends ==
        std::vector<std::size_t>{1, 3, 5, 7, 8});
  CHECK(optimal_cut_of(steps, {.bandwidth = 1000, .latency = 0}).ends.size() <= 3);
}

TEST_CASE("optimal_cut_of: a last step without gradients does not delay the bucket before it") {
  std::vector<backward_step> const steps{{.time = 1, .bytes = 8}, {.time = 100, .bytes = 0}};
  auto const cut = optimal_cut_of(steps, {1, 1});
  CHECK(cut.finish == 101);
  CHECK(cut.ends == std::vector<std::size_t>{1, 2});
}

TEST_CASE("fill_optimal_buckets: buckets are valid and never slower than greedy ones") {
  rng random(2);
  for (int round = 0; round < 300; ++round) {
    auto s = random_graph(random, {.nodes = random.below(20), .states = 5, .tied = random.below(2) * 6});
    for (std::size_t v = 0; v < s.values(); ++v)
      if (s.producer[v] != none<std::uint32_t> && random.one_in(5))
        s.outputs.push_back(static_cast<std::uint32_t>(v));
    auto const link = random_link(random);
    auto const best = fill_optimal_buckets(s, state_counts(s), s.weight, link);
    check_partition(s, best);
    auto const times = bucket_times_of(loads_of(best, s.weight), link);
    for (std::uint64_t cap : {0u, 5u, 20u, 1000u}) {
      auto const greedy = fill_buckets(s, state_counts(s), {.cap = cap});
      CHECK(times.finish <= bucket_times_of(loads_of(greedy, s.weight), link).finish);
    }
    bucket_closing<std::uint32_t> const closing(s);
    auto end = s.nodes();
    for (std::size_t i = best.buckets.size(); i-- > 1;) {  // all buckets but the graph's first give a result
      bool gives = false;
      for (auto const n : best.buckets[i].nodes) gives |= closing.last_reader[n] >= end;
      CHECK(gives);
      end -= best.buckets[i].nodes.size();
      CHECK(!closing.divides[end]);
    }
  }
}

TEST_CASE("optimal_cut_of: rejects invalid times and links") {
  double const nan = std::numeric_limits<double>::quiet_NaN();
  double const inf = std::numeric_limits<double>::infinity();
  std::vector<backward_step> const good(3, {.time = 1, .bytes = 1});
  for (auto const& link : {link_speed{0}, {-1}, {nan}, {inf}, {1, -1}, {1, nan}, {1, inf}})
    CHECK_THROWS_AS(optimal_cut_of(good, link), error);
  for (double const time : {-1.0, nan, inf}) {
    auto steps = good;
    steps[1].time = time;
    try {
      optimal_cut_of(steps, {1, 0});
      FAIL("no error");
    } catch (backward_step_error const& e) {
      CHECK(e.witness == 1);
    }
  }
  CHECK(!find_bad_step(good, {1, 0}));
  std::vector<backward_step> large(2, {.time = 1, .bytes = static_cast<std::size_t>(-1)});
  CHECK(find_bad_step(large, {1, 0}) == 1);
  std::vector<backward_step> slow(2, {.time = 1, .bytes = static_cast<std::size_t>(-2) / 2});
  CHECK(find_bad_step(slow, {1e-300, 0}) == 0);
}

TEST_CASE("fill_optimal_buckets: a missing time is an error that states both counts") {
  rng random(3);
  auto const s = random_graph(random, {.nodes = 3, .states = 1});
  CHECK_THROWS_WITH_AS(fill_optimal_buckets(s, state_counts(s), {1, 1}, {1, 0}),
                       doctest::Contains("2 backward times are given for 3 nodes"), error);
}
