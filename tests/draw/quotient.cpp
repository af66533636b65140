// SPDX-License-Identifier: MIT
#include "cleave/draw/stage_graph.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "cleave/graph/snapshot.hpp"
#include "cleave/split/make_plan.hpp"
#include "support/random_program.hpp"
#include "support/rng.hpp"
#include "support/toy_ir.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("quotient_of: counts nodes, costs, bytes and links as a direct walk over the plan does") {
  testing::rng random(11);
  for (int round = 0; round < 50; ++round) {
    auto const program = testing::random_program(random, 2 + random.below(60));
    auto const g = snapshot_of(toy::graph(program));
    auto const parts = static_cast<std::uint32_t>(1 + random.below(5));
    auto const p = make_plan(g, testing::equal_slices(g.nodes(), parts));
    auto const q = quotient_of(g, p);

    REQUIRE(q.stages.size() == p.stages.size());
    for (std::size_t s = 0; s < p.stages.size(); ++s) {
      double cost = 0;
      for (auto const n : p.stages[s].nodes) cost += g.weight[n];
      std::size_t in = 0, out = 0;
      for (auto const v : p.stages[s].inputs) in += g.bytes[v];
      for (auto const v : p.stages[s].outputs) out += g.bytes[v];
      CHECK(q.stages[s].nodes == p.stages[s].nodes.size());
      CHECK(q.stages[s].cost == cost);
      CHECK(q.stages[s].in == byte_sum{in, 0});
      CHECK(q.stages[s].out == byte_sum{out, 0});
    }
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<std::size_t, std::uint64_t>> sent;
    for (auto const& t : p.transfers) {
      auto& [values, bytes] = sent[{index(t.from), index(t.to)}];
      ++values;
      bytes += g.bytes[t.value];
    }
    REQUIRE(q.links.size() == sent.size());
    auto expected = sent.begin();
    for (auto const& l : q.links) {
      CHECK(expected->first == std::pair(index(l.from), index(l.to)));
      CHECK(expected->second == std::pair(l.values, l.bytes.known));
      ++expected;
    }
  }
}

TEST_CASE("quotient_of: counts shared storage once and marks sums with unknown sizes") {
  snapshot_arrays g;
  g.operands.item = {0, 1, 2};
  g.operands.first = {0, 3};
  g.producer = {none<std::uint32_t>, none<std::uint32_t>, none<std::uint32_t>};
  g.from = {source::state, source::state, source::constant};
  g.bytes = {100, 100, 0};
  g.storage = {7, 7, 8};
  plan p;
  p.stages.push_back({{0}, {}, {0, 1, 2}, {}});
  auto const q = quotient_of(g, p);
  CHECK(q.stages[0].state == byte_sum{100, 1});
  CHECK(bytes_text(q.stages[0].state) == "≥100\u00a0B");
  g.bytes.clear();
  CHECK(bytes_text(quotient_of(g, p).stages[0].state) == "?\u00a0B");
}

TEST_CASE("byte_sum: stays at the largest number on overflow") {
  byte_sum sum;
  sum.add(static_cast<std::size_t>(-2));
  sum.add(7);
  CHECK(sum.known == UINT64_MAX);
}
