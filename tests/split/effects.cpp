// SPDX-License-Identifier: MIT
// No stage order may break an order that no value shows.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cleave/split/make_plan.hpp"
#include "cleave/split/modules/split_module.hpp"
#include "support/cases.hpp"
#include "support/random_graph.hpp"
#include "support/random_module_graph.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using position = module_graph::position;

namespace {

constexpr order policies[] = {order::program, order::fifo, order::upstream, order::priority};

/// `g` with random orders between its calls.
module_graph with_random_effects(testing::rng& random, module_graph const& g) {
  module_graph made;
  for (auto n : g.list()) {
    for (auto const m : made.nodes())
      if (module_graph::is_call(n) && random.one_in(6)) n.after.push_back(m);
    made.add(std::move(n));
  }
  for (auto const& a : g.attributes()) made.add_attribute(a);
  return made;
}

}  // namespace

TEST_CASE("make_plan: runs each node after the nodes it must follow, under every stage order") {
  testing::rng random(21);
  std::size_t plans = 0;
  auto const rounds = testing::cases(700, 2000);
  for (std::size_t round = 0; round < rounds; ++round) {
    auto const s = testing::random_graph(
        random, {.nodes = 1 + random.below(14), .replicable = round % 2 == 0 ? 4u : 0u, .ordered = 2});
    auto const parts = static_cast<std::uint32_t>(1 + random.below(5));
    auto const p = testing::random_partition(random, s.nodes(), parts);
    if (find_cycle_between_parts(s, p)) continue;
    for (auto const policy : policies) {
      auto const plan = make_plan(s, p, {.stages = policy, .priority = {4, 0, 3, 1}});
      std::vector<std::size_t> turn(s.nodes(), none<std::size_t>);
      std::size_t clock = 0;
      for (auto const i : plan.order)
        for (auto const n : plan.stages[index(i)].nodes) turn[n] = clock++;
      for (std::size_t n = 0; n < s.nodes(); ++n) {
        if (is_replicable(s, n)) continue;
        for (auto const m : s.after[n])
          if (!is_replicable(s, m)) CHECK(turn[m] < turn[n]);
        for (auto const v : s.operands[n])
          if (auto const m = s.producer[v]; m != none<std::uint32_t> && !is_replicable(s, m))
            CHECK(turn[m] < turn[n]);
      }
      ++plans;
    }
  }
  CHECK(plans > rounds);
}

TEST_CASE("split_module: runs each call after the calls it must follow, under every stage order") {
  testing::rng random(22);
  std::size_t cuts = 0, reordered = 0;
  auto const rounds = testing::cases(330, 1000);
  for (std::size_t round = 0; round < rounds; ++round) {
    auto const plain = testing::random_module_graph(random, 1 + random.below(12));
    auto const g = with_random_effects(random, plain);
    std::vector<std::string> label(g.list().size());
    for (auto const n : g.nodes()) label[n] = std::to_string(random.below(4));
    auto const part_of = [&](module_node const& n) {
      auto const at = std::ranges::find(g.list(), n.name, &module_node::name) - g.list().begin();
      return label[static_cast<std::size_t>(at)];
    };
    for (auto const policy : policies) {
      split_module_options const options{.stages = policy, .priority = {"2", "0"}};
      try {
        auto const r = split_module(g, part_of, options);
        ++cuts;
        reordered += split_module(plain, part_of, options).order != r.order;
        std::vector<std::size_t> turn(g.list().size());
        std::size_t clock = 0;
        for (auto const i : r.order) {
          auto const& piece = r.graph(r.pieces[i]);
          for (auto const n : piece.nodes()) {
            turn[piece[n].from] = clock++;
            for (auto const m : piece[n].after) CHECK(m < n);
          }
        }
        for (auto const n : g.nodes())
          for (auto const m : g[n].after) CHECK(turn[m] < turn[n]);
      } catch (partition_error const&) {
      }
    }
  }
  CHECK(cuts > rounds * 3 / 10);
  CHECK(reordered > rounds / 100);
}
