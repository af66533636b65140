// SPDX-License-Identifier: MIT
#include "cleave/adapt/bgl/bgl_min_cut.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "support/error_text.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

template <class Weight>
adjacency<std::uint32_t, std::int64_t, Weight> random_flow_graph(cleave::testing::rng& dice,
                                                                 std::size_t nodes) {
  std::vector<std::vector<std::pair<std::uint32_t, Weight>>> rows(nodes);
  for (auto edges = dice.below(3 * nodes + 1); edges > 0; --edges) {
    auto const a = dice.below(nodes), b = dice.below(nodes);
    auto const w = static_cast<Weight>(dice.below(8)) / Weight{2};
    rows[a].emplace_back(static_cast<std::uint32_t>(b), w);
    if (a != b) rows[b].emplace_back(static_cast<std::uint32_t>(a), w);
  }
  adjacency<std::uint32_t, std::int64_t, Weight> g;
  for (auto const& row : rows) {
    for (auto const& [to, w] : row) g.targets.push_back(to), g.edge_weight.push_back(w);
    g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
  }
  return g;
}

/// The weight of the edges between nodes whose bit is set in `side` and the others.
template <class Graph>
double weight_between(Graph const& g, std::size_t side) {
  double sum = 0;
  for (std::size_t n = 0; n < g.view().nodes(); ++n)
    for (auto arc = g.offsets[n]; arc < g.offsets[n + 1]; ++arc)
      if ((side >> n & 1) > (side >> g.targets[arc] & 1)) sum += static_cast<double>(g.edge_weight[arc]);
  return sum;
}

std::size_t bits_of(partition const& p) {
  std::size_t bits = 0;
  for (std::size_t n = 0; n < p.of.size(); ++n) bits |= std::size_t{index(p.of[n])} << n;
  return bits;
}

}  // namespace

TEST_CASE_TEMPLATE("min_cut_between: finds a lightest cut, as does global_min_cut", Weight, std::int64_t,
                   double) {
  cleave::testing::rng dice(9);
  for (int round = 0; round < 60; ++round) {
    auto const nodes = 2 + dice.below(7);
    auto const g = random_flow_graph<Weight>(dice, nodes);
    std::vector<std::size_t> first{dice.below(nodes)}, second;
    for (std::size_t n = 0; n < nodes; ++n)
      if (n != first[0] && (second.empty() || dice.one_in(4))) second.push_back(n);

    auto between = std::numeric_limits<double>::infinity(), anywhere = between;
    for (std::size_t side = 1; side + 1 < std::size_t{1} << nodes; ++side) {
      auto const weight = weight_between(g, side);
      anywhere = std::min(anywhere, weight);
      bool apart = (side >> first[0] & 1) == 0;
      for (auto const n : second) apart &= (side >> n & 1) == 1;
      if (apart) between = std::min(between, weight);
    }
    for (auto const method : {max_flow_method::boykov_kolmogorov, max_flow_method::push_relabel}) {
      auto const cut = min_cut_between(g.view(), first, second, method);
      CHECK(cut.cut == between);
      CHECK(weight_between(g, bits_of(cut)) == between);
      CHECK(cut.of[first[0]] == part_id{0});
      for (auto const n : second) CHECK(cut.of[n] == part_id{1});
    }
    auto const least = global_min_cut(g.view());
    CHECK(least.cut == anywhere);
    CHECK(weight_between(g, bits_of(least)) == anywhere);
    CHECK(least.of[0] == part_id{0});
    CHECK(bits_of(least) != 0);
  }
}

TEST_CASE("min_cut_between: both methods return the same cut, the smallest side around the first terminals") {
  adjacency<std::uint32_t> const path{
      .offsets = {0, 1, 3, 5, 6}, .targets = {1, 0, 2, 1, 3, 2}, .node_weight = {}, .edge_weight = {}};
  std::array<std::size_t, 1> const first{0}, second{3};
  for (auto const method : {max_flow_method::boykov_kolmogorov, max_flow_method::push_relabel})
    CHECK(bits_of(min_cut_between(path.view(), first, second, method)) == 0b1110);
}

TEST_CASE("min_cut_between: rejects terminals that are missing, unknown or on both sides") {
  adjacency<std::uint32_t> const pair{
      .offsets = {0, 1, 2}, .targets = {1, 0}, .node_weight = {}, .edge_weight = {}};
  auto const said = [&](std::vector<std::size_t> const& first, std::vector<std::size_t> const& second) {
    return cleave::testing::error_text<terminal_error>([&] { min_cut_between(pair.view(), first, second); });
  };
  CHECK(said({0}, {}) == "min cut: give at least one node for each side");
  CHECK(said({0}, {2}) == "min cut: node #2 does not exist; the number of nodes is 2");
  CHECK(said({0, 1}, {1}) == "min cut: node #1 is given for both sides");
  CHECK(said({0, 0}, {1}) == "accepted");
  adjacency<std::uint32_t> const alone{
      .offsets = {0, 0}, .targets = {}, .node_weight = {}, .edge_weight = {}};
  CHECK(cleave::testing::error_text([&] { global_min_cut(alone.view()); }) ==
        "min cut: a cut needs at least two nodes; the number of nodes is 1");
}
