// SPDX-License-Identifier: MIT
#include "cleave/graph/counted.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <ranges>
#include <vector>

using namespace cleave;

TEST_CASE("counted: yields f(0) to f(n - 1)") {
  std::vector<std::size_t> squares;
  for (auto x : counted(4, [](std::size_t i) { return i * i; })) squares.push_back(x);
  CHECK(squares == std::vector<std::size_t>{0, 1, 4, 9});
  CHECK(std::ranges::empty(counted(0, [](std::size_t i) { return i; })));
}
