// SPDX-License-Identifier: MIT
#include "cleave/schedule/memory/memory_plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("free_memory: blocks never overlap and stay within the arena, whatever the order of give") {
  testing::rng random(23);
  struct taken {
    std::uint32_t block;
    std::uint64_t offset, bytes;
  };
  for (int i = 0; i < 60; ++i) {
    free_memory memory;
    std::vector<taken> all;
    std::uint64_t const sizes = random.one_in(2) ? 40 : 100'000;
    for (int step = 0; step < 300; ++step) {
      if (!all.empty() && random.one_in(2)) {
        auto const at = all.begin() + static_cast<std::ptrdiff_t>(random.below(all.size()));
        memory.give(at->block);
        all.erase(at);
        continue;
      }
      auto const bytes = 1 + random.below(sizes);
      auto const block = memory.take(bytes);
      auto const offset = memory.offset_of(block);
      REQUIRE(offset + bytes <= memory.bytes());
      for (auto const& t : all) REQUIRE((offset + bytes <= t.offset || t.offset + t.bytes <= offset));
      all.push_back({block, offset, bytes});
    }
    for (auto const& t : all) memory.give(t.block);
    auto const whole = memory.bytes();
    CHECK(memory.offset_of(memory.take(whole)) == 0);
    CHECK(memory.bytes() == whole);
  }
}

TEST_CASE("free_memory: reuses returned blocks before the arena grows") {
  free_memory memory;
  auto const a = memory.take(100), b = memory.take(50), c = memory.take(100);
  memory.give(b);
  CHECK(memory.offset_of(memory.take(50)) == 100);
  memory.give(a);
  CHECK(memory.offset_of(memory.take(40)) == 0);
  CHECK(memory.offset_of(memory.take(60)) == 40);
  memory.give(c);
  CHECK(memory.offset_of(memory.take(130)) == 150);
  CHECK(memory.bytes() == 280);
}

TEST_CASE("free_memory: handles sizes up to 2^62") {
  free_memory memory;
  auto const huge = memory.take(std::uint64_t{1} << 62);
  memory.give(huge);
  CHECK(memory.offset_of(memory.take((std::uint64_t{1} << 62) - 1)) == 0);
  CHECK(memory.offset_of(memory.take(1)) == (std::uint64_t{1} << 62) - 1);
}
