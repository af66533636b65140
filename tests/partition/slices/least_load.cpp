// SPDX-License-Identifier: MIT
#include "cleave/partition/slices/slicing.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "support/rng.hpp"

TEST_CASE("least_load: equals a direct sum after any openings, closings and changes") {
  cleave::testing::rng r(5);
  for (int i = 0; i < 50; ++i) {
    auto const places = 1 + r.below(20);
    cleave::detail::least_load tree;
    tree.reset(places);
    std::vector<std::int64_t> cost(places);
    std::vector<char> open(places);
    for (std::size_t place = 0; place < places; ++place) {
      tree.add_later(place, cost[place] = static_cast<std::int64_t>(r.below(9)) - 3);
      if (r.one_in(2)) tree.open_later(place), open[place] = 1;
    }
    tree.rebuild();
    for (int step = 0; step < 100; ++step) {
      std::int64_t sum = 0, least = cleave::detail::unreachable_load;
      for (std::size_t place = places; place-- > 0;) {
        sum += cost[place];
        if (open[place]) least = std::min(least, sum);
      }
      REQUIRE((least == cleave::detail::unreachable_load ? tree.least() > cleave::detail::unreachable_load / 2
                                                         : tree.least() == least));
      auto const place = r.below(places);
      auto const change = static_cast<std::int64_t>(r.below(9)) - 4;
      switch (r.below(3)) {
        case 0:
          tree.add(place, change), cost[place] += change;
          break;
        case 1:
          tree.open(place), open[place] = 1;
          break;
        default:
          tree.close(place), open[place] = 0;
      }
    }
  }
}

TEST_CASE("least_load: without an open place least() exceeds any sum of costs") {
  auto const half = cleave::detail::unreachable_load / 2;
  cleave::detail::least_load tree;
  CHECK(tree.least() > half);
  tree.reset(0);
  CHECK(tree.least() > half);
  tree.reset(5);
  tree.add(0, std::int64_t{1} << 59);
  tree.add(4, -(std::int64_t{1} << 59));
  CHECK(tree.least() > half);
  tree.open(4);
  CHECK(tree.least() == -(std::int64_t{1} << 59));
  tree.reset(5);
  CHECK(tree.least() > half);
}
