// SPDX-License-Identifier: MIT
#include "cleave/core/one_or_each.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

using cleave::detail::one_or_each;

TEST_CASE("one_or_each: an empty list covers any count and returns the default") {
  std::vector<int> const none;
  for (std::size_t const count : {0u, 1u, 7u}) CHECK(one_or_each(none).covers(count));
  CHECK(one_or_each(none).of(3) == 0);
  CHECK(one_or_each(none).of(3, 5) == 5);
}

TEST_CASE("one_or_each: a list of one entry applies to every number") {
  std::vector<int> const one{4};
  for (std::size_t const count : {0u, 1u, 7u}) CHECK(one_or_each(one).covers(count));
  CHECK(one_or_each(one)[0] == 4);
  CHECK(one_or_each(one)[6] == 4);
  CHECK(one_or_each(one).of(6, 5) == 4);
}

TEST_CASE("one_or_each: a longer list has one entry for each number and covers only its own length") {
  std::vector<int> const each{4, 5, 6};
  CHECK(one_or_each(each).covers(3));
  for (std::size_t const count : {0u, 1u, 2u, 4u}) CHECK(!one_or_each(each).covers(count));
  CHECK(one_or_each(each)[2] == 6);
  CHECK(one_or_each(each).of(1, 9) == 5);
}
