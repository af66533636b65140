// SPDX-License-Identifier: MIT
#include "cleave/partition/kway/detail/presets.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/kway/kway.hpp"
#include "support/rng.hpp"
#include "support/weighted_level.hpp"

namespace {

using cleave::kway_preset;
using cleave::testing::weighted_level;

/// A random graph of `core` nodes of degree about 2 * `degree`, and nine times as many leaves around it.
weighted_level core_with_leaves(cleave::testing::rng& r, std::uint32_t core, std::uint32_t degree) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  for (std::uint32_t n = 0; n < core; ++n)
    for (std::uint32_t i = 0; i < degree; ++i)
      edges.emplace_back(n, (n + 1 + static_cast<std::uint32_t>(r.below(core - 1))) % core);
  for (std::uint32_t leaf = core; leaf < 10 * core; ++leaf)
    edges.emplace_back(static_cast<std::uint32_t>(r.below(core)), leaf);
  return cleave::testing::level_of(10 * core, edges);
}

}  // namespace

TEST_CASE("partition_kway: every preset cuts off leaves rather than cut a dense core, large or small") {
  cleave::testing::rng r(7);
  for (std::uint32_t const core : {40u, 500u}) {
    auto const g = core_with_leaves(r, core, 20);
    cleave::adjacency_view<std::uint32_t, std::int64_t, std::int64_t> const view{
        g.offsets, g.targets, g.node_weight, g.edge_weight};
    for (auto const preset : {kway_preset::fast, kway_preset::standard, kway_preset::quality}) {
      auto const p = cleave::partition_kway(view, 2, {.preset = preset});
      CHECK(p.within_limits);
      // A side of leaves alone cuts one edge per leaf; half of the core has more than ten times as many.
      CHECK(p.cut <= 5 * static_cast<std::int64_t>(core));
    }
  }
}
