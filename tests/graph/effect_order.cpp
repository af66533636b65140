// SPDX-License-Identifier: MIT
#include "cleave/graph/effect_order.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <ranges>
#include <string>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

namespace {

struct node_accesses {
  std::vector<int> reads, writes;
};

auto order_of(std::vector<node_accesses> const& list) {
  return order_effects(
      std::views::iota(std::size_t{}, list.size()), [&](std::size_t n) { return list[n].reads; },
      [&](std::size_t n) { return list[n].writes; });
}

using relation = std::vector<std::vector<char>>;  // [later][earlier]

relation closed(relation r) {
  for (std::size_t k = 0; k < r.size(); ++k)
    for (std::size_t i = 0; i < r.size(); ++i)
      for (std::size_t j = 0; j < r.size(); ++j) r[i][j] |= static_cast<char>(r[i][k] & r[k][j]);
  return r;
}

/// All pairs of nodes that access one resource, if either writes it.
relation conflicts(std::vector<node_accesses> const& list) {
  auto const meet = [](std::vector<int> const& a, std::vector<int> const& b) {
    return std::ranges::any_of(a, [&](int x) { return std::ranges::find(b, x) != b.end(); });
  };
  relation r(list.size(), std::vector<char>(list.size()));
  for (std::size_t i = 0; i < list.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      r[i][j] = meet(list[i].writes, list[j].writes) || meet(list[i].writes, list[j].reads) ||
                meet(list[i].reads, list[j].writes);
  return r;
}

std::vector<std::size_t> listed(effect_order<std::size_t> const& order, std::size_t n) {
  auto const all = order[n];
  return {all.begin(), all.end()};
}

}  // namespace

TEST_CASE("order_effects: a read follows the last write, a write the reads since then or else that write") {
  auto const order = order_of({{{}, {7}}, {{7}, {}}, {{7}, {}}, {{}, {7}}, {{}, {7}}, {{7}, {7}}, {{8}, {}}});
  CHECK(listed(order, 0).empty());
  CHECK(listed(order, 1) == std::vector<std::size_t>{0});
  CHECK(listed(order, 2) == std::vector<std::size_t>{0});
  CHECK(listed(order, 3) == std::vector<std::size_t>{1, 2});
  CHECK(listed(order, 4) == std::vector<std::size_t>{3});
  CHECK(listed(order, 5) == std::vector<std::size_t>{4});
  CHECK(listed(order, 6).empty());
  CHECK(listed(order, 99).empty());
}

TEST_CASE("order_effects: orders exactly the pairs that conflict, and those that follow from them") {
  testing::rng random(11);
  std::size_t ordered = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<node_accesses> list(1 + random.below(9));
    std::size_t accesses = 0;
    auto const resources = 1 + random.below(3);
    auto const some = [&] {
      std::vector<int> few;
      for (auto n = random.below(3); n-- > 0;) few.push_back(static_cast<int>(random.below(resources)) - 1);
      accesses += few.size();
      return few;
    };
    for (auto& n : list) n = {some(), some()};
    auto const order = order_of(list);
    relation direct(list.size(), std::vector<char>(list.size()));
    std::size_t edges = 0;
    for (std::size_t n = 0; n < list.size(); ++n)
      for (auto const earlier : order[n]) {
        REQUIRE(earlier < n);
        CHECK(direct[n][earlier] == 0);  // once
        direct[n][earlier] = 1;
        ++edges;
      }
    CHECK(closed(direct) == closed(conflicts(list)));
    CHECK(edges <= 2 * accesses);
    ordered += edges;
  }
  CHECK(ordered > 2000);
}

TEST_CASE("order_effects: a truth value means the one memory of all nodes") {
  testing::rng random(12);
  for (int round = 0; round < 200; ++round) {
    std::vector<node_accesses> list(1 + random.below(12));
    for (auto& n : list) n = {std::vector<int>(random.below(2), 0), std::vector<int>(random.below(2), 0)};
    auto const flags = order_effects(
        std::views::iota(std::size_t{}, list.size()), [&](std::size_t n) { return !list[n].reads.empty(); },
        [&](std::size_t n) { return !list[n].writes.empty(); });
    for (std::size_t n = 0; n < list.size(); ++n) CHECK(listed(flags, n) == listed(order_of(list), n));
  }
}

TEST_CASE("order_effects: takes nodes and resources of any type, and ignores a second listing of a node") {
  using names = std::vector<std::string>;
  auto const of = [](char c) {
    return [c](std::string const& n) { return n.find(c) == n.npos ? names() : names{"m"}; };
  };
  auto const order = order_effects(names{"w1", "r", "w1", "w2"}, of('r'), of('w'));
  REQUIRE(order["w2"].size() == 1);
  CHECK(order["w2"][0] == "r");
  CHECK(order["w1"].empty());
  CHECK(effect_order<std::string>()["r"].empty());
}

TEST_CASE("order_effects: has as many edges as accesses for many reads between writes") {
  std::size_t const n = 200'000;
  auto const writes = [](std::size_t i) { return i % 1000 == 0; };
  auto const order =
      order_effects(std::views::iota(std::size_t{}, n), [&](std::size_t i) { return !writes(i); }, writes);
  std::size_t edges = 0;
  for (std::size_t i = 0; i < n; ++i) edges += order[i].size();
  CHECK(edges < 2 * n);
}
