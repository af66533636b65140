// SPDX-License-Identifier: MIT
#include "cleave/schedule/memory/share_slots.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::vector<lifetime> some_lifetimes(testing::rng& random, std::size_t most, std::size_t cells) {
  std::vector<lifetime> all(random.below(most + 1));
  for (auto& l : all) {
    l.first = static_cast<std::uint32_t>(random.below(cells));
    l.last = l.first + static_cast<std::uint32_t>(random.below(cells - l.first));
  }
  return all;
}

bool meet(lifetime a, lifetime b) { return a.first <= b.last && b.first <= a.last; }

/// Returns true if the lifetimes that have no slot yet fit into `count` slots.
bool can_share(std::vector<lifetime> const& all, std::vector<std::uint32_t>& slots, std::uint32_t count) {
  auto const i = slots.size();
  if (i == all.size()) return true;
  for (std::uint32_t slot = 0; slot < count; ++slot) {
    bool free = true;
    for (std::size_t j = 0; j < i; ++j) free = free && (slots[j] != slot || !meet(all[j], all[i]));
    if (!free) continue;
    slots.push_back(slot);
    if (can_share(all, slots, count)) return true;
    slots.pop_back();
  }
  return false;
}

}  // namespace

TEST_CASE("share_slots: lifetimes that meet get different slots, and as many are used as meet in one cell") {
  testing::rng random(1);
  for (int i = 0; i < 300; ++i) {
    auto const all = some_lifetimes(random, 40, 1 + random.below(30));
    auto const slots = share_slots(all);
    REQUIRE(slots.size() == all.size());
    for (std::size_t a = 0; a < all.size(); ++a)
      for (std::size_t b = 0; b < a; ++b) REQUIRE((slots[a] != slots[b] || !meet(all[a], all[b])));
    std::size_t most = 0;
    for (std::uint32_t cell = 0; cell < 30; ++cell)
      most = std::max(most, static_cast<std::size_t>(std::ranges::count_if(
                                all, [&](lifetime l) { return meet(l, {cell, cell}); })));
    REQUIRE(count_slots(slots) == most);
    REQUIRE(most_alive(all) == most);
  }
}

TEST_CASE("order_of_ends: sorts by end, then by index, whether cells are few or many") {
  testing::rng random(3);
  for (int i = 0; i < 300; ++i) {
    auto const all = some_lifetimes(random, 40, 1 + random.below(i % 2 == 0 ? 30 : 100'000));
    std::vector<std::uint32_t> sorted(all.size());
    for (std::uint32_t n = 0; n < sorted.size(); ++n) sorted[n] = n;
    std::ranges::stable_sort(sorted, {}, [&](std::uint32_t n) { return all[n].last; });
    REQUIRE(order_of_ends(all) == sorted);
  }
}

TEST_CASE("share_slots: an exhaustive search finds no assignment with fewer slots") {
  testing::rng random(2);
  for (int i = 0; i < 200; ++i) {
    auto const all = some_lifetimes(random, 7, 8);
    auto const count = count_slots(share_slots(all));
    std::vector<std::uint32_t> none;
    REQUIRE(can_share(all, none, count));
    none.clear();
    if (count > 0) REQUIRE(!can_share(all, none, count - 1));
  }
}

TEST_CASE("share_slots: each lifetime gets the lowest free slot, in the order of their begins") {
  CHECK(share_slots(std::vector<lifetime>{{0, 4}, {1, 2}, {2, 3}, {3, 9}, {5, 5}}) ==
        std::vector<std::uint32_t>{0, 1, 2, 1, 0});
  CHECK(share_slots(std::vector<lifetime>{{3, 4}, {0, 4}, {3, 3}}) == std::vector<std::uint32_t>{2, 0, 1});
  CHECK(share_slots({}).empty());
  CHECK(most_alive({}) == 0);
}

TEST_CASE("share_slots: lifetimes that meet in one cell need two slots") {
  CHECK(count_slots(share_slots(std::vector<lifetime>{{0, 1}, {1, 2}})) == 2);
  CHECK(count_slots(share_slots(std::vector<lifetime>{{0, 1}, {2, 2}})) == 1);
  CHECK(most_alive(std::vector<lifetime>{{0, 0xffffffff}, {0xffffffff, 0xffffffff}}) == 2);
}
