// SPDX-License-Identifier: MIT
#include "cleave/partition/classic/space_filling_curve.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::vector<point<2>> square(std::size_t side) {
  std::vector<point<2>> points;
  for (std::size_t i = 0; i < side * side; ++i)
    points.push_back({static_cast<double>(i % side), static_cast<double>(i / side)});
  return points;
}

std::vector<std::int64_t> weights_of(partition const& p, std::vector<std::int64_t> const& node_weight) {
  std::vector<std::int64_t> weights(p.parts);
  for (std::size_t n = 0; n < p.of.size(); ++n) weights[index(p.of[n])] += node_weight[n];
  return weights;
}

}  // namespace

TEST_CASE("partition_by_coordinates: cuts a square into its quarters") {
  auto const points = square(8);
  auto const found = partition_by_coordinates<2>(points, 4);
  for (std::size_t n = 0; n < 64; ++n)
    CHECK(index(found.of[n]) == (n % 8 >= 4 ? 2u : 0u) + (n / 8 >= 4 ? 1u : 0u));
}

TEST_CASE("partition_by_coordinates, partition_by_curve: no part is empty or far above its share") {
  testing::rng r(61);
  for (int i = 0; i < 80; ++i) {
    auto const n = 1 + r.below(60);
    auto const k = static_cast<std::uint32_t>(1 + r.below(n));
    std::vector<point<3>> points(n);
    for (auto& p : points)
      for (auto& x : p) x = r.one_in(3) ? 1 : r.unit();
    std::vector<std::int64_t> const ones(n, 1);
    for (auto const& found : {partition_by_coordinates<3>(points, k), partition_by_curve<3>(points, k),
                              partition_by_curve<3>(points, k, space_curve::morton)}) {
      auto const weights = weights_of(found, ones);
      CHECK(std::ranges::min(weights) > 0);
      CHECK(std::ranges::max(weights) <= static_cast<std::int64_t>((n + k - 1) / k) + 1);
    }
    std::vector<std::int64_t> some(n);
    for (auto& w : some) w = static_cast<std::int64_t>(r.below(6));
    std::int64_t total = 0;
    for (auto const w : some) total += w;
    auto const weights =
        weights_of(partition_by_curve<3>(points, k, space_curve::hilbert, {.node_weight = some}), some);
    if (k <= n / 4) CHECK(std::ranges::max(weights) <= total / k + 7);
  }
}

TEST_CASE("curve_order: consecutive cells of a Hilbert curve are neighbours") {
  auto const flat = square(16);
  auto order = curve_order<2>(flat);
  for (std::size_t i = 1; i < order.size(); ++i) {
    auto const a = flat[order[i - 1]], b = flat[order[i]];
    CHECK(magnitude(a[0] - b[0]) + magnitude(a[1] - b[1]) == 1);
  }
  std::vector<point<3>> cube;
  for (std::size_t i = 0; i < 512; ++i)
    cube.push_back({static_cast<double>(i % 8), static_cast<double>(i / 8 % 8), static_cast<double>(i / 64)});
  order = curve_order<3>(cube);
  for (std::size_t i = 1; i < order.size(); ++i) {
    double steps = 0;
    for (std::size_t axis : {0u, 1u, 2u}) steps += magnitude(cube[order[i - 1]][axis] - cube[order[i]][axis]);
    CHECK(steps == 1);
  }
}

TEST_CASE("curve_order: a Morton curve interleaves the bits of the coordinates") {
  auto const points = square(4);
  CHECK(curve_order<2>(points, space_curve::morton) ==
        std::vector<std::uint32_t>{0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15});
  CHECK(place_on_curve<2, 3>({5, 3}, space_curve::morton) == 0b100111);
  CHECK(curve_order<1>(std::vector<point<1>>{{3}, {1}, {2}, {1}}) == std::vector<std::uint32_t>{1, 3, 2, 0});
}

TEST_CASE(
    "partition_by_coordinates, partition_by_curve: accept shares, equal points, far points and no points") {
  std::vector<point<1>> line;
  for (int i = 0; i < 40; ++i) line.push_back({static_cast<double>(i)});
  std::vector<std::int64_t> const ones(40, 1);
  point_options const o{.weights = {.share = {1, 2, 1}}};
  CHECK(weights_of(partition_by_coordinates<1>(line, 3, o), ones) == std::vector<std::int64_t>{10, 20, 10});
  CHECK(weights_of(partition_by_curve<1>(line, 3, space_curve::hilbert, o), ones) ==
        std::vector<std::int64_t>{10, 20, 10});
  std::vector<point<2>> const same(9, {1, 1});
  CHECK(weights_of(partition_by_coordinates<2>(same, 3), ones) == std::vector<std::int64_t>{3, 3, 3});
  CHECK(weights_of(partition_by_curve<2>(same, 3), ones) == std::vector<std::int64_t>{3, 3, 3});
  auto const huge = std::numeric_limits<double>::max();
  std::vector<point<2>> const far{{-huge, 0}, {huge, 0}, {0, huge}};
  CHECK(weights_of(partition_by_curve<2>(far, 3), ones) == std::vector<std::int64_t>{1, 1, 1});
  CHECK(weights_of(partition_by_coordinates<2>(far, 3), ones) == std::vector<std::int64_t>{1, 1, 1});
  CHECK(partition_by_curve<2>({}, 2).of.empty());
  CHECK(partition_by_coordinates<2>({}, 2) == partition{{}, 2});
  CHECK(partition_by_coordinates<2>(same, 12).parts == 12);
}

TEST_CASE("partition_by_coordinates, partition_by_curve: reject invalid points, parts and weights") {
  auto const none = std::numeric_limits<double>::quiet_NaN();
  std::vector<point<2>> const points{{0, 0}, {1, none}};
  CHECK(find_point_fault<2>(points) == point_fault{1});
  CHECK_THROWS_AS(partition_by_coordinates<2>(points, 2), point_error);
  CHECK_THROWS_AS(partition_by_curve<2>(points, 2), point_error);
  auto const good = square(2);
  CHECK_THROWS_AS(partition_by_curve<2>(good, 0), error);
  std::vector<std::int64_t> const few{1, 2}, negative{1, 2, -1, 1}, large(4, std::int64_t{1} << 62);
  for (auto const& weights : {few, negative, large}) {
    CHECK_THROWS_AS(partition_by_coordinates<2>(good, 2, {.node_weight = weights}), error);
    CHECK_THROWS_AS(partition_by_curve<2>(good, 2, space_curve::hilbert, {.node_weight = weights}), error);
  }
}
