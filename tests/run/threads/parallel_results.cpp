// SPDX-License-Identifier: MIT
#include "cleave/run/threads/detail/parallel_results.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

using cleave::detail::parallel_results;

TEST_CASE("parallel_results: returns the results in order, and makes each call once") {
  for (std::uint32_t const count : {0U, 1U, 2U, 7U, 100U, 1000U}) {
    std::vector<std::atomic<int>> calls(count);
    auto const made = parallel_results(count, [&](std::uint32_t i) {
      ++calls[i];
      return std::to_string(i);
    });
    REQUIRE(made.size() == count);
    for (std::uint32_t i = 0; i < count; ++i) {
      CHECK(made[i] == std::to_string(i));
      CHECK(calls[i] == 1);
    }
  }
}

TEST_CASE("parallel_results: throws what the first of the calls that fail threw, after all have ended") {
  std::atomic<std::uint32_t> calls = 0;
  auto const f = [&](std::uint32_t i) {
    ++calls;
    if (i % 10 == 3) throw std::runtime_error("call " + std::to_string(i));
    return i;
  };
  CHECK_THROWS_WITH_AS(parallel_results(100, f), "call 3", std::runtime_error);
  CHECK(calls == 100);
}
