// SPDX-License-Identifier: MIT
#include "cleave/schedule/memory/memory_plan.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("rounded_up: rounds a size up to the alignment") {
  CHECK(rounded_up(0, 8) == 0);
  CHECK(rounded_up(1, 8) == 8);
  CHECK(rounded_up(8, 8) == 8);
  CHECK(rounded_up(9, 1) == 9);
}

TEST_CASE("find_memory_request_fault: finds each fault, and its error names the request") {
  using enum memory_request_fault::kind;
  auto const fault = [](std::vector<memory_request> const& needs, std::uint64_t alignment = 8) {
    CHECK_THROWS_AS(place_in_memory(needs, alignment), memory_request_error);
    return *find_memory_request_fault(needs, alignment);
  };
  CHECK(fault({}, 0) == memory_request_fault{odd_alignment, 0, 0});
  CHECK(fault({}, 24) == memory_request_fault{odd_alignment, 0, 24});
  CHECK(fault({{{0, 1}, 8}, {{0, 1}, 0}}) == memory_request_fault{no_bytes, 1});
  CHECK(fault({{{1, 0}, 8}}) == memory_request_fault{backward, 0});
  auto const most = std::uint64_t{1} << 62;
  CHECK(fault({{{0, 0}, 1}, {{1, 1}, most}}) == memory_request_fault{too_large, 1, most});
  CHECK(fault({{{0, 0}, ~std::uint64_t{0}}}).what == too_large);
  CHECK(!find_memory_request_fault(std::vector<memory_request>{{{0, 0}, most}}, 1));
  CHECK(std::string(memory_request_error({no_bytes, 1}).what()) ==
        "memory: memory request #1 has 0 bytes; give its size, or leave it out");
}
