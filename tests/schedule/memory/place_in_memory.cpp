// SPDX-License-Identifier: MIT
#include "cleave/schedule/memory/memory_plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::vector<memory_request> some_needs(testing::rng& random, std::size_t count, std::size_t cells,
                                       std::size_t sizes) {
  std::vector<memory_request> needs(count);
  for (auto& n : needs) {
    n.alive.first = static_cast<std::uint32_t>(random.below(cells));
    n.alive.last = n.alive.first + static_cast<std::uint32_t>(random.below(cells - n.alive.first));
    n.bytes = 1 + random.below(sizes);
  }
  return needs;
}

bool overlap(std::vector<memory_request> const& needs, memory_layout const& l) {
  for (std::size_t a = 0; a < needs.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (needs[a].alive.first <= needs[b].alive.last && needs[b].alive.first <= needs[a].alive.last &&
          l.offsets[a] < l.offsets[b] + needs[b].bytes && l.offsets[b] < l.offsets[a] + needs[a].bytes)
        return true;
  return false;
}

std::uint64_t most_in_a_cell(std::vector<memory_request> const& needs, std::uint64_t alignment,
                             std::uint32_t cells) {
  std::uint64_t most = 0;
  for (std::uint32_t cell = 0; cell < cells; ++cell) {
    std::uint64_t here = 0;
    for (auto const& n : needs)
      if (n.alive.first <= cell && cell <= n.alive.last)
        here += (n.bytes + alignment - 1) / alignment * alignment;
    most = std::max(most, here);
  }
  return most;
}

}  // namespace

TEST_CASE("place_in_memory: requests are aligned, never overlap and stay within the reported bytes") {
  testing::rng random(5);
  for (int i = 0; i < 300; ++i) {
    auto const needs = some_needs(random, random.below(40), 1 + random.below(40), 1 + random.below(100));
    std::uint64_t const alignment = std::uint64_t{1} << random.below(5);
    auto const layout = place_in_memory(needs, alignment);
    REQUIRE(!overlap(needs, layout));
    REQUIRE(layout.least_bytes == most_in_a_cell(needs, alignment, 40));
    REQUIRE(layout.bytes >= layout.least_bytes);
    for (std::size_t n = 0; n < needs.size(); ++n) {
      REQUIRE(layout.offsets[n] % alignment == 0);
      REQUIRE(layout.offsets[n] + needs[n].bytes <= layout.bytes);
    }
  }
}

TEST_CASE("place_in_memory: is optimal if all requests have the same size") {
  testing::rng random(6);
  for (int i = 0; i < 200; ++i) {
    auto const needs = some_needs(random, 1 + random.below(60), 1 + random.below(60), 1);
    auto const layout = place_in_memory(needs, 64);
    REQUIRE(layout.bytes == layout.least_bytes);
  }
}

TEST_CASE("place_in_memory: reuses freed memory, together with the free memory next to it") {
  CHECK(place_in_memory(std::vector<memory_request>{{{0, 1}, 6}, {{2, 2}, 4}, {{2, 2}, 2}}).bytes == 6);
  CHECK(place_in_memory(std::vector<memory_request>{{{0, 1}, 4}, {{0, 1}, 2}, {{2, 2}, 6}}).bytes == 6);
  CHECK(place_in_memory(std::vector<memory_request>{{{0, 0}, 2}, {{0, 3}, 2}, {{1, 3}, 3}}).bytes == 5);
  CHECK(place_in_memory({}).bytes == 0);
}

TEST_CASE(
    "place_in_memory: returns the smallest of three layouts, and each of them is sometimes the only best") {
  testing::rng random(7);
  std::array<int, 3> wins{};
  for (int i = 0; i < 400; ++i) {
    auto const needs = some_needs(random, 12, 12, 4);
    std::array const bytes{good_fits(needs).bytes, good_fits_backward(needs).bytes,
                           slots_by_size(needs).bytes};
    auto const least = std::ranges::min(bytes);
    REQUIRE(place_in_memory(needs).bytes == least);
    for (std::size_t l = 0; l < 3; ++l)
      if (std::ranges::count(bytes, least) == 1 && bytes[l] == least) ++wins[l];
  }
  for (auto const w : wins) CHECK(w > 0);
}
