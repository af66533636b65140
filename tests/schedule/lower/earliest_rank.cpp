// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/send_in_time.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("earliest_rank: starts with every time at never and rank 0 first") {
  earliest_rank none(0), one(1);
  CHECK(none.time() == earliest_rank::never);
  CHECK(one.rank() == 0);
  one.set(0, 3);
  CHECK(one.time() == 3);
}

TEST_CASE("earliest_rank: matches a linear scan, even with many equal times") {
  testing::rng random(1);
  for (std::uint32_t ranks = 1; ranks < 20; ++ranks) {
    earliest_rank next(ranks);
    std::vector<double> times(ranks, earliest_rank::never);
    for (int change = 0; change < 200; ++change) {
      auto const r = static_cast<std::uint32_t>(random.below(ranks));
      times[r] = random.one_in(4) ? earliest_rank::never : static_cast<double>(random.below(5));
      next.set(r, times[r]);
      auto const first = std::ranges::min_element(times);
      CHECK(next.rank() == static_cast<std::size_t>(first - times.begin()));
      CHECK(next.time() == *first);
      CHECK(next.time_of(r) == times[r]);
      if (!random.one_in(3) || *first == earliest_rank::never) continue;
      std::vector<std::uint32_t> taken, expected;
      next.take_earliest([&](std::uint32_t t) { taken.push_back(t); });
      for (std::uint32_t q = 0; q < ranks; ++q)
        if (times[q] == *first) expected.push_back(q);
      for (auto const q : expected) times[q] = earliest_rank::never;
      CHECK(taken == expected);
    }
  }
}
