// SPDX-License-Identifier: MIT
#include "cleave/backward/backward_phases.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "cleave/backward/weight_cut.hpp"
#include "support/cases.hpp"
#include "support/random_backward.hpp"
#include "support/small_stack.hpp"

using namespace cleave;
using namespace cleave::testing;

namespace {

using node_list = std::vector<std::uint32_t>;
using steps = std::vector<edge_step<std::uint32_t>>;

/// 0: product of 2 and weight 1; 2: product of input 3 and weight 4.
backward_arrays two_layers() {
  backward_arrays g;
  g.next.add({2}), g.next.add({1}), g.next.close();
  g.next.close();
  g.next.add({3}), g.next.add({4}), g.next.close();
  g.next.close();
  g.next.close();
  g.outputs = {0};
  g.inputs = {3};
  g.parameters = {1, 4};
  g.bytes = {6, 9, 8, 4, 9};
  return g;
}

}  // namespace

TEST_CASE("backward_phases_of: the input phase is the path to the input, and each weight is its own unit") {
  auto const p = backward_phases_of(two_layers());
  CHECK(p.input == steps{{0, 0}, {2, 0}});
  REQUIRE(p.weight.size() == 2);
  CHECK(p.weight[0] == weight_unit<std::uint32_t>{{{0, 1}}, {0}, {1}, 0, 6});
  CHECK(p.weight[1] == weight_unit<std::uint32_t>{{{2, 1}}, {2}, {4}, 1, 8});
  CHECK(p.bytes == 14);
}

TEST_CASE("backward_phases_of: a stage whose input needs no gradient does all work in the weight phase") {
  auto g = two_layers();
  g.inputs.clear();
  auto const p = backward_phases_of(g);
  CHECK(p.input.empty());
  REQUIRE(p.weight.size() == 1);
  CHECK(p.weight[0] == weight_unit<std::uint32_t>{{{0, 0}, {0, 1}, {2, 1}}, {0}, {1, 4}, 0, 6});
  CHECK(phases_are_whole(g, p));
}

TEST_CASE("backward_phases_of: an output or input can be a parameter, and an unreachable one is unused") {
  backward_arrays g;
  for (int i = 0; i < 3; ++i) g.next.close();
  g.outputs = {0, 1};
  g.inputs = {1};
  g.parameters = {2, 1, 0, 2};
  auto const p = backward_phases_of(g);
  CHECK(p.input.empty());
  CHECK(p.weight == std::vector<weight_unit<std::uint32_t>>{{{}, {0}, {0}, 0, 0}, {{}, {1}, {1}, 0, 0}});
  CHECK(p.unused == node_list{2});
}

TEST_CASE(
    "backward_phases_of: both phases of random graphs make up the whole pass, in any order of the lists") {
  rng r(21);
  std::size_t together = 0;
  for (int i = 0; i < 5000; ++i) {
    auto g = random_backward(r, 2 + r.below(24));
    auto const p = backward_phases_of(g);
    REQUIRE(phases_are_whole(g, p));
    std::set<std::pair<std::uint32_t, std::uint32_t>> run;
    for (auto const& s : p.input) REQUIRE(run.emplace(s.node, s.operand).second);
    std::size_t ready = 0;
    for (auto const& u : p.weight) {
      for (auto const& s : u.steps) REQUIRE(run.emplace(s.node, s.operand).second);
      REQUIRE(u.ready >= ready);
      ready = u.ready;
      together += u.parameters.size() > 1;
    }
    r.shuffle(g.parameters);
    r.shuffle(g.inputs);
    r.shuffle(g.outputs);
    auto const again = backward_phases_of(g);
    REQUIRE(again.input == p.input);
    REQUIRE(again.weight == p.weight);
  }
  CHECK(together > 200);
}

TEST_CASE("backward_phases_of: a unit has parameters of one group if all outputs lie on paths to inputs") {
  rng r(22);
  for (int i = 0; i < 2000; ++i) {
    auto const g = random_backward(r, 2 + r.below(20));
    auto const cut = weight_cut_of(g);
    if (std::ranges::any_of(g.outputs, [&](auto n) { return !cut.on_input_path[n]; })) continue;
    auto const p = backward_phases_of(g);
    for (auto const& u : p.weight) {
      std::set<std::size_t> groups;
      for (auto const n : u.parameters)
        for (std::size_t j = 0; j < cut.groups.size(); ++j)
          if (std::ranges::count(cut.groups[j].parameters, n) > 0) groups.insert(j);
      bool const on_path =
          std::ranges::any_of(u.parameters, [&](auto n) { return cut.on_input_path[n] != 0; });
      if (!on_path) REQUIRE(groups.size() == 1);
    }
  }
}

TEST_CASE("backward_phases_of: handles a long chain on a small stack") {
  on_small_stack([] {
    auto const layers =
        static_cast<std::uint32_t>(cases(60'000, 500'000));  // product, weight, and the input at the end
    backward_arrays g;
    for (std::uint32_t i = 0; i < layers; ++i) {
      g.next.add({2 * i + 2}), g.next.add({2 * i + 1}), g.next.close();
      g.next.close();
      g.parameters.push_back(2 * i + 1);
    }
    g.next.close();
    g.outputs = {0};
    g.inputs = {2 * layers};
    auto const p = backward_phases_of(g);
    CHECK(p.input.size() == layers);
    CHECK(p.weight.size() == layers);
    CHECK(p.weight.back().ready == layers - 1);
  });
}
