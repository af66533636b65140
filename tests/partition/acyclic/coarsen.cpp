// SPDX-License-Identifier: MIT
#include "cleave/partition/acyclic/detail/coarsening.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include "cleave/graph/components.hpp"
#include "cleave/partition/acyclic/state.hpp"
#include "support/random_level.hpp"

using cleave::testing::random_level;

TEST_CASE("coarsened: clusters form no cycle, stay within their part and obey the weight limit") {
  cleave::testing::rng r(1);
  int levels = 0;
  for (int i = 0; i < 60; ++i) {
    random_level const x(r, {.nodes = 10 + r.below(150), .reach = 2 + r.below(30), .states = 9}, 4);
    auto const of = x.parts(r);
    auto const sum = std::accumulate(x.level.weight[0].begin(), x.level.weight[0].end(), std::int64_t{});
    bool const within = r.one_in(2);
    cleave::detail::coarsen_options o{.enough = 3, .most_weight = sum / 5 + 1, .seed = r.next()};
    if (within) o.part = of;
    auto const h = cleave::detail::coarsened<std::uint32_t>(x.level, o);
    std::vector<std::uint32_t> part = of;
    for (std::size_t l = 0; l < h.levels.size(); ++l, ++levels) {
      auto const& level = h.levels[l];
      REQUIRE(cleave::detail::is_acyclic(level.predecessors));
      REQUIRE(level.units() < h.cluster[l].size());
      auto const& weight = level.weight[0];
      REQUIRE(std::accumulate(weight.begin(), weight.end(), std::int64_t{}) == sum);
      std::vector<std::uint32_t> size(level.units());
      for (auto const c : h.cluster[l]) ++size[c];
      for (std::size_t c = 0; c < size.size(); ++c) {
        REQUIRE(size[c] > 0);
        if (l == 0 && size[c] > 1) REQUIRE(weight[c] <= o.most_weight);
      }
      if (!within) continue;
      std::vector<std::uint32_t> coarse(level.units(), 99);
      for (std::size_t u = 0; u < part.size(); ++u) {
        auto& p = coarse[h.cluster[l][u]];
        REQUIRE((p == 99 || p == part[u]));
        p = part[u];
      }
      // Loads and cut of the parts are the same on every level.
      auto limits = x.limits;
      limits.memory.assign(4, 1'000'000);
      auto const& below = l == 0 ? x.level : h.levels[l - 1];
      cleave::detail::acyclic_state<std::uint32_t> const fine(below, limits, part),
          rough(level, limits, coarse);
      for (std::uint32_t s = 0; s < 4; ++s) REQUIRE(fine.load(s) == rough.load(s));
      REQUIRE(fine.cut() == rough.cut());
      part = coarse;
    }
  }
  CHECK(levels > 120);
}

TEST_CASE("merge_equal_values: values that touch the same units become one with the sum of their prices") {
  cleave::detail::csr<std::uint32_t> touching;
  for (auto const& row : std::vector<std::vector<std::uint32_t>>{{0, 1}, {1, 2}, {0, 1}, {0, 1, 2}, {1, 2}}) {
    for (auto const u : row) touching.add(u);
    touching.close();
  }
  std::vector<std::vector<std::int64_t>> price{{1, 2, 3, 4, 5}, {10, 20, 30, 40, 50}};
  cleave::detail::merge_equal_values(touching, price);
  CHECK(touching.rows() == 3);
  CHECK(price == std::vector<std::vector<std::int64_t>>{{4, 7, 4}, {40, 70, 40}});
}

TEST_CASE("coarsened: returns no level if no units can be joined") {
  cleave::testing::rng r(2);
  random_level const x(r, {.nodes = 30, .most_operands = 0}, 2);
  CHECK(cleave::detail::coarsened<std::uint32_t>(x.level, {.enough = 1, .most_weight = 1000}).levels.empty());
}
