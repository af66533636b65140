// SPDX-License-Identifier: MIT
#include "cleave/partition/named/cut_points.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "cleave/partition/model/validity.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

namespace {

using cleave::cut_kind;
using cleave::cut_list;
using cleave::idle_reason;
using cleave::detail::find_cycle_between_parts;
using cleave::detail::find_empty_part;

cleave::snapshot_arrays chain(std::size_t nodes) {
  cleave::testing::snapshot_builder b;
  auto v = b.input();
  for (std::size_t n = 0; n < nodes; ++n) v = b.node(1, {v});
  return b.build();
}

cut_list cuts_before(std::vector<std::size_t> const& places) {
  cut_list list;
  for (std::size_t i = 0; i < places.size(); ++i) list.points.push_back({cut_kind::policy, places[i], i});
  return list;
}

std::vector<std::uint32_t> numbers(cleave::partition const& p) {
  std::vector<std::uint32_t> list;
  for (auto const i : p.of) list.push_back(index(i));
  return list;
}

}  // namespace

TEST_CASE("cut_at: parts are numbered without gaps, and `number` counts the cuts before each") {
  auto const p = cut_at(chain(4), cuts_before({2, 0, 2, 4}));
  CHECK(numbers(p) == std::vector<std::uint32_t>{0, 0, 1, 1});
  CHECK(p.parts == 2);
  CHECK(p.number == std::vector<std::uint32_t>{1, 3});
  CHECK(p.idle == std::vector<cleave::idle_cut>{{cut_kind::policy, 1, idle_reason::at_the_start},
                                                {cut_kind::policy, 2, idle_reason::beside_another},
                                                {cut_kind::policy, 3, idle_reason::at_the_end}});
}

TEST_CASE("cut_at: no cuts give one part, and no nodes give no parts") {
  CHECK(cut_at(chain(3), {}).parts == 1);
  CHECK(cut_at(chain(0), {}).parts == 0);
  auto const p = cut_at(chain(0), cuts_before({0, 0}));
  CHECK(p.parts == 0);
  CHECK(p.idle.size() == 2);
}

TEST_CASE("cut_at: a marker belongs to the part it opens, and opens no part if no node follows") {
  cut_list list;
  for (std::size_t const n : {0u, 2u, 3u, 5u}) list.points.push_back({cut_kind::marker, n, n});
  list.markers = {0, 2, 3, 5};
  auto const p = cut_at(chain(6), list);
  CHECK(numbers(p) == std::vector<std::uint32_t>{0, 0, 1, 1, 1, 1});
  CHECK(p.number == std::vector<std::uint32_t>{1, 3});
  CHECK(p.idle.size() == 3);
}

TEST_CASE("cut_at: a program of markers alone is one part") {
  cut_list list;
  list.points = {{cut_kind::marker, 0, 0}, {cut_kind::marker, 1, 1}};
  list.markers = {0, 1};
  auto const p = cut_at(chain(2), list);
  CHECK(p.parts == 1);
  CHECK(numbers(p) == std::vector<std::uint32_t>{0, 0});
  CHECK(p.idle.size() == 2);
}

