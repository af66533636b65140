// SPDX-License-Identifier: MIT
#include "cleave/backward/recompute_hints.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/backward/backward_phases.hpp"
#include "cleave/backward/min_saved_activations.hpp"
#include "support/cases.hpp"
#include "support/random_backward.hpp"
#include "support/small_stack.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using node_list = std::vector<std::uint32_t>;

/// A chain of products, each with a weight and a gradient of `bytes`, that ends at the input.
backward_arrays chain(std::vector<std::size_t> const& bytes, std::vector<double> const& cost) {
  backward_arrays g;
  auto const layers = static_cast<std::uint32_t>(bytes.size());
  for (std::uint32_t i = 0; i < layers; ++i) {
    g.next.add({2 * i + 2}), g.next.add({2 * i + 1}), g.next.close();
    g.next.close();
    g.parameters.push_back(2 * i + 1);
    g.bytes.insert(g.bytes.end(), {bytes[i], 9});
    g.cost.insert(g.cost.end(), {cost[i], cost[i]});
  }
  g.next.close();
  g.bytes.push_back(9);
  g.outputs = {0};
  g.inputs = {2 * layers};
  return g;
}

}  // namespace

TEST_CASE(
    "recompute_hints: prefers the highest saving per cost and keeps the values that it recomputes from") {
  auto const g = chain({10, 40, 60, 20}, {4, 2, 5, 1});
  auto const rule = edge_phases_of(g);
  auto const hints = recompute_hints(g, rule);
  // Node 4 is worth 60 / 2 and reads node 2, which is therefore kept, although it is worth 40 / 4. Node 6 is
  // worth 20 / 5, but would be recomputed from node 4.
  REQUIRE(hints.size() == 1);
  CHECK(hints[0] == recompute_hint<std::uint32_t>{4, {4}, {2}, {}, 60, 2, 30});
  auto const phases = recomputed(g, rule, hints);
  CHECK(saved_nodes(g, phases) == node_list{0, 2, 6});
  CHECK(phases_are_whole(g, backward_phases_of(g, phases)));
  CHECK(recompute_hints(g, rule, {.least_worth = 31}).empty());
}

TEST_CASE("recompute_hints: each random hint saves the stated bytes, and all together keep the pass whole") {
  rng r(51);
  std::size_t count = 0, added = 0, deep = 0;
  for (int i = 0; i < 4000; ++i) {
    auto const g = random_backward(r, 2 + r.below(40));
    auto phases = edge_phases_of(g);
    if (r.one_in(4)) phases = min_saved_activations(g).phases;
    auto const hints = recompute_hints(g, phases);
    auto const before = backward_phases_of(g, phases).bytes;
    for (auto const& h : hints) {
      auto const alone = recomputed(g, phases, {h});
      auto const p = backward_phases_of(g, alone);
      REQUIRE(p.bytes == before - h.bytes);
      double cost = 0;
      std::size_t edges = 0;
      for (std::size_t e = 0; e < alone.size(); ++e)
        if (alone[e] != phases[e]) cost += g.cost[e], ++edges;
      REQUIRE(cost == h.cost);
      REQUIRE(edges <= 256);
      REQUIRE(phases_are_whole(g, p));
      ++count;
      added += !h.added.empty();
      deep += h.again.size() > 1;
    }
    auto const all = recomputed(g, phases, hints);
    REQUIRE(phases_are_whole(g, backward_phases_of(g, all)));
    auto const kept = saved_nodes(g, all);
    for (auto const& h : hints) REQUIRE(std::ranges::count(kept, h.node) == 0);
    REQUIRE(std::ranges::is_sorted(hints, std::ranges::greater(), [](auto const& h) { return h.worth; }));
  }
  CHECK(count > 500);
  CHECK(added > 10);
  CHECK(deep > 50);
}

TEST_CASE("recompute_hints: omits hints that rerun too many edges or save too little") {
  auto g = chain({10, 0, 0, 0, 60}, {1, 1, 1, 1, 1});
  g.parameters = {1, 9};
  auto const rule = edge_phases_of(g);
  REQUIRE(recompute_hints(g, rule).size() == 1);
  CHECK(recompute_hints(g, rule)[0] == recompute_hint<std::uint32_t>{8, {2, 4, 6, 8}, {0}, {}, 60, 4, 15});
  CHECK(recompute_hints(g, rule, {.edges = 3}).empty());
  CHECK(recompute_hints(g, rule, {.least_worth = 16}).empty());
  g.parameters = {9};  // then the gradient that the caller passes must be kept instead
  CHECK(recompute_hints(g, edge_phases_of(g))[0] ==
        recompute_hint<std::uint32_t>{8, {2, 4, 6, 8}, {0}, {0}, 50, 4, 12.5});
  g.bytes.clear();
  CHECK(recompute_hints(g, edge_phases_of(g)).empty());
}

TEST_CASE("recompute_hints: rejects phases with a fault") {
  CHECK_THROWS_AS(recompute_hints(chain({1}, {1}), {}), edge_phase_error);
}

TEST_CASE("recompute_hints: handles a long chain on a small stack") {
  on_small_stack([] {
    auto const layers = cases(60'000, 500'000);
    auto const g = chain(std::vector<std::size_t>(layers, 4), std::vector<double>(layers, 1));
    auto const hints = recompute_hints(g, edge_phases_of(g));
    CHECK(hints.size() >= layers / 2 - 1);
  });
}
