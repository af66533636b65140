// SPDX-License-Identifier: MIT
#include "cleave/backward/min_saved_activations.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "cleave/backward/backward_phases.hpp"
#include "support/cases.hpp"
#include "support/random_backward.hpp"
#include "support/small_stack.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

/// A product (0) of the input (1) and the transpose (2) of a weight (3).
backward_arrays layer(std::size_t rows, std::size_t width) {
  backward_arrays g;
  g.next.add({1}), g.next.add({2}), g.next.close();
  g.next.close();
  g.next.add({3}), g.next.close();
  g.next.close();
  g.outputs = {0};
  g.inputs = {1};
  g.parameters = {3};
  g.bytes = {rows * width, rows * width, width * width, width * width};
  g.cost = {8, 8, 1};
  return g;
}

/// The cost of a choice: its bytes plus the price of edges that differ from `rule`, and their number.
std::pair<double, std::size_t> price(backward_arrays const& g, std::vector<edge_phase> const& rule,
                                     std::vector<edge_phase> const& phases, double bytes_per_cost) {
  std::pair<double, std::size_t> sum{0, 0};
  for (auto const n : saved_nodes(g, phases)) sum.first += static_cast<double>(g.bytes[n]);
  for (std::size_t e = 0; e < phases.size(); ++e)
    if (phases[e] != rule[e]) sum.first += bytes_per_cost * g.cost[e], ++sum.second;
  return sum;
}

/// The lowest price, by exhaustive search.
std::pair<double, std::size_t> best_price(backward_arrays const& g, saved_options const& o) {
  auto const rule = edge_phases_of(g);
  auto best = price(g, rule, rule, o.bytes_per_cost);
  std::vector<std::size_t> free;
  for (std::size_t e = 0; e < rule.size(); ++e)
    if ((rule[e] == edge_phase::weight && o.reach != saved_reach::again) ||
        (rule[e] == edge_phase::input && o.reach != saved_reach::early))
      free.push_back(e);
  for (std::size_t choice = 0; choice < std::size_t{1} << free.size(); ++choice) {
    auto phases = rule;
    for (std::size_t i = 0; i < free.size(); ++i)
      if ((choice >> i & 1) != 0)
        phases[free[i]] = rule[free[i]] == edge_phase::weight ? edge_phase::input : edge_phase::both;
    if (!find_edge_phase_fault(g, phases)) best = std::min(best, price(g, rule, phases, o.bytes_per_cost));
  }
  return best;
}

std::size_t edges(backward_arrays const& g) {
  auto const rule = edge_phases_of(g);
  return static_cast<std::size_t>(std::ranges::count_if(rule, [](auto p) { return p != edge_phase::never; }));
}

}  // namespace

