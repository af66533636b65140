// SPDX-License-Identifier: MIT
#include "cleave/schedule/model/list_runner.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/rng.hpp"

using namespace cleave::detail;

namespace {

/// An action that waits for one event or none, and triggers one event.
struct small_action {
  static constexpr std::size_t nothing = 1000;
  std::size_t needs = nothing, makes = 0;
};
using small_lists = std::vector<std::vector<small_action>>;

/// Runs the lists and returns, for each action in the order of execution, the number of its list.
std::vector<std::uint32_t> order_of(small_lists const& lists, list_runner& runner) {
  std::vector<std::uint32_t> order;
  runner.run([&](std::uint32_t l) {
    auto const& a = lists[l][runner.position(l)];
    if (a.needs != small_action::nothing && runner.waits_for(l, a.needs)) return false;
    runner.happen(a.makes);
    runner.pass(l);
    order.push_back(l);
    return true;
  });
  return order;
}

}  // namespace

TEST_CASE("list_runner: a waiting list continues once its event has happened") {
  small_lists const lists{{{1, 0}, {}}, {{.makes = 1}, {2, 3}}, {{.makes = 2}}};
  list_runner runner(lengths_of(lists), 4);
  CHECK(order_of(lists, runner) == std::vector<std::uint32_t>{1, 0, 0, 2, 1});
  for (std::uint32_t l = 0; l < 3; ++l) CHECK(runner.is_finished(l));
}

TEST_CASE("list_runner: a list that waits for an event that never happens stays in place") {
  small_lists const lists{{{1, 0}}, {{0, 1}}, {{.makes = 2}, {3, 0}}, {}};
  list_runner runner(lengths_of(lists), 4);
  CHECK_FALSE(runner.run([&](std::uint32_t l) {
    auto const& a = lists[l][runner.position(l)];
    if (a.needs != small_action::nothing && runner.waits_for(l, a.needs)) return false;
    runner.happen(a.makes);
    runner.pass(l);
    return true;
  }));
  CHECK(runner.position(0) == 0);
  CHECK(runner.position(1) == 0);
  CHECK(runner.position(2) == 1);
  CHECK(runner.is_finished(3));
  CHECK(runner.has_happened(2));
  CHECK_FALSE(runner.has_happened(3));
}

TEST_CASE("list_runner: a list that is woken before its event happens may wait for it again") {
  list_runner runner({1, 3}, 1);
  std::size_t room = 0, asked = 0;
  CHECK(runner.run([&](std::uint32_t l) {
    if (l == 0 && ++asked && room < 2) return !runner.waits_for(0, 0);
    if (l == 1) ++room, runner.wake(0);
    runner.pass(l);
    return true;
  }));
  CHECK(asked == 2);  // list 1 runs to its end before another list is asked
  CHECK_FALSE(runner.has_happened(0));
}

TEST_CASE("list_runner: reaches the same positions as polling all lists repeatedly") {
  cleave::testing::rng random(60);
  for (int round = 0; round < 500; ++round) {
    small_lists lists(1 + random.below(5));
    std::size_t const events = 1 + random.below(8);
    for (auto& list : lists)
      for (auto n = random.below(5); n > 0; --n)
        list.push_back(
            {random.one_in(2) ? small_action::nothing : random.below(events), random.below(events)});
    list_runner runner(lengths_of(lists), events);
    order_of(lists, runner);
    std::vector<std::size_t> at(lists.size());
    std::vector<char> happened(events);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t l = 0; l < lists.size(); ++l)
        for (; at[l] < lists[l].size(); ++at[l], moved = true) {
          auto const& a = lists[l][at[l]];
          if (a.needs != small_action::nothing && !happened[a.needs]) break;
          happened[a.makes] = 1;
        }
    }
    for (std::uint32_t l = 0; l < lists.size(); ++l) CHECK(runner.position(l) == at[l]);
  }
}
