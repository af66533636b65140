// SPDX-License-Identifier: MIT
#include "cleave/graph/components.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "support/rng.hpp"
#include "support/small_stack.hpp"

namespace {

using index_type = std::uint32_t;

}  // namespace

TEST_CASE("components_of: groups rows that reach each other, and returns nothing for an acyclic graph") {
  cleave::testing::rng r(1);
  int cyclic = 0;
  for (int i = 0; i < 500; ++i) {
    auto const n = r.below(9);
    cleave::detail::csr<index_type> needs;
    std::vector<std::vector<char>> reach(n, std::vector<char>(n));
    for (std::size_t row = 0; row < n; ++row, needs.close())
      for (auto count = r.below(3); count-- > 0;) {
        auto const item = r.below(n);
        needs.add(static_cast<index_type>(item));
        reach[row][item] = 1;
      }
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t a = 0; a < n; ++a)
        for (std::size_t b = 0; b < n; ++b) reach[a][b] |= reach[a][k] && reach[k][b];
    bool loops = false;
    for (std::size_t a = 0; a < n; ++a) loops |= reach[a][a];
    cyclic += loops;

    REQUIRE(cleave::detail::is_acyclic(needs) == !loops);
    auto const component = cleave::detail::components_of(needs);
    REQUIRE(component.size() == (loops ? n : 0));
    for (std::size_t a = 0; a < component.size(); ++a) {
      REQUIRE(component[a] < n);
      for (std::size_t b = 0; b < component.size(); ++b) {
        REQUIRE((component[a] == component[b]) == (a == b || (reach[a][b] && reach[b][a])));
        if (reach[a][b]) REQUIRE(component[b] <= component[a]);
      }
    }
  }
  CHECK(cyclic > 100);
  CHECK(cyclic < 450);
}

TEST_CASE("components_of: handles a cycle of a million rows on a small stack") {
  cleave::detail::csr<index_type> ring;
  index_type const n = 1'000'000;
  for (index_type i = 0; i < n; ++i, ring.close()) ring.add((i + 1) % n);
  cleave::testing::on_small_stack([&] {
    auto const component = cleave::detail::components_of(ring);
    CHECK(component.size() == n);
    CHECK(std::ranges::count(component, 0u) == n);
  });
}
