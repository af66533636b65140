// SPDX-License-Identifier: MIT
#include "cleave/partition/acyclic/acyclic.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

using order = std::vector<std::uint32_t>;

TEST_CASE("device_kinds: devices with equal options share a kind") {
  cleave::balance_options o;
  CHECK(cleave::detail::device_kinds(o, 3) == order{0, 0, 0});
  o.speed = {1, 2, 1, 2};
  CHECK(cleave::detail::device_kinds(o, 4) == order{0, 1, 0, 1});
  o.link = {1, 1, 0, 1};
  CHECK(cleave::detail::device_kinds(o, 4) == order{0, 1, 2, 1});
}

TEST_CASE("device_orders_near: lists all distinct orders if they are few, else exchanges of two devices") {
  order const given{0, 1, 2, 3}, kind{0, 0, 0, 3};
  auto const few = cleave::detail::device_orders_near(given, kind, 10);
  CHECK(few.all);
  CHECK(few.list.size() == 4);
  CHECK(few.list.front() == given);
  std::set<std::vector<std::uint32_t>> kinds;
  for (auto const& o : few.list) {
    order sorted = o, seen;
    std::ranges::sort(sorted);
    CHECK(sorted == given);
    for (auto const device : o) seen.push_back(kind[device]);
    kinds.insert(seen);
  }
  CHECK(kinds.size() == 4);
  auto const swaps = cleave::detail::device_orders_near({0, 1, 2, 3}, {0, 1, 2, 2}, 3);
  CHECK(!swaps.all);
  CHECK(swaps.list.size() == 6);  // the given order and five exchanges, because 2 and 3 are of one kind
}

TEST_CASE("device_orders_near: lists only some exchanges of thousands of devices") {
  order given, kind;
  for (std::uint32_t d = 0; d < 5000; ++d) given.push_back(d), kind.push_back(d % 7);
  auto const some = cleave::detail::device_orders_near(given, kind, 64);
  CHECK(!some.all);
  CHECK(some.list.size() == 800);
}

TEST_CASE("in_device_order: permutes options given per device and keeps those for all devices") {
  cleave::balance_options o{.memory = 7, .speed = {1, 2, 3}};
  auto const turned = cleave::detail::in_device_order(o, {2, 0, 1});
  CHECK(turned.memory.same());
  CHECK(turned.speed[0] == 3);
  CHECK(turned.speed[1] == 1);
  CHECK(turned.speed[2] == 2);
}
