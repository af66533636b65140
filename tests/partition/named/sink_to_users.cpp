// SPDX-License-Identifier: MIT
#include "cleave/partition/named/sink_to_users.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "cleave/partition/model/validity.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::vector<std::uint32_t> numbers(partition const& p) {
  std::vector<std::uint32_t> list;
  for (auto const i : p.of) list.push_back(index(i));
  return list;
}

cut_partition random_cut(testing::rng& r, snapshot_arrays const& s) {
  cut_list list;
  for (std::size_t n = 1; n < s.nodes(); ++n)
    if (r.one_in(2)) list.points.push_back({cut_kind::policy, n, n});
  return cut_at(s, list);
}

/// mask -> more, which the third part reads; the third part also checks the value of node 2.
struct masked {
  snapshot_arrays s;
  cut_partition p;
};

masked masks() {
  testing::snapshot_builder b;
  auto const x = b.input();
  auto const mask = b.node(1, {x});
  auto const more = b.node(1, {mask});
  auto const h = b.node(1, {x});
  auto const g = b.node(1, {h});
  b.node(1, {h});  // a check, whose result is unread
  b.output(b.node(1, {g, more}));
  cut_list list;
  for (std::size_t const n : {3u, 4u}) list.points.push_back({cut_kind::policy, n, n});
  auto const s = b.build();
  return {s, cut_at(s, list)};
}

}  // namespace

TEST_CASE("sink_to_users: moves read nodes to their first reader and unread nodes back to their operands") {
  auto const [s, p] = masks();
  CHECK(numbers(p) == std::vector<std::uint32_t>{0, 0, 0, 1, 2, 2});
  CHECK(numbers(sink_to_users(s, p, [](std::size_t n) { return n != 2 && n != 3; })) ==
        std::vector<std::uint32_t>{2, 2, 0, 1, 0, 2});
  CHECK(numbers(sink_to_users(s, p, [](std::size_t) { return false; })) == numbers(p));
}

TEST_CASE("sink_to_users: movable nodes go to the furthest possible part, and no edge runs backward") {
  testing::rng r(62);
  for (int round = 0; round < 600; ++round) {
    auto s = testing::random_graph(
        r, {.nodes = 1 + r.below(12), .states = 1, .replicable = 6, .tied = 8, .ordered = 4});
    s.outputs = {s.results.item[r.below(s.results.item.size())]};
    auto const p = random_cut(r, s);
    if (find_split_group(s, p)) continue;
    std::vector<char> may(s.nodes());
    for (auto& x : may) x = r.one_in(2);
    auto const q = sink_to_users(s, p, [&](std::size_t n) { return may[n] != 0; });
    CHECK_FALSE(find_backward_edge(s, q));
    CHECK_FALSE(find_split_group(s, q));
    for (std::size_t n = 0; n < s.nodes(); ++n) {
      bool read = false, given = false;
      for (auto const v : s.results[n]) {
        read |= !s.users[v].empty();
        given |= v == s.outputs[0];
      }
      if (!may[n] || given || is_replicable(s, n)) CHECK(q.of[n] == p.of[n]);
      CHECK((read ? q.of[n] >= p.of[n] : q.of[n] <= p.of[n]));
      if (q.of[n] == p.of[n]) continue;
      auto one = q;  // one part further would be illegal
      auto const further = index(q.of[n]) + (read ? 1 : 0xffffffffu);
      if (further < q.parts) {
        one.of[n] = part_id{further};
        CHECK(find_backward_edge(s, one));
      }
    }
  }
}

TEST_CASE("sink_to_users: rejects parts that are not in ascending order") {
  auto [s, p] = masks();
  for (auto& i : p.of) i = part_id{2 - index(i)};
  CHECK_THROWS_AS(sink_to_users(s, p, [](std::size_t) { return true; }), partition_error);
}
