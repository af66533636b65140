// SPDX-License-Identifier: MIT
#include "cleave/partition/classic/named_methods.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/error_text.hpp"
#include "support/rng.hpp"
#include "support/small_adjacency.hpp"

using namespace cleave;

TEST_CASE("classic_partition: each method makes k balanced parts and repeats for a seed") {
  testing::rng r(81);
  auto random = testing::random_adjacency(r, 90, 200, 5);
  random.node_weight.clear();
  for (auto const& m : classic_methods)
    for (auto const& g : {random, testing::grid_adjacency(9, 11), testing::clique_ring(6, 7)})
      for (std::uint32_t const k : {1u, 2u, 5u, 16u}) {
        CAPTURE(std::string(m.name));
        auto const found =
            classic_partition(m.name, g.view(), k, {.weights = {.imbalance = 0.05}, .seed = 4});
        CHECK(found.parts == k);
        CHECK(std::ranges::min(found.part_weights) > 0);
        auto const share = static_cast<double>((g.view().nodes() + k - 1) / k);
        CHECK(std::ranges::max(found.part_weights) <= share * 1.05 + (m.name == "spectral" ? 1 : 0));
        CHECK(static_cast<double>(testing::plain_cut(g, found.of)) == found.cut);
        CHECK(classic_partition(m.name, g.view(), k, {.weights = {.imbalance = 0.05}, .seed = 4}).of ==
              found.of);
      }
}

TEST_CASE("classic_partition: fm and kl cut a grid well, and refinement never worsens a method") {
  auto const g = testing::grid_adjacency(30, 30);
  auto const cut = [&](char const* name) { return classic_partition(name, g.view(), 4).cut; };
  CHECK(cut("labels") <= cut("greedy-growing"));
  CHECK(cut("fm") == 60);
  CHECK(cut("kl") <= 64);
  CHECK(cut("spectral-fm") <= cut("spectral"));
}

TEST_CASE("classic_partition: rejects an unknown name and lists the known ones") {
  auto const text = testing::error_text([] { classic_partition("fmm", adjacency_view<int>{}, 2); });
  CHECK(text.find("fmm") != std::string::npos);
  CHECK(text.find("spectral-fm") != std::string::npos);
  for (auto const& m : classic_methods) CHECK(classic_partition(m.name, adjacency_view<int>{}, 2).cut == 0);
}
