// SPDX-License-Identifier: MIT
#include "cleave/partition/slices/slicing.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "support/rng.hpp"

namespace {

using index_type = std::uint32_t;

/// Units of weight 0, and values that two or more units touch.
cleave::unit_costs<index_type> random_costs(cleave::testing::rng& r, std::size_t units) {
  cleave::unit_costs<index_type> c;
  c.weight.emplace_back(units);
  for (auto values = units < 2 ? 0 : r.below(8); values-- > 0; c.touching.close()) {
    std::vector<index_type> all(units);
    std::iota(all.begin(), all.end(), 0u);
    r.shuffle(all);
    for (auto count = 2 + r.below(units - 1); count-- > 0;) c.touching.add(all[count]);
    c.transfer.push_back(static_cast<std::int64_t>(1 + r.below(50)));
  }
  c.touched = users_of(c.touching, units);
  return c;
}

}  // namespace

TEST_CASE("pairs_of: changes inside a slice sum to the cost of the values that cross its ends") {
  cleave::testing::rng r(1);
  for (int i = 0; i < 300; ++i) {
    auto const c = random_costs(r, r.below(9));
    auto const n = c.units();
    std::vector<index_type> order(n), place(n);
    std::iota(order.begin(), order.end(), 0u);
    r.shuffle(order);
    for (index_type j = 0; j < n; ++j) place[order[j]] = j;
    auto const pairs = cleave::detail::pairs_of<index_type>(c, order);
    REQUIRE(pairs.size() == n);
    REQUIRE(pairs.earlier.size() <= c.touching.item.size());  // pairs of neighbours, and one pair of the ends

    for (std::size_t begin = 0; begin < n; ++begin) {
      std::int64_t sum = 0;
      for (std::size_t end = begin + 1; end <= n; ++end) {
        pairs.each_change(end - 1, [&](index_type position, std::int64_t cost) {
          REQUIRE(position < end);
          if (position >= begin) sum += cost;
        });
        std::int64_t twin = 0;
        for (std::size_t v = 0; v < c.transfer.size(); ++v) {
          auto const inside = [&](index_type u) { return place[u] >= begin && place[u] < end; };
          if (std::ranges::any_of(c.touching[v], inside) && !std::ranges::all_of(c.touching[v], inside))
            twin += c.transfer[v];
        }
        REQUIRE(sum == twin);
      }
    }
  }
}

TEST_CASE("pairs_of: a value with two users becomes one pair that saves its cost on both sides") {
  cleave::unit_costs<index_type> c;
  c.weight = {{0, 0}};
  c.touching.item = {0, 1};
  c.touching.close();
  c.transfer = {7};
  c.touched = users_of(c.touching, 2);
  auto const pairs = cleave::detail::pairs_of<index_type>(c, std::vector<index_type>{1, 0});
  CHECK(pairs.alone == std::vector<std::int64_t>{7, 7});
  CHECK(pairs.first == std::vector<index_type>{0, 0, 1});
  CHECK(pairs.earlier == std::vector<index_type>{0});
  CHECK(pairs.saved == std::vector<std::int64_t>{14});
}
