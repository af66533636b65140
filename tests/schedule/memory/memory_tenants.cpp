// SPDX-License-Identifier: MIT
#include "cleave/schedule/memory/memory_plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

struct some_memory {
  std::vector<memory_request> needs;
  std::vector<std::uint64_t> offsets;
};

some_memory random_memory(testing::rng& random) {
  some_memory m;
  for (auto left = random.below(20); left > 0; --left) {
    auto const first = static_cast<std::uint32_t>(random.below(12));
    m.needs.push_back({{first, first + static_cast<std::uint32_t>(random.below(4))}, random.below(4)});
    m.offsets.push_back(random.below(24));
  }
  return m;
}

bool share_bytes(some_memory const& m, std::size_t a, std::size_t b) {
  return m.needs[a].bytes > 0 && m.needs[b].bytes > 0 && m.offsets[a] < m.offsets[b] + m.needs[b].bytes &&
         m.offsets[b] < m.offsets[a] + m.needs[a].bytes;
}
bool share_cells(some_memory const& m, std::size_t a, std::size_t b) {
  auto const x = m.needs[a].alive, y = m.needs[b].alive;
  return x.first <= y.last && y.first <= x.last;
}

bool any_overlap(some_memory const& m) {
  for (std::size_t a = 0; a < m.needs.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (share_bytes(m, a, b) && share_cells(m, a, b)) return true;
  return false;
}

}  // namespace

TEST_CASE("find_memory_overlap: finds an overlap exactly if a comparison of all pairs does") {
  testing::rng random(8);
  int found = 0;
  for (int i = 0; i < 3000; ++i) {
    auto const m = random_memory(random);
    auto const overlap = find_memory_overlap(m.needs, m.offsets);
    REQUIRE(overlap.has_value() == any_overlap(m));
    if (!overlap) continue;
    ++found;
    REQUIRE(overlap->first < overlap->second);
    REQUIRE(share_bytes(m, overlap->first, overlap->second));
    for (auto const n : {overlap->first, overlap->second}) {
      REQUIRE(m.needs[n].alive.first <= overlap->cell);
      REQUIRE(overlap->cell <= m.needs[n].alive.last);
    }
  }
  CHECK(found > 100);
}

TEST_CASE("last_allocations: gives the last earlier cell in which any of the bytes was in use") {
  testing::rng random(9);
  int reused = 0;
  for (int i = 0; i < 3000; ++i) {
    auto const m = random_memory(random);
    if (any_overlap(m)) continue;
    auto const before = last_allocations(m.needs, m.offsets);
    for (std::size_t a = 0; a < m.needs.size(); ++a) {
      std::optional<std::uint32_t> last;
      for (std::size_t b = 0; b < m.needs.size(); ++b)
        if (a != b && share_bytes(m, a, b) && m.needs[b].alive.last < m.needs[a].alive.first)
          last = std::max(last, std::optional(m.needs[b].alive.last));
      REQUIRE(before[a] == last);
      reused += last.has_value();
    }
  }
  CHECK(reused > 100);
}