TEST_CASE("min_saved_activations: computes a small weight gradient early unless its price is too high") {
  auto const few = layer(2, 100), many = layer(1000, 100);
  CHECK(min_saved_activations(few).bytes == 200);
  CHECK(min_saved_activations(few).phases == edge_phases_of(few));
  auto const c = min_saved_activations(many);
  CHECK(c.bytes == 10'000);
  CHECK(c.phases[1] == edge_phase::input);   // the product runs early,
  CHECK(c.phases[2] == edge_phase::weight);  // the transpose does not
  CHECK(c.cost == 8);
  CHECK(c.least);
  CHECK(min_saved_activations(many, {.bytes_per_cost = 11'000}).bytes == 10'000);
  CHECK(min_saved_activations(many, {.bytes_per_cost = 12'000}).bytes == 100'000);
}

TEST_CASE("min_saved_activations: saved_reach::again saves a smaller value to recompute from") {
  // 0: sum of the elements of 1, a product of the input 2 with weight 3: one number arrives at 0
  backward_arrays g;
  g.next.add({1}), g.next.close();
  g.next.add({2}), g.next.add({3}), g.next.close();
  g.next.close();
  g.next.close();
  g.outputs = {0};
  g.inputs = {2};
  g.parameters = {3};
  g.bytes = {1, 60, 80, 90};
  CHECK(min_saved_activations(g).bytes == 60);
  auto const c = min_saved_activations(g, {.reach = saved_reach::again});
  CHECK(c.bytes == 1);
  CHECK(c.phases[0] == edge_phase::both);
  CHECK(phases_are_whole(g, backward_phases_of(g, c.phases)));
}

TEST_CASE("min_saved_activations: matches exhaustive search on small graphs, and each pass is whole") {
  rng r(41);
  std::size_t tried = 0, moved = 0, saved = 0;
  auto const rounds = cases(1000, 3000);
  for (std::size_t i = 0; i < rounds; ++i) {
    auto const g = random_backward(r, 2 + r.below(9), 2);
    if (edges(g) > 10) continue;
    for (auto const reach : {saved_reach::early, saved_reach::again, saved_reach::both}) {
      saved_options const o{.reach = reach, .bytes_per_cost = static_cast<double>(r.below(3))};
      auto const c = min_saved_activations(g, o);
      REQUIRE(c.least);
      auto const rule = edge_phases_of(g);
      REQUIRE(price(g, rule, c.phases, o.bytes_per_cost) == best_price(g, o));
      REQUIRE(static_cast<double>(c.bytes) == price(g, rule, c.phases, 0).first);
      auto const p = backward_phases_of(g, c.phases);
      REQUIRE(p.bytes == c.bytes);
      REQUIRE(phases_are_whole(g, p));
      ++tried;
      moved += c.phases != rule;
      saved += c.bytes < backward_phases_of(g).bytes;
    }
  }
  CHECK(tried > rounds * 2 / 3);
  CHECK(moved > rounds / 15);
  CHECK(saved > rounds / 15);
}

TEST_CASE("min_saved_activations: passes of larger graphs are whole and save no more than edge_phases_of") {
  rng r(42);
  for (std::size_t i = 0; i < cases(170, 500); ++i) {
    auto const g = random_backward(r, 60);
    for (auto const reach : {saved_reach::early, saved_reach::again, saved_reach::both})
      for (std::size_t const steps : {0u, 1u, 30u, 1'000'000u}) {
        auto const c = min_saved_activations(g, {.reach = reach, .steps = steps});
        REQUIRE(phases_are_whole(g, backward_phases_of(g, c.phases)));
        REQUIRE(c.bytes <= backward_phases_of(g).bytes);
        if (!c.least) REQUIRE(c.phases == edge_phases_of(g));
        if (steps == 1'000'000u) REQUIRE(c.least);
      }
  }
}

TEST_CASE("min_saved_activations: falls back to edge_phases_of if the bytes are too large for a search") {
  auto g = layer(10, 10);
  g.bytes[0] = std::size_t{1} << 62;
  auto const c = min_saved_activations(g);
  CHECK_FALSE(c.least);
  CHECK(c.phases == edge_phases_of(g));
  g.bytes[0] = std::size_t{1} << 58;  // leaves room for bytes, but not for counting edges
  CHECK(min_saved_activations(g).least);
  CHECK(min_saved_activations(g).bytes == 100);
}

TEST_CASE("min_saved_activations: handles a long chain of layers on a small stack") {
  on_small_stack([] {
    auto const layers = static_cast<std::uint32_t>(cases(10'000, 30'000));
    backward_arrays g;
    for (std::uint32_t i = 0; i < layers; ++i) {
      g.next.add({3 * i + 3}), g.next.add({3 * i + 1}), g.next.close();
      g.next.add({3 * i + 2}), g.next.close();
      g.next.close();
      g.parameters.push_back(3 * i + 2);
      g.bytes.insert(g.bytes.end(), {5, 3, 4});
    }
    g.next.close();
    g.bytes.push_back(5);
    g.outputs = {0};
    g.inputs = {3 * layers};
    auto const c = min_saved_activations(g);
    CHECK(c.least);
    CHECK(c.bytes == 3 * layers);
    min_saved_activations(g, {.reach = saved_reach::both, .steps = 1'000'000});
  });
}

TEST_CASE("min_saved_activations: rejects invalid prices, missing costs and missing bytes") {
  auto g = layer(10, 10);
  for (double const bad :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    CHECK_THROWS_WITH_AS(min_saved_activations(g, {.bytes_per_cost = bad}),
                         "smallest saved activations: bytes_per_cost must be finite and not negative",
                         saved_options_error);
  g.cost.clear();
  CHECK_THROWS_WITH_AS(min_saved_activations(g, {.bytes_per_cost = 1}),
                       "smallest saved activations: bytes_per_cost needs a cost for each edge",
                       saved_options_error);
  g.bytes.clear();
  CHECK_THROWS_WITH_AS(
      min_saved_activations(g),
      "smallest saved activations: the sizes are unknown; set the bytes that arrive at each node",
      saved_options_error);
  CHECK(min_saved_activations(backward_arrays{}).least);
}
