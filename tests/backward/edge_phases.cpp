// SPDX-License-Identifier: MIT
#include "cleave/backward/backward_phases.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/random_backward.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

constexpr auto never = edge_phase::never, in = edge_phase::input, weight = edge_phase::weight;
using fault = edge_phase_fault::kind;

/// 0 sends to 1 and 2; 1 to the input 3 and to 4; 4 to the parameter 5; 2 leads nowhere.
backward_arrays small() {
  backward_arrays g;
  g.next.add({1}), g.next.add({2}), g.next.close();
  g.next.add({3}), g.next.add({4}), g.next.close();
  g.next.close();
  g.next.close();
  g.next.add({5}), g.next.close();
  g.next.close();
  g.outputs = {0};
  g.inputs = {3};
  g.parameters = {5};
  return g;
}

std::string message(backward_arrays const& g, std::vector<edge_phase> const& phases) {
  try {
    backward_phases_of(g, phases);
  } catch (edge_phase_error const& e) {
    CHECK(e.witness == *find_edge_phase_fault(g, phases));
    return e.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE(
    "edge_phases_of: paths to inputs form the input phase, other paths to parameters the weight phase") {
  auto const g = small();
  auto const phases = edge_phases_of(g);
  CHECK(phases == std::vector<edge_phase>{in, never, in, weight, weight});
  CHECK_FALSE(find_edge_phase_fault(g, phases));
}

TEST_CASE("find_edge_phase_fault: reports each kind of fault, and the message states the broken rule") {
  auto const g = small();
  CHECK(find_edge_phase_fault(g, {in}) == edge_phase_fault{fault::rows});
  CHECK(message(g, {in}) == "edge phases: there must be one phase for each of the 5 edges");
  CHECK(find_edge_phase_fault(g, {in, never, weight, weight, weight}) == edge_phase_fault{fault::input, 3});
  CHECK(message(g, {in, never, weight, weight, weight}) ==
        "edge phases: node #3 leads to an input; all edges to it must be in the input phase");
  CHECK(find_edge_phase_fault(g, {in, never, in, weight, never}) == edge_phase_fault{fault::lost, 5});
  CHECK(message(g, {in, never, in, weight, never}) ==
        "edge phases: node #5 leads to a parameter; every edge to it must run in a phase");
  CHECK(find_edge_phase_fault(g, {in, never, in, weight, in}) == edge_phase_fault{fault::early, 4});
  CHECK(message(g, {in, never, in, weight, in}) ==
        "edge phases: the input phase uses the gradient at node #4, but a part of it arrives only in the "
        "weight phase");
  CHECK(find_edge_phase_fault(g, {in, weight, in, weight, weight}) == edge_phase_fault{fault::idle, 0});
  CHECK(message(g, {in, weight, in, weight, weight}) ==
        "edge phases: an edge of node #0 leads to no input and no parameter; its phase must be "
        "edge_phase::never");
  auto fed = g;
  fed.outputs.push_back(1);
  CHECK(find_edge_phase_fault(fed, {edge_phase::both, never, in, weight, weight}) ==
        edge_phase_fault{fault::mixed, 1});
  CHECK(message(fed, {edge_phase::both, never, in, weight, weight}) ==
        "edge phases: of the edges to node #1 either all must be in both phases, or none");
  CHECK_FALSE(find_edge_phase_fault(g, {edge_phase::both, never, in, weight, weight}));
  CHECK_FALSE(find_edge_phase_fault(g, {in, never, in, in, in}));
}

TEST_CASE("find_edge_phase_fault: random phases without a fault make a whole pass") {
  rng r(31);
  std::size_t sound = 0, moved = 0;
  for (int i = 0; i < 20000; ++i) {
    auto const g = random_backward(r, 2 + r.below(8), 2);
    auto const rule = edge_phases_of(g);
    auto phases = rule;
    for (auto& p : phases)
      if (p != never && r.one_in(3)) p = static_cast<edge_phase>(1 + r.below(3));
    if (find_edge_phase_fault(g, phases)) continue;
    ++sound;
    moved += phases != rule;
    REQUIRE(phases_are_whole(g, backward_phases_of(g, phases)));
  }
  CHECK(sound > 3000);
  CHECK(moved > 1000);
}

TEST_CASE("find_edge_phase_fault: reports a needed edge that is left out of both phases") {
  rng r(32);
  std::size_t wrong = 0;
  for (int i = 0; i < 20000; ++i) {
    auto const g = random_backward(r, 2 + r.below(8), 2);
    auto phases = edge_phases_of(g);
    if (phases.empty()) continue;
    auto& p = phases[r.below(phases.size())];
    if (p == never) continue;
    p = never;
    auto const f = find_edge_phase_fault(g, phases);
    REQUIRE(f);
    REQUIRE((f->what == fault::lost || f->what == fault::input));
    ++wrong;
  }
  CHECK(wrong > 1000);
}
