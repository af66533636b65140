// SPDX-License-Identifier: MIT
#include "cleave/graph/csr.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("csr: stores rows of different lengths, and a table without rows reads as empty rows") {
  csr<std::uint32_t> t;
  t.add(7);
  t.add(8);
  t.close();
  t.close();
  CHECK(t.rows() == 2);
  CHECK(std::vector(t[0].begin(), t[0].end()) == std::vector<std::uint32_t>{7, 8});
  CHECK(t[1].empty());
  CHECK(csr<std::uint32_t>()[5].empty());
}

TEST_CASE("narrow: throws for values that do not fit below the reserved maximum") {
  CHECK(narrow<std::uint8_t>(254) == 254);
  CHECK_THROWS_AS(narrow<std::uint8_t>(255), index_overflow);
}

TEST_CASE("users_of: lists the rows that contain an item, each once and in ascending order") {
  testing::rng random(4);
  for (int round = 0; round < 200; ++round) {
    csr<std::uint16_t> t;
    std::size_t const items = 1 + random.below(8);
    for (auto rows = random.below(8); rows-- > 0; t.close())
      for (auto listed = random.below(5); listed-- > 0;)
        t.add(static_cast<std::uint16_t>(random.below(items)));
    auto const users = users_of(t, items);
    CHECK(users.rows() == items);
    for (std::size_t i = 0; i < items; ++i) {
      std::vector<std::size_t> found;
      for (std::size_t row = 0; row < t.rows(); ++row)
        if (std::ranges::find(t[row], i) != t[row].end()) found.push_back(row);
      CHECK(std::ranges::equal(users[i], found));
    }
  }
}
