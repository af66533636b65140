// SPDX-License-Identifier: MIT
#include "cleave/backward/backward_graph.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "cleave/backward/weight_cut.hpp"
#include "support/random_graph.hpp"
#include "support/snapshot_builder.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using node_list = std::vector<std::uint32_t>;
using edge = gradient_edge<std::uint32_t>;
constexpr edge nowhere{};

std::vector<edge> row(backward_arrays const& b, std::size_t n) {
  return {b.next[n].begin(), b.next[n].end()};
}

}  // namespace

TEST_CASE(
    "backward_of: makes a node for each node and a leaf for each input and state, but not for constants") {
  snapshot_builder f;
  auto const x = f.input(4);
  auto const w = f.state(9), v = f.state(7);
  auto const c = f.constant(5);
  auto const h = f.nodes(3, {x, w}, {8, 2});  // node 0
  auto const shape = f.node(1, {c});          // node 1 needs no gradient
  auto const y = f.node(2, {h[1], shape, h[0], v, h[1]}, 6);
  f.name("last");
  f.output(y);
  f.output(h[0]);
  f.output(c);
  auto const b = backward_of(f.build());
  CHECK(b.nodes() == 6);
  CHECK(b.inputs == node_list{3});
  CHECK(b.parameters == node_list{4, 5});
  CHECK(row(b, 0) == std::vector<edge>{{3, 0}, {4, 0}});
  CHECK(row(b, 1) == std::vector<edge>{nowhere});
  CHECK(row(b, 2) == std::vector<edge>{{0, 1}, nowhere, {0, 0}, {5, 0}, {0, 1}});
  CHECK(b.bytes == std::vector<std::size_t>{10, 1, 6, 4, 9, 7});
  CHECK(b.cost == std::vector<double>{3, 3, 1, 2, 2, 2, 2, 2});
  CHECK(b.outputs == node_list{2, 0});
  CHECK(b.label(2) == "last (#2)");
  CHECK_FALSE(find_backward_graph_fault(b));
  CHECK(weight_cut_of(b).groups == std::vector<weight_group<std::uint32_t>>{{{4}, {0}, 10}, {{5}, {2}, 6}});
}

TEST_CASE("backward_of: makes no leaf for inputs and state that need no gradient") {
  snapshot_builder f;
  auto const x = f.input(), w = f.state(), v = f.state();
  auto const h = f.node(1, {x, w});
  f.output(f.node(1, {h, v}));
  auto const b = backward_of(f.build(), {0, 0, 1, 0, 0});
  CHECK(b.inputs.empty());
  CHECK(b.parameters == node_list{2});
  CHECK(row(b, 0) == std::vector<edge>{nowhere, nowhere});
  CHECK(row(b, 1) == std::vector<edge>{nowhere, {2, 0}});
}

TEST_CASE("backward_of: random graphs give valid backward graphs whose edges lead to producers of operands") {
  rng r(61);
  for (int i = 0; i < 300; ++i) {
    auto const g = random_graph(r, {.nodes = 1 + r.below(30), .states = 3});
    auto const b = backward_of(g);
    REQUIRE_FALSE(find_backward_graph_fault(b));
    for (std::size_t n = 0; n < g.nodes(); ++n)
      for (std::size_t i_th = 0; i_th < g.operands[n].size(); ++i_th) {
        auto const [to, slot] = b.next[n][i_th];
        auto const v = g.operands[n][i_th];
        if (to != none<std::uint32_t> && to < g.nodes()) REQUIRE(g.results[to][slot] == v);
        if (g.producer[v] == none<std::uint32_t>) REQUIRE(to >= g.nodes());
      }
  }
}

TEST_CASE("backward_of: bytes that overflow are reported and not wrapped around") {
  snapshot_builder f;
  auto const most = std::numeric_limits<std::size_t>::max();
  f.nodes(1, {f.input()}, {most, 2});
  CHECK(find_backward_graph_fault(backward_of(f.build()))->what == backward_graph_fault::kind::too_much);
}
