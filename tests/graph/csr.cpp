// SPDX-License-Identifier: MIT
#include "cleave/graph/csr.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cleave/graph/joined_sets.hpp"
#include "support/rng.hpp"

using namespace cleave;

TEST_CASE("csr: lists of different lengths, and a table without rows reads as empty lists") {
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

TEST_CASE("narrow: what does not fit below none is an error") {
  CHECK(narrow<std::uint8_t>(254) == 254);
  CHECK_THROWS_AS(narrow<std::uint8_t>(255), index_overflow);
}

TEST_CASE(
    "users_of: the rows that list an item, each once and ascending, as a search over all rows finds them") {
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

TEST_CASE("joined_sets: the smallest member stands for its set, as relabelling all members has it") {
  testing::rng random(5);
  for (int round = 0; round < 200; ++round) {
    std::size_t const n = 1 + random.below(12);
    joined_sets<std::uint32_t> sets(n);
    std::vector<std::size_t> label(n);
    for (std::size_t i = 0; i < n; ++i) label[i] = i;
    for (auto joins = random.below(2 * n); joins-- > 0;) {
      auto const a = random.below(n), b = random.below(n);
      sets.join(a, b);
      auto const low = std::min(label[a], label[b]), high = std::max(label[a], label[b]);
      std::ranges::replace(label, high, low);
    }
    for (std::size_t i = 0; i < n; ++i) CHECK(sets[i] == label[i]);
  }
}
