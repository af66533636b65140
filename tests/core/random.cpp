// SPDX-License-Identifier: MIT
#include "cleave/core/random.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

using namespace cleave;

TEST_CASE("splitmix: produces the published numbers of splitmix64") {
  splitmix dice(1234567);
  for (std::uint64_t const expected : {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                       4593380528125082431u, 16408922859458223821u})
    CHECK(dice.next() == expected);
}

TEST_CASE("splitmix: a shuffle permutes the list, and the same seed repeats the order") {
  std::vector<int> list(100);
  std::iota(list.begin(), list.end(), 0);
  auto one = list, two = list, other = list;
  splitmix(5).shuffle(one);
  splitmix(5).shuffle(two);
  splitmix(6).shuffle(other);
  CHECK(one == two);
  CHECK(one != other);
  CHECK(one != list);
  std::ranges::sort(one);
  CHECK(one == list);
}

TEST_CASE("splitmix: a shuffle moves each of five items to each position with equal probability") {
  std::vector<std::vector<std::size_t>> met(5, std::vector<std::size_t>(5));
  splitmix dice(1);
  for (int round = 0; round < 50'000; ++round) {
    std::vector<std::size_t> list{0, 1, 2, 3, 4};
    dice.shuffle(list);
    for (std::size_t place = 0; place < 5; ++place) ++met[list[place]][place];
  }
  for (auto const& item : met)
    for (auto const count : item) {
      CHECK(count > 9'600);
      CHECK(count < 10'400);
    }
}
