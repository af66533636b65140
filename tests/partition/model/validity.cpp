// SPDX-License-Identifier: MIT
#include "cleave/partition/model/validity.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "support/error_text.hpp"
#include "support/rng.hpp"
#include "support/small_stack.hpp"
#include "support/snapshot_builder.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

partition parts(std::vector<std::uint32_t> const& of, std::uint32_t k) {
  partition p{{}, k};
  for (auto const i : of) p.of.push_back(part_id{i});
  return p;
}

/// A chain of n nodes.
snapshot_arrays chain(int n) {
  testing::basic_snapshot_builder<> b;
  auto v = b.input();
  for (int i = 0; i < n; ++i) v = b.node(1, {v});
  b.output(v);
  return b.build();
}

/// True if a part depends on itself through other parts, by transitive closure.
bool cyclic(snapshot_arrays const& s, partition const& p) {
  std::vector<std::vector<char>> reach(p.parts, std::vector<char>(p.parts));
  for (std::size_t n = 0; n < s.nodes(); ++n)
    for (auto const v : s.operands[n])
      if (auto const m = s.producer[v]; m != none<std::uint32_t> && p.of[m] != p.of[n])
        reach[index(p.of[m])][index(p.of[n])] = 1;
  for (std::size_t k = 0; k < p.parts; ++k)
    for (std::size_t i = 0; i < p.parts; ++i)
      for (std::size_t j = 0; j < p.parts; ++j) reach[i][j] |= static_cast<char>(reach[i][k] && reach[k][j]);
  for (std::size_t i = 0; i < p.parts; ++i)
    if (reach[i][i]) return true;
  return false;
}

}  // namespace

TEST_CASE("find_unassigned_node: returns the first node without a part or with one beyond the last") {
  auto const s = chain(3);
  CHECK_FALSE(find_unassigned_node(s, parts({0, 1, 1}, 2)));
  CHECK(find_unassigned_node(s, parts({0, index(no_part), 5}, 2)) == 1);
  CHECK(find_unassigned_node(s, parts({0, 1, 2}, 2)) == 2);
}

TEST_CASE("find_empty_part, find_backward_edge: return an empty part and an edge into an earlier part") {
  CHECK(find_empty_part(parts({5}, 2)) == part_id{0});
  CHECK(find_empty_part(parts({0, 2}, 3)) == part_id{1});
  CHECK_FALSE(find_empty_part(parts({1, 0}, 2)));
  CHECK(find_backward_edge(chain(3), parts({0, 1, 0}, 2)) == dependency{1, 2});
  CHECK_FALSE(find_backward_edge(chain(3), parts({0, 0, 1}, 2)));
}

TEST_CASE("find_split_group: returns two nodes that must share a part and do not") {
  testing::basic_snapshot_builder<> b;
  auto const x = b.input();
  b.node(1, {x});
  b.node(1, {x});
  b.node(1, {x});
  b.together(0, 2);
  auto const s = b.build();
  CHECK(find_split_group(s, parts({0, 0, 1}, 2)) == std::pair<std::size_t, std::size_t>{0, 2});
  CHECK_FALSE(find_split_group(s, parts({1, 0, 1}, 2)));
}

TEST_CASE("find_cycle_between_parts: returns the edges between two convex parts that need each other") {
  testing::basic_snapshot_builder<> b;  // u -> v in parts 0 and 1, u2 -> v2 in parts 1 and 0
  auto const x = b.input();
  auto const u = b.node(1, {x});
  b.node(1, {u});
  auto const u2 = b.node(1, {x});
  b.node(1, {u2});
  auto const cycle = find_cycle_between_parts(b.build(), parts({0, 1, 1, 0}, 2));
  REQUIRE(cycle);
  CHECK(*cycle == std::vector<dependency>{{0, 1}, {2, 3}});
}

