// SPDX-License-Identifier: MIT
#include "cleave/graph/order.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

using namespace cleave;

TEST_CASE(
    "producers_first: returns all predecessors of the roots, each once and after its own predecessors") {
  std::vector<std::vector<int>> const needs{{1, 2}, {3}, {3, 1}, {}, {0}};
  auto const order =
      producers_first(std::vector{0, 2}, [&](int n) { return needs[static_cast<std::size_t>(n)]; });
  CHECK(order == std::vector{3, 1, 2, 0});
}

TEST_CASE("producers_first: handles a chain of a million nodes") {
  int const n = 1'000'000;
  auto const order = producers_first(std::vector{n - 1},
                                     [](int i) { return i > 0 ? std::vector{i - 1} : std::vector<int>(); });
  CHECK(order.size() == n);
  CHECK(std::ranges::is_sorted(order));
}
