// SPDX-License-Identifier: MIT
#include "cleave/partition/units/topological_orders.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "support/rng.hpp"

TEST_CASE("rank_set: take_least() returns the smallest rank after any insertions") {
  cleave::testing::rng r(5);
  for (std::size_t const bound : {std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{65},
                                  std::size_t{4096}, std::size_t{4097}}) {
    cleave::detail::rank_set set(bound);
    std::vector<char> in(bound);
    for (int step = 0; step < 2000; ++step) {
      CHECK(set.empty() == (std::ranges::count(in, 1) == 0));
      if (set.empty() || r.one_in(2)) {
        auto const x = r.below(bound);
        set.insert(x);
        in[x] = 1;
      } else {
        auto const least = static_cast<std::size_t>(std::ranges::find(in, 1) - in.begin());
        REQUIRE(set.take_least() == least);
        in[least] = 0;
      }
    }
  }
}

TEST_CASE("rank_set: an element inserted twice comes out once, and the default set has room for 0") {
  cleave::detail::rank_set set;
  CHECK(set.empty());
  set.insert(0);
  set.insert(0);
  CHECK(set.take_least() == 0);
  CHECK(set.empty());
  CHECK(cleave::detail::rank_set(0).empty());
}

TEST_CASE("rank_set: works at both ends of a set with four levels") {
  cleave::detail::rank_set set(1'000'000);
  for (std::size_t const x : {999'999u, 262'144u, 0u, 262'143u}) set.insert(x);
  for (std::size_t const x : {0u, 262'143u, 262'144u, 999'999u}) CHECK(set.take_least() == x);
  CHECK(set.empty());
}