TEST_CASE("find_cycle_between_parts: finds a cycle exactly if one exists, of two edges if possible") {
  testing::rng random(11);
  int cycles = 0;
  for (int round = 0; round < 3000; ++round) {
    testing::basic_snapshot_builder<> b;
    std::vector<std::uint32_t> values{b.input()}, of;
    auto const k = static_cast<std::uint32_t>(2 + random.below(4));
    for (auto n = 2 + random.below(8); n-- > 0;) {
      values.push_back(b.node(1, {values[random.below(values.size())], values[random.below(values.size())]}));
      of.push_back(static_cast<std::uint32_t>(random.below(k)));
    }
    auto const s = b.build();
    auto const p = parts(of, k);
    auto const cycle = find_cycle_between_parts(s, p);
    CHECK(cycle.has_value() == cyclic(s, p));
    if (!cycle) continue;
    ++cycles;
    for (std::size_t i = 0; i < cycle->size(); ++i) {
      auto const edge = (*cycle)[i];
      CHECK(p.of[edge.consumer] == p.of[(*cycle)[(i + 1) % cycle->size()].producer]);
      CHECK(p.of[edge.consumer] != p.of[edge.producer]);
      CHECK(std::ranges::any_of(s.operands[edge.consumer],
                                [&](auto v) { return s.producer[v] == edge.producer; }));
    }
    CHECK_THROWS_AS(check_partition(s, p), partition_error);
    bool pair = false;  // of parts that directly depend on each other
    for (std::size_t n = 0; n < s.nodes(); ++n)
      for (auto const v : s.operands[n])
        for (std::size_t m = 0; m < s.nodes(); ++m)
          for (auto const w : s.operands[m])
            if (s.producer[v] != none<std::uint32_t> && s.producer[w] != none<std::uint32_t>)
              pair |= p.of[n] != p.of[m] && p.of[s.producer[v]] == p.of[m] && p.of[s.producer[w]] == p.of[n];
    CHECK((cycle->size() == 2) == pair);
  }
  CHECK(cycles > 500);
}

TEST_CASE("check_partition: describes each fault with the names of the nodes") {
  testing::basic_snapshot_builder<> b;
  auto v = b.input();
  for (char const* name : {"conv", "relu", "pool"}) {
    v = b.node(1, {v});
    b.name(name);
  }
  auto const s = b.build();
  auto const message = [&](partition const& p) {
    return testing::error_text<partition_error>([&] { check_partition(s, p); });
  };
  CHECK(message(parts({0, 1, 0}, 2)) ==
        "parts depend on each other in a cycle: conv (#0) in part 0 -> relu (#1) in part 1; relu (#1) in "
        "part 1 -> pool (#2) in part 0");
  CHECK(message(parts({0, 7, 1}, 2)) == "node relu (#1) is not in any of the 2 parts");
  CHECK(message(parts({0, 1}, 2)) == "the partition has 2 entries, but the number of nodes is 3");
  CHECK(message(parts({0, 1, 1}, 2)) == "accepted");
}

TEST_CASE("find_unassigned_node: a replicable node needs no part, and nodes beyond the array have no part") {
  testing::basic_snapshot_builder<> b;
  b.node(1);
  b.replicable();
  b.node(1);
  auto const s = b.build();
  CHECK_FALSE(find_unassigned_node(s, parts({index(no_part), 0}, 1)));
  CHECK(find_unassigned_node(s, parts({index(no_part)}, 1)) == 1);
}

TEST_CASE("find_overfull_part: returns the first part over its memory limit and its bytes") {
  testing::basic_snapshot_builder<> b;
  auto const w = b.state(10);
  b.node(1, {w});
  b.node(1, {w, b.state(5)});
  auto const s = b.build();
  auto const p = parts({0, 1}, 2);
  CHECK_FALSE(find_overfull_part(s, p, {}));
  CHECK_FALSE(find_overfull_part(s, p, 15));
  CHECK(find_overfull_part(s, p, 14) == overfull_part{part_id{1}, 15, 14});
  CHECK(find_overfull_part(s, p, {9, 20}) == overfull_part{part_id{0}, 10, 9});
  std::vector<std::size_t> const more{0, 3};
  CHECK(find_overfull_part(s, p, 15, more) == overfull_part{part_id{1}, 18, 15});
}

TEST_CASE("check_partition: the message shortens a long cycle, and the witness holds all of it") {
  partition p{{}, 1000};
  for (std::uint32_t n = 0; n <= 1000; ++n) p.of.push_back(part_id{n % 1000});
  try {
    check_partition(chain(1001), p);
    FAIL("no error");
  } catch (partition_error const& e) {
    CHECK(e.witness.size() == 2000);
    CHECK(std::string(e.what()).find("; … 992 more …; ") != std::string::npos);
    CHECK(std::string(e.what()).size() < 600);
  }
}

TEST_CASE("check_partition: rejects far more parts than nodes without large tables") {
  CHECK_THROWS_WITH_AS(check_partition(chain(4), parts({0, 1, 1, 2}, 4'000'000'000)),
                       "the partition has 4000000000 parts for 4 nodes; number parts from 0 without gaps",
                       partition_error);
}

TEST_CASE("find_cycle_between_parts: finds a cycle of 300,000 parts on a small stack") {
  std::uint32_t const ring = 300'000;
  auto const s = chain(2 * ring + 1);
  partition p{{}, 2 * ring};
  for (std::uint32_t n = 0; n < ring; ++n) p.of.push_back(part_id{ring + n});
  p.of.push_back(p.of.front());
  for (std::uint32_t n = 0; n < ring; ++n) p.of.push_back(part_id{n});
  testing::on_small_stack([&] { CHECK(find_cycle_between_parts(s, p)->size() == ring); });
}
