// SPDX-License-Identifier: MIT
#include "cleave/partition/groups/merge_walk.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "cleave/partition/groups/capability.hpp"
#include "cleave/partition/model/validity.hpp"
#include "support/literal_merge_walk.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("merge_walk: equals the literal walk wherever that closes no cycle") {
  testing::rng random(1);
  std::size_t alike = 0;
  for (int round = 0; round < 1500; ++round) {
    auto const s = testing::random_graph(random, {.nodes = 1 + random.below(24),
                                                  .most_operands = 1 + random.below(4),
                                                  .reach = random.below(20),
                                                  .several_results = 3});
    std::vector<char> supported(s.nodes());
    std::size_t const chance = 2 + random.below(4);
    for (auto& x : supported) x = !random.one_in(chance);
    for (auto const along : {fusion::horizontal, fusion::connected}) {
      auto const literal = testing::literal_merge_walk(s, supported).run(along);
      auto const ours = capability_groups(s, supported, {.by = grouping::merge_walk, .along = along});
      bool const cycle = find_cycle_between_parts(s, partition_of(literal, s.nodes())).has_value();
      CHECK(!find_cycle_between_parts(s, partition_of(ours, s.nodes())));
      if (!cycle) CHECK(ours == literal);
      if (!cycle) ++alike;
      if (along == fusion::horizontal) CHECK(!cycle);
    }
  }
  CHECK(alike > 2900);
}

TEST_CASE("merge_walk: a merged group knows everything its members reach, so no cycle closes") {
  testing::snapshot_builder b;
  auto const first = b.node(1, {b.input()}), second = b.node(1, {first});  // 0, 1
  auto const third = b.node(1, {b.input()}),
             outside = b.node(1, {third});  // 2, and 3, which is not supported
  b.output(b.node(1, {second, outside}));   // 4
  b.output(b.node(1, {first, third}));      // 5
  auto const s = b.build();
  std::vector<char> const supported{1, 1, 1, 0, 1, 1};
  auto const recorded = testing::literal_merge_walk(s, supported).run(fusion::connected);
  CHECK(recorded == std::vector<fusion_group>{{2, {2, 5}}, {3, {0, 1, 4}}});
  CHECK(find_cycle_between_parts(s, partition_of(recorded, s.nodes())));
  CHECK(capability_groups(s, supported, {.by = grouping::merge_walk, .along = fusion::connected}) ==
        std::vector<fusion_group>{{2, {0, 2, 5}}, {3, {1, 4}}});
}

TEST_CASE("merge_walk: numbers groups from the end of the graph, and a union keeps the larger number") {
  testing::snapshot_builder b;
  auto const first = b.node(1, {b.input()});
  auto const parted = b.node(1, {b.node(1, {first})});
  b.output(b.node(1, {parted}));
  auto const s = b.build();  // 0, 2 and 3 are supported
  CHECK(capability_groups(s, {1, 0, 1, 1}, {.by = grouping::merge_walk}) ==
        std::vector<fusion_group>{{1, {2, 3}}, {2, {0}}});
}
