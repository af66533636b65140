// SPDX-License-Identifier: MIT
#include "cleave/split/split_with_scopes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "cleave/partition/named/assign.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

using namespace cleave;

using namespace cleave::detail;
using mark = scope_mark<std::uint32_t>;

namespace {

/// Returns whether, in this order, no part has nodes before a setting that an earlier part makes.
bool keeps_early_nodes(snapshot_arrays const& s, partition const& p,
                       basic_scopes<std::uint32_t> const& scopes, std::vector<std::uint32_t> const& order) {
  std::vector<char> set(scopes.kinds.size());
  for (auto const i : order) {
    auto now = set;
    std::vector<char> set_in_graph(scopes.kinds.size());
    for (std::size_t n = 0; n < s.nodes(); ++n) {
      if (scopes.is_mark(n)) set_in_graph[scopes.list[scopes.at[n]].kind] = 1;
      if (index(p.of[n]) != i) continue;
      for (std::size_t k = 0; k < set.size(); ++k) {
        if (!scopes.is_mark(n) && set[k] && !set_in_graph[k]) return false;
        now[k] |= set_in_graph[k];
      }
    }
    set = now;
  }
  return true;
}

}  // namespace

TEST_CASE("make_plan: parts with nodes before a setting run before the part that sets it") {
  testing::snapshot_builder b;
  for (int i = 0; i < 4; ++i) b.nodes(1, {}, {1});
  auto const s = b.build();
  auto const scopes = scopes_of(s, {{"mode"}}, [](std::size_t n) {
    return n == 2 ? std::optional(mark{scope_action::set}) : std::nullopt;
  });
  auto const order_of = [&](std::vector<std::uint32_t> parts, order policy, late_settings settings) {
    partition p{{}, 3};
    for (auto const i : parts) p.of.push_back(part_id{i});
    std::vector<std::uint32_t> order;
    for (auto const i : make_plan(s, p, scopes, {.stages = policy, .settings = settings}).order)
      order.push_back(index(i));
    return order;
  };
  using list = std::vector<std::uint32_t>;
  auto const up = order::upstream;
  CHECK(order_of({0, 1, 2, 2}, up, late_settings::accepted) == list{2, 1, 0});
  CHECK(order_of({0, 1, 2, 2}, up, late_settings::refused) == list{1, 0, 2});
  CHECK(order_of({0, 1, 0, 2}, order::program, late_settings::refused) == list{1, 0, 2});
  CHECK_THROWS_WITH_AS(
      order_of({0, 1, 0, 1}, up, late_settings::refused),
      "scope 'mode': node #0 in part 0 runs before the state is first set, but part 1, where "
      "node #3 needs it set, cannot run after it; cut elsewhere",
      scope_order_error);
}

TEST_CASE("scoped_order: finds an order whenever one exists") {
  testing::rng random(6);
  std::size_t found = 0, refused = 0;
  for (int round = 0; round < 6000; ++round) {
    auto const s = testing::random_graph(random, {.nodes = 2 + random.below(8), .ordered = 5});
    std::vector<std::optional<mark>> marks(s.nodes());
    for (auto& m : marks)
      if (random.one_in(5)) m = mark{scope_action::set, static_cast<std::uint32_t>(random.below(2))};
    auto const scopes = scopes_of(s, {{"a"}, {"b"}}, [&](std::size_t n) { return marks[n]; });
    bool reads_nodes = false;  // a setting that reads the result of a node cannot be copied
    for (std::size_t n = 0; n < s.nodes(); ++n)
      if (marks[n])
        for (auto const v : s.operands[n]) reads_nodes |= s.producer[v] != none<std::uint32_t>;
    if (reads_nodes) continue;
    auto const t = add_scopes(s, scopes);
    auto const parts = static_cast<std::uint32_t>(1 + random.below(4));
    auto const p = testing::random_partition(random, s.nodes(), parts);
    if (find_cycle_between_parts(t, p)) continue;

    std::vector<std::uint32_t> order(parts);
    std::iota(order.begin(), order.end(), 0u);
    bool possible = false;
    do {
      std::vector<std::size_t> place(parts);
      for (std::size_t i = 0; i < parts; ++i) place[order[i]] = i;
      bool legal = true;
      for (std::size_t n = 0; n < t.nodes(); ++n)
        each_predecessor(t, p, n,
                         [&](std::size_t m) { legal &= place[index(p.of[m])] <= place[index(p.of[n])]; });
      possible |= legal && keeps_early_nodes(t, p, scopes, order);
    } while (!possible && std::ranges::next_permutation(order).found);

    auto const policy =
        std::vector{order::program, order::fifo, order::upstream, order::priority}[random.below(4)];
    try {
      std::vector<std::uint32_t> made;
      for (auto const i :
           scoped_order(t, p, part_graph_of(t, p), scopes, {.stages = policy, .priority = {3, 1, 2}}))
        made.push_back(index(i));
      ++found;
      CHECK(keeps_early_nodes(t, p, scopes, made));
    } catch (scope_order_error const& e) {
      ++refused;
      CHECK_FALSE(possible);
      CHECK(p.of[e.witness.first] != p.of[e.witness.second]);
    }
  }
  CHECK(found > 500);
  CHECK(refused > 30);
}

TEST_CASE("find_cut_scope: returns the first forbidden scope that is cut, and make_plan names its nodes") {
  testing::snapshot_builder b;
  for (int i = 0; i < 4; ++i) b.nodes(1, {}, {1});
  auto const s = b.build();
  std::vector<std::optional<mark>> const marks = {{}, mark{}, {}, mark{scope_action::leave}};
  auto const scopes = scopes_of(s, {{"lock", scope_policy::forbid}}, [&](std::size_t n) { return marks[n]; });
  auto const part = [](std::vector<std::uint32_t> const& of) {
    partition p{{}, 2};
    for (auto const i : of) p.of.push_back(part_id{i});
    return p;
  };
  CHECK_FALSE(find_cut_scope(s, part({1, 0, 0, 0}), scopes));
  CHECK(find_cut_scope(s, part({0, 0, 0, 1}), scopes)->second == 3);
  CHECK_THROWS_WITH_AS(
      make_plan(add_scopes(s, scopes), part({0, 0, 1, 0}), scopes),
      "scope 'lock' must not be cut: node #1 is in part 0, node #2 in part 1; put both into one part",
      scope_cut_error);
}
