// SPDX-License-Identifier: MIT
#include "cleave/split/plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/partition/model/validity.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using number = std::uint32_t;
constexpr order policies[] = {order::program, order::fifo, order::upstream, order::priority};

/// Searches all ready parts for the next one. They are listed in the order in which they became ready.
std::vector<stage_id> twin(part_graph const& parts, order policy, std::vector<number> const& priority) {
  auto const count = static_cast<number>(parts.first_node.size());
  std::vector<number> ready, by_appearance(count), missing(count);
  for (number i = 0; i < count; ++i) by_appearance[i] = i;
  std::ranges::sort(by_appearance, {}, [&](number i) { return std::pair(parts.first_node[i], i); });
  for (auto const to : parts.dependents.item) ++missing[to];
  for (auto const i : by_appearance)
    if (missing[i] == 0) ready.push_back(i);
  auto const key = [&](number i) {
    bool const ranked = policy == order::priority;
    auto const rank = ranked && i < priority.size() ? priority[i] : none<number>;
    return std::tuple(ranked ? rank : 0, parts.first_node[i], i);
  };
  std::vector<stage_id> sorted;
  while (!ready.empty()) {
    auto const next = policy == order::fifo       ? ready.begin()
                      : policy == order::upstream ? ready.end() - 1
                                                  : std::ranges::min_element(ready, {}, key);
    auto const i = *next;
    ready.erase(next);
    sorted.push_back(stage_id{i});
    for (auto const to : parts.dependents[i])
      if (--missing[to] == 0) ready.push_back(to);
  }
  return sorted;
}

}  // namespace

TEST_CASE(
    "emission_order: each policy picks the part that a search over all ready parts picks, and omits cycles") {
  testing::rng random(1);
  std::size_t cyclic = 0, different = 0;
  for (int round = 0; round < 1000; ++round) {
    auto const g =
        testing::random_graph(random, {.nodes = random.below(20), .most_operands = 2, .ordered = 6});
    auto const count = static_cast<number>(1 + random.below(9));
    auto p = testing::random_partition(random, g.nodes(), count);
    if (random.one_in(2)) {  // in runs, so that fewer parts depend on each other
      std::ranges::sort(p.of);
      std::vector<number> renamed(count);
      for (number i = 0; i < count; ++i) renamed[i] = i;
      random.shuffle(renamed);
      for (auto& part : p.of) part = part_id{renamed[index(part)]};
    }
    std::vector<number> priority(random.below(count + 1));
    for (auto& i : priority) i = static_cast<number>(random.below(3));
    auto const parts = part_graph_of(g, p);
    bool const cycle = find_cycle_between_parts(g, p).has_value();
    cyclic += cycle;
    for (auto const policy : policies) {
      auto const sorted = emission_order(parts, policy, priority);
      REQUIRE(sorted == twin(parts, policy, priority));
      REQUIRE((sorted.size() < count) == cycle);
      different += sorted != emission_order(parts, order::program);
    }
  }
  CHECK(cyclic > 100);
  CHECK(cyclic < 900);
  CHECK(different > 300);
}

TEST_CASE("emission_order: handles no parts, parts without nodes and a star of 100,000 parts") {
  for (auto const policy : policies) {
    CHECK(emission_order(part_graph(), policy).empty());
    part_graph empty{{5, 5}, {}};
    for (int i = 0; i < 2; ++i) empty.dependents.close();
    CHECK(emission_order(empty, policy).size() == 2);

    number const n = 100'000;
    part_graph star;
    for (number i = 0; i < n; ++i) {
      star.first_node.push_back(i);
      for (number to = 1; i == 0 && to < n; ++to) star.dependents.add(to);
      star.dependents.close();
    }
    auto const sorted = emission_order(star, policy);
    REQUIRE(sorted.size() == n);
    CHECK(sorted[0] == stage_id{0});
    CHECK(sorted[1] == stage_id{policy == order::upstream ? n - 1 : 1});
  }
}
