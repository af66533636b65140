// SPDX-License-Identifier: MIT
#include "cleave/partition/model/partition.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

namespace {

using index_type = std::uint32_t;
using list = std::vector<index_type>;

list needed(cleave::snapshot_arrays const& g, std::size_t n, bool crosses) {
  list nodes;
  cleave::detail::each_predecessor(
      g, n, [&](index_type) { return crosses; }, [&](index_type m) { nodes.push_back(m); });
  return nodes;
}

}  // namespace

TEST_CASE(
    "each_predecessor: visits producers, companions of crossing values and ordered nodes, in this order") {
  cleave::testing::snapshot_builder b;
  auto const size = b.node(1), x = b.node(1), y = b.node(1, {x, x});
  b.node(1, {y});
  b.after(1);
  auto g = b.build();
  g.companions.first.assign(g.values() + 1, 0);
  g.companions.item = {size};  // of `y`
  for (auto v = y; v < g.values(); ++v) g.companions.first[v + 1] = 1;
  CHECK(needed(g, 2, true) == list{1, 1});
  CHECK(needed(g, 3, true) == list{2, 0, 1});
  CHECK(needed(g, 3, false) == list{2, 1});
}

TEST_CASE("each_dependency: equals the definition on random graphs with companions and replicable nodes") {
  cleave::testing::rng r(1);
  std::size_t alongside = 0;
  for (int i = 0; i < 200; ++i) {
    auto g = random_graph(r, {.nodes = r.below(12), .states = 2, .replicable = 4, .ordered = 3});
    for (std::size_t v = 0; v < g.values(); ++v, g.companions.close())
      if (r.one_in(3)) g.companions.add(static_cast<index_type>(r.below(g.values())));

    std::vector<std::pair<index_type, index_type>> pairs, twin;
    cleave::detail::each_dependency(g, [&](index_type m, index_type n) { pairs.emplace_back(m, n); });
    auto const makes = [&](index_type m, index_type v) {
      return std::ranges::find(g.results[m], v) != g.results[m].end();
    };
    for (index_type m = 0; m < g.nodes(); ++m)
      for (index_type n = 0; n < g.nodes(); ++n) {
        if (g.replicable[m] || g.replicable[n]) continue;
        for (auto const v : g.operands[n]) {
          if (makes(m, v)) twin.emplace_back(m, n);
          bool copied = false;
          for (index_type k = 0; k < g.nodes(); ++k) copied |= makes(k, v) && g.replicable[k];
          for (auto const c : g.companions[v])
            if (!copied && makes(m, c)) twin.emplace_back(m, n), ++alongside;
        }
        for (auto const before : g.after[n])
          if (before == m) twin.emplace_back(m, n);
      }
    std::ranges::sort(pairs);
    std::ranges::sort(twin);
    REQUIRE(pairs == twin);
  }
  CHECK(alongside > 50);
}

TEST_CASE("each_predecessor: passes the producer of each operand to the callback, or none for an input") {
  cleave::testing::snapshot_builder b;
  auto const in = b.input(), copied = b.node(1);
  b.replicable();
  auto const x = b.node(1);
  b.node(1, {in, copied, x});
  list asked;
  auto const ask = [&](index_type m) {
    asked.push_back(m);
    return true;
  };
  cleave::detail::each_predecessor(b.build(), 2, ask, [](index_type) {});
  CHECK(asked == list{cleave::none<index_type>, 1});
}
