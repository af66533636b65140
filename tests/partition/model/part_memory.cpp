// SPDX-License-Identifier: MIT
#include "cleave/partition/model/validity.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

namespace {

using cleave::no_part;
using cleave::part_id;
using cleave::testing::snapshot_builder;

constexpr part_id p0{0}, p1{1};

/// True if node `n` reads `v` directly or through replicable nodes.
bool reads(cleave::snapshot_arrays const& g, std::size_t n, std::size_t v) {
  for (auto const u : g.operands[n]) {
    if (u == v) return true;
    auto const m = g.producer[u];
    if (m != cleave::none<std::uint32_t> && g.replicable[m] && reads(g, m, v)) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("part_memory: a part holds a state once, even if a replicable node reads it") {
  snapshot_builder b;
  auto const w = b.state(100), unused = b.state(7);
  auto const transposed = b.node(0, {w}, 100);
  b.replicable();
  auto const x = b.node(1, {transposed, w}, 1);
  b.node(1, {x, transposed}, 1);
  b.node(1, {x, b.constant(3)});
  (void)unused;
  auto const g = b.build();
  CHECK(cleave::part_memory(g, {{no_part, p0, p0, p1}, 2}) == std::vector<std::size_t>{100, 3});
  CHECK(cleave::part_memory(g, {{no_part, p0, p1, p1}, 2}) == std::vector<std::size_t>{100, 103});
}

TEST_CASE("each_held: reports the nodes that read a state directly or through replicable nodes") {
  cleave::testing::rng r(1);
  std::size_t by_copies = 0;
  for (int i = 0; i < 200; ++i) {
    auto g = random_graph(r, {.nodes = r.below(14), .states = 4, .replicable = 3});
    for (auto const v : g.state)
      if (r.one_in(3)) g.from[v] = cleave::source::constant;
    auto p = random_partition(r, g.nodes(), static_cast<std::uint32_t>(1 + r.below(4)));
    for (auto& part : p.of)
      if (r.one_in(6)) part = no_part;
    std::vector<std::size_t> node_memory(r.one_in(2) ? g.nodes() : 0);
    for (auto& bytes : node_memory) bytes = r.below(9);

    std::vector<std::set<std::uint32_t>> held(g.values()), twin(g.values());
    cleave::detail::each_held(g, [&](std::uint32_t v, std::span<std::uint32_t const> holders) {
      REQUIRE(held[v].empty());
      REQUIRE(!holders.empty());
      held[v].insert(holders.begin(), holders.end());
    });
    std::vector<std::size_t> bytes(p.parts);
    for (auto const v : g.state) {
      std::set<part_id> parts;
      for (std::uint32_t n = 0; n < g.nodes(); ++n) {
        if (g.bytes[v] == 0 || g.replicable[n] || !reads(g, n, v)) continue;
        twin[v].insert(n);
        by_copies += std::ranges::find(g.operands[n], v) == g.operands[n].end();
        if (p.of[n] != no_part && parts.insert(p.of[n]).second) bytes[index(p.of[n])] += g.bytes[v];
      }
    }
    for (std::size_t n = 0; n < node_memory.size(); ++n)
      if (p.of[n] != no_part && !g.replicable[n]) bytes[index(p.of[n])] += node_memory[n];
    REQUIRE(held == twin);
    REQUIRE(cleave::part_memory(g, p, node_memory) == bytes);
  }
  CHECK(by_copies > 50);
}

TEST_CASE("part_memory: bytes that overflow are an error that names the node, and the maximum is allowed") {
  auto const most = std::numeric_limits<std::size_t>::max();
  snapshot_builder b;
  auto const w = b.state(most - 1);
  b.node(1, {w});
  b.node(1);
  b.name("second");
  auto const g = b.build();
  std::vector<std::size_t> bytes{1, 0};
  CHECK(cleave::part_memory(g, {{p0, p0}, 1}, bytes) == std::vector<std::size_t>{most});
  bytes[1] = 1;
  CHECK(cleave::part_memory(g, {{p0, p1}, 2}, bytes) == std::vector<std::size_t>{most, 1});
  CHECK(cleave::part_memory(g, {{p0, no_part}, 1}, bytes) == std::vector<std::size_t>{most});
  try {
    cleave::part_memory(g, {{p0, p0}, 1}, bytes);
    FAIL("no error");
  } catch (cleave::detail::overflow_error const& e) {
    CHECK(e.witness == 1);
    CHECK(std::string(e.what()).find("second (#1)") != std::string::npos);
  }
}

TEST_CASE("part_memory: without sizes only node_memory counts") {
  snapshot_builder b;
  b.node(1, {b.state(100)});
  auto g = b.build();
  g.bytes.clear();
  std::vector<std::size_t> const bytes{5};
  CHECK(cleave::part_memory(g, {{p0}, 2}) == std::vector<std::size_t>{0, 0});
  CHECK(cleave::part_memory(g, {{p0}, 2}, bytes) == std::vector<std::size_t>{5, 0});
}