TEST_CASE("cut_at: random cuts with replicable nodes give the parts of a plain scan") {
  cleave::testing::rng r(7);
  for (int round = 0; round < 2000; ++round) {
    auto s = chain(r.below(12));
    s.replicable.resize(s.nodes());
    cut_list list;
    for (std::size_t n = 0; n < s.nodes(); ++n) {
      if (r.one_in(4)) list.markers.push_back(n);
      s.replicable[n] = r.one_in(5);
    }
    for (auto cuts = r.below(6); cuts-- > 0;)
      list.points.push_back({cut_kind::policy, r.below(s.nodes() + 1), cuts});
    auto const p = cut_at(s, list);

    std::vector<std::uint32_t> counts;  // the number of cuts before each ordinary node
    for (std::size_t n = 0; n < s.nodes(); ++n)
      if (!std::ranges::binary_search(list.markers, n) && !s.replicable[n])
        counts.push_back(static_cast<std::uint32_t>(
            std::ranges::count_if(list.points, [&](auto const& c) { return c.before <= n; })));
    std::set<std::uint32_t> const distinct(counts.begin(), counts.end());
    if (!counts.empty()) {
      CHECK(p.number == std::vector<std::uint32_t>(distinct.begin(), distinct.end()));
      CHECK(p.idle.size() == list.points.size() - (distinct.size() - 1));
      std::size_t at = 0;
      for (std::size_t n = 0; n < s.nodes(); ++n)
        if (!std::ranges::binary_search(list.markers, n) && !s.replicable[n])
          CHECK(p.number[index(p.of[n])] == counts[at++]);
    } else {
      CHECK(p.idle.size() == list.points.size());
    }
    CHECK(std::ranges::is_sorted(p.of));
    for (auto const i : p.of) CHECK(index(i) < p.parts);
  }
}

TEST_CASE("joined: merges cut lists from several sources") {
  cut_list a = cuts_before({1}), b = cuts_before({2});
  a.markers = {1, 4};
  b.markers = {0, 4, 5};
  auto const both = joined(a, b);
  CHECK(both.points.size() == 2);
  CHECK(both.markers == std::vector<std::size_t>{0, 1, 4, 5});
  auto const s = chain(5);
  CHECK(cut_at(s, joined(cuts_before({1}), cuts_before({3}))).of == cut_at(s, cuts_before({3, 1})).of);
}

TEST_CASE("cuts_by_policy: asks the policy once per node, in order") {
  auto const s = chain(6);
  std::vector<std::size_t> asked;
  auto const list = cuts_by_policy(s, [&](std::size_t n) {
    asked.push_back(n);
    return n % 2 == 0;
  });
  CHECK(asked == std::vector<std::size_t>{0, 1, 2, 3, 4, 5});
  CHECK(cut_at(s, list).parts == 3);
}

TEST_CASE("refined: nodes share a part exactly if they share one in both partitions, and no cycle forms") {
  cleave::testing::rng r(11);
  for (int round = 0; round < 300; ++round) {
    auto const s = cleave::testing::random_graph(r, {.nodes = 2 + r.below(14)});
    cut_list list;
    for (auto cuts = r.below(4); cuts-- > 0;)
      list.points.push_back({cut_kind::policy, r.below(s.nodes() + 1), cuts});
    auto const p = cut_at(s, list);
    auto const q = balance(s, static_cast<std::uint32_t>(1 + r.below(4)));
    auto const both = refined(p, q);
    std::set<std::pair<cleave::part_id, cleave::part_id>> pairs;
    for (std::size_t n = 0; n < s.nodes(); ++n) {
      pairs.emplace(p.of[n], q.of[n]);
      for (std::size_t m = 0; m < n; ++m)
        CHECK((both.of[m] == both.of[n]) == (p.of[m] == p.of[n] && q.of[m] == q.of[n]));
      CHECK(both.number[index(both.of[n])] == p.number[index(p.of[n])]);
    }
    CHECK(both.parts == pairs.size());
    CHECK_FALSE(find_cycle_between_parts(s, both));
    CHECK_FALSE(find_empty_part(both));
  }
}

TEST_CASE("refined: a marker joins the first node it opens, or the last node at the end") {
  cut_list list;
  list.points = {{cut_kind::marker, 2, 2}, {cut_kind::marker, 5, 5}};
  list.markers = {2, 5};
  cleave::partition q{{}, 2};
  for (std::uint32_t const i : {0u, 1u, 1u, 0u, 1u, 0u}) q.of.push_back(cleave::part_id{i});
  auto const p = refined(cut_at(chain(6), list), q);
  CHECK(numbers(p) == std::vector<std::uint32_t>{0, 1, 2, 2, 3, 3});
  CHECK(p.number == std::vector<std::uint32_t>{0, 0, 1, 1});
}
