// SPDX-License-Identifier: MIT
#include "cleave/graph/order.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <ranges>
#include <set>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

namespace {

/// Nodes that read values. A value is made by one node, or by none.
struct value_table {
  std::vector<std::vector<int>> operands;    // by node
  std::vector<std::optional<int>> producer;  // by value
};

/// Adds the producers of `v` and then its node, by recursion.
void add_producers(value_table const& t, int v, std::vector<int>& order) {
  auto const n = t.producer[static_cast<std::size_t>(v)];
  if (!n || std::ranges::find(order, *n) != order.end()) return;
  for (int const read : t.operands[static_cast<std::size_t>(*n)]) add_producers(t, read, order);
  order.push_back(*n);
}

}  // namespace

TEST_CASE(
    "producers_first: returns all predecessors of the roots, each once and after its own predecessors") {
  std::vector<std::vector<int>> const needs{{1, 2}, {3}, {3, 1}, {}, {0}};
  auto const order =
      producers_first(std::vector{0, 2}, [&](int n) { return needs[static_cast<std::size_t>(n)]; });
  CHECK(order == std::vector{3, 1, 2, 0});
}

TEST_CASE("producers_first: handles a chain of a million nodes") {
  int const n = 1'000'000;
  auto const order = producers_first(std::vector{n - 1},
                                     [](int i) { return i > 0 ? std::vector{i - 1} : std::vector<int>(); });
  CHECK(order.size() == n);
  CHECK(std::ranges::is_sorted(order));
}

TEST_CASE("producers_first: over values, lists the same nodes in the same order as a recursive walk") {
  testing::rng random(5);
  std::size_t multiple = 0;
  for (int round = 0; round < 1000; ++round) {
    value_table t;
    for (auto n = random.below(3); n-- > 0;) t.producer.emplace_back();  // made by no node
    auto const nodes = 1 + random.below(9);
    for (std::size_t n = 0; n < nodes; ++n) {
      auto& reads = t.operands.emplace_back();
      for (auto r = t.producer.empty() ? 0 : random.below(4); r-- > 0;)
        reads.push_back(static_cast<int>(random.below(t.producer.size())));
      auto const results = random.below(3);
      multiple += results > 1;
      t.producer.resize(t.producer.size() + results, static_cast<int>(n));
    }
    std::vector<int> roots, expected;
    for (auto r = t.producer.empty() ? 0 : random.below(4); r-- > 0;)
      roots.push_back(static_cast<int>(random.below(t.producer.size())));
    for (int const v : roots) add_producers(t, v, expected);
    std::set<int> asked;
    auto const order = producers_first(
        roots, [&](int v) { return t.producer[static_cast<std::size_t>(v)]; },
        [&](int n) {
          CHECK(asked.insert(n).second);
          return t.operands[static_cast<std::size_t>(n)] | std::views::filter([](int) { return true; });
        });
    CHECK(order == expected);
  }
  CHECK(multiple > 500);
}

TEST_CASE("producers_first: over values, takes pointers, null for a value that no node makes") {
  struct op {
    std::vector<int> reads;
  };
  op const first{{0}}, second{{1, 0}};
  std::vector<op const*> const made_by{nullptr, &first, &second};
  auto const order = producers_first(
      std::vector{2}, [&](int v) { return made_by[static_cast<std::size_t>(v)]; },
      [](op const* o) { return o->reads; });
  CHECK(order == std::vector{&first, &second});
}
