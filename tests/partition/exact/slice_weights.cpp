// SPDX-License-Identifier: MIT
#include "cleave/partition/exact/slice_weights.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "cleave/core/error.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// The least largest sum by dynamic programming in O(n^2 k).
std::int64_t least_by_table(std::vector<std::int64_t> const& weights, std::size_t k) {
  std::vector<std::int64_t> least(weights.size() + 1, std::numeric_limits<std::int64_t>::max());
  least[0] = 0;
  for (std::size_t s = 0; s < k; ++s) {
    auto next = least;
    for (std::size_t end = 1; end <= weights.size(); ++end) {
      std::int64_t sum = 0;
      for (auto begin = end; begin-- > 0;)
        next[end] = std::min(next[end], std::max(least[begin], sum += weights[begin]));
    }
    least = next;
  }
  return least.back();
}

template <class Weight>
double largest_of(std::vector<Weight> const& weights, std::vector<std::size_t> const& at) {
  double largest = 0;
  for (std::size_t s = 0; s + 1 < at.size(); ++s) {
    double sum = 0;
    for (auto i = at[s]; i < at[s + 1]; ++i) sum += static_cast<double>(weights[i]);
    largest = std::max(largest, sum);
  }
  return largest;
}

}  // namespace

TEST_CASE("slice_weights: equals the dynamic program over all slices, and no slice is empty") {
  testing::rng r(91);
  for (int i = 0; i < 600; ++i) {
    std::vector<std::int64_t> weights(r.below(30));
    auto const most = std::size_t{1} << r.below(40);
    for (auto& w : weights) w = r.one_in(5) ? 0 : static_cast<std::int64_t>(r.below(most));
    auto const k = static_cast<std::uint32_t>(1 + r.below(12));
    auto const found = slice_weights<std::int64_t>(weights, k);
    CHECK(found.largest == least_by_table(weights, k));
    CHECK(largest_of(weights, found.at) == static_cast<double>(found.largest));
    CHECK(found.at.size() == k + 1);
    CHECK((found.at.front() == 0 && found.at.back() == weights.size()));
    CHECK(std::ranges::is_sorted(found.at));
    for (std::size_t s = 0; s < k && weights.size() >= k; ++s) CHECK(found.at[s] < found.at[s + 1]);
  }
}

TEST_CASE("slice_weights: accepts float, byte and very large integer weights") {
  std::vector<float> const thirds{1 / 3.0f, 1 / 3.0f, 1 / 3.0f, 1.0f};
  CHECK(slice_weights<float>(thirds, 2).at == std::vector<std::size_t>{0, 3, 4});
  CHECK(slice_weights<float>(thirds, 2).largest == doctest::Approx(1));
  std::vector<std::uint8_t> const bytes{200, 100, 100};
  CHECK(slice_weights<std::uint8_t>(bytes, 2).largest == 200);
  std::vector<std::int64_t> const large{std::numeric_limits<std::int64_t>::max() - 2, 1, 1};
  CHECK(slice_weights<std::int64_t>(large, 3).largest == large[0]);
  CHECK(slice_weights<std::int64_t>(large, 1).largest == std::numeric_limits<std::int64_t>::max());
  testing::rng r(92);
  std::vector<double> many(20'000);
  for (auto& w : many) w = r.unit();
  auto const found = slice_weights<double>(many, 64);
  CHECK(largest_of(many, found.at) == doctest::Approx(found.largest).epsilon(1e-12));
  CHECK(found.largest < std::accumulate(many.begin(), many.end(), 0.0) / 64 + 1);
}

TEST_CASE("slice_weights: scaled weights give the scaled result of the integers") {
  testing::rng r(93);
  for (int i = 0; i < 300; ++i) {
    std::vector<std::int64_t> whole(r.below(30));
    for (auto& w : whole) w = static_cast<std::int64_t>(r.below(std::size_t{1} << r.below(45)));
    auto const exponent = static_cast<int>(r.below(1900)) - 1000;
    std::vector<double> weights;
    for (auto const w : whole) weights.push_back(std::ldexp(static_cast<double>(w), exponent));
    auto const k = static_cast<std::uint32_t>(1 + r.below(12));
    auto const found = slice_weights<double>(weights, k);
    CHECK(found.largest == std::ldexp(static_cast<double>(least_by_table(whole, k)), exponent));
    CHECK(found.at.size() == k + 1);
  }
}

TEST_CASE("slice_weights: names the invalid weight at any position") {
  auto const infinite = std::numeric_limits<double>::infinity();
  for (double const bad : {-1.0, -1e-300, -std::numeric_limits<double>::denorm_min(), infinite, -infinite,
                           std::numeric_limits<double>::quiet_NaN()})
    for (std::size_t at = 0; at < 11; ++at) {
      std::vector<double> weights(11, 0.25);
      weights[at] = bad;
      try {
        slice_weights<double>(weights, 3);
        FAIL("no error for " << bad << " at " << at);
      } catch (chain_weight_error const& e) {
        CHECK(e.witness.layer == at);
      }
    }
  CHECK(slice_weights<double>(std::vector<double>(7, -0.0), 2).largest == 0);
  auto const most = std::numeric_limits<double>::max();
  CHECK(slice_weights<double>(std::vector<double>{most, 0, 0}, 2).largest == most);
}

TEST_CASE("slice_weights: accepts fewer weights than slices, and rejects invalid input") {
  CHECK(slice_weights<int>({}, 3).at == std::vector<std::size_t>{0, 0, 0, 0});
  CHECK(slice_weights<int>(std::vector<int>{0, 0}, 2).largest == 0);
  CHECK(slice_weights<int>(std::vector<int>{5}, 3).at == std::vector<std::size_t>{0, 1, 1, 1});
  CHECK_THROWS_AS(slice_weights<int>({}, 0), error);
  CHECK_THROWS_AS(slice_weights<int>(std::vector<int>{1, -1}, 2), chain_weight_error);
  CHECK_THROWS_AS(slice_weights<double>(std::vector<double>{1e308, 1e308}, 2), chain_weight_error);
  CHECK_THROWS_AS(slice_weights<std::uint64_t>(std::vector<std::uint64_t>(2, std::uint64_t{1} << 62), 2),
                  chain_weight_error);
}
