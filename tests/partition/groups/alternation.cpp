// SPDX-License-Identifier: MIT
#include "cleave/partition/groups/alternation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/partition/model/validity.hpp"
#include "support/archetype.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

using namespace cleave;

using namespace cleave::detail;
using numbers = std::vector<std::uint32_t>;
using labels = std::vector<std::string>;

namespace {

numbers parts_of(partition const& p) {
  numbers list;
  for (auto const i : p.of) list.push_back(index(i));
  return list;
}

/// A chain; the accelerator supports node i if `sides[i]` is A.
alternating_partition cut_chain(std::string const& sides, alternation_options const& o = {}) {
  testing::snapshot_builder b;
  auto v = b.input();
  std::vector<char> supported;
  for (char const side : sides) {
    v = b.node(1, {v});
    supported.push_back(side == 'A');
  }
  b.output(v);
  return alternation(b.build(), supported, o);
}

/// The algorithm of the reference: takes all ready nodes of one side, then all of the other.
numbers cut_by_ready_lists(snapshot_arrays const& s, std::vector<char> const& supported) {
  std::vector<std::vector<std::size_t>> predecessors(s.nodes());
  each_dependency(s, [&](std::size_t m, std::size_t n) { predecessors[n].push_back(m); });
  numbers part(s.nodes(), none<std::uint32_t>);
  auto const ready = [&](std::size_t n) {
    return part[n] == none<std::uint32_t> &&
           std::ranges::all_of(predecessors[n], [&](auto m) { return part[m] != none<std::uint32_t>; });
  };
  bool host = false;
  for (std::size_t n = 0; n < s.nodes(); ++n) host |= !supported[n] && predecessors[n].empty();
  std::size_t left = s.nodes();
  for (std::uint32_t turn = 0; left > 0; ++turn, host = !host)
    for (bool taken = true; taken;) {
      taken = false;
      for (std::size_t n = 0; n < s.nodes(); ++n)
        if (ready(n) && (supported[n] == 0) == host) {
          part[n] = turn;
          taken = true;
          --left;
        }
    }
  return part;
}

}  // namespace

TEST_CASE("alternation: reproduces the examples of the reference") {
  auto const p = cut_chain("ACAACA");
  CHECK(parts_of(p) == numbers{0, 1, 2, 2, 3, 4});
  CHECK(p.label ==
        labels{"_run_on_acc_0", "_run_on_cpu_1", "_run_on_acc_2", "_run_on_cpu_3", "_run_on_acc_4"});
  auto const two = cut_chain("ACAACA", {.least = 2});
  CHECK(parts_of(two) == numbers{0, 0, 1, 1, 2, 2});
  CHECK(two.accelerated == std::vector<char>{0, 1, 0});
  auto const three = cut_chain("ACAACA", {.least = 3, .host = "host "});
  CHECK(parts_of(three) == numbers{0, 0, 0, 0, 0, 0});
  CHECK(three.label == labels{"host 0"});

  testing::snapshot_builder b;  // sin(a), cos(a), their sum on the host
  auto const in = b.input();
  b.output(b.node(1, {b.node(1, {in}), b.node(1, {in})}));
  CHECK(parts_of(alternation(b.build(), {1, 1, 0})) == numbers{0, 0, 1});

  testing::snapshot_builder fork;  // a, its users c on the host and b, then d
  auto const a = fork.node(1, {fork.input()});
  auto const c = fork.node(1, {a}), other = fork.node(1, {a});
  fork.output(fork.node(1, {c, other}));
  CHECK(parts_of(alternation(fork.build(), {1, 0, 1, 1})) == numbers{0, 1, 0, 2});
}

TEST_CASE("alternation: equals the ready-list algorithm of the reference, and no part needs a later one") {
  testing::rng random(1);
  for (int round = 0; round < 300; ++round) {
    auto const s = testing::random_graph(
        random, {.nodes = 1 + random.below(40), .reach = random.below(20), .ordered = random.below(5)});
    std::vector<char> supported(s.nodes());
    for (auto& x : supported) x = random.one_in(2);
    auto const p = alternation(s, supported);
    CHECK(parts_of(p) == cut_by_ready_lists(s, supported));
    CHECK(!find_backward_edge(s, p));
    CHECK(!find_empty_part(p));
  }
}

TEST_CASE("alternation: sides alternate, small parts go to the host, and only supported nodes leave it") {
  testing::rng random(2);
  for (int round = 0; round < 300; ++round) {
    auto const s =
        testing::random_graph(random, {.nodes = random.below(40), .reach = 5, .tied = random.below(6)});
    std::vector<char> supported(s.nodes());
    for (auto& x : supported) x = !random.one_in(3);
    alternation_options o;
    o.least = random.below(5);
    auto const p = alternation(s, supported, o);
    CHECK(!find_backward_edge(s, p));
    CHECK(!find_empty_part(p));
    CHECK(!find_split_group(s, p));
    std::vector<std::size_t> size(p.parts);
    for (std::size_t n = 0; n < s.nodes(); ++n) {
      ++size[index(p.of[n])];
      if (p.accelerated[index(p.of[n])]) CHECK(supported[n] != 0);
    }
    for (std::size_t i = 0; i < p.parts; ++i) {
      if (p.accelerated[i]) CHECK(size[i] >= o.least);
      if (i > 0) CHECK(p.accelerated[i] != p.accelerated[i - 1]);
    }
  }
}

TEST_CASE("alternation: a node without operands can start on either side") {
  testing::snapshot_builder b;
  auto const ones = b.node(1);  // on the host
  b.output(b.node(1, {ones}));
  CHECK(parts_of(alternation(b.build(), {0, 1})) == numbers{0, 1});
  CHECK(parts_of(alternation(b.build(), {1, 0})) == numbers{0, 1});
}

TEST_CASE("alternation: a `together` set leaves the host only if all of it is supported") {
  testing::snapshot_builder b;
  auto const first = b.node(1, {b.input()});
  b.output(b.node(1, {b.node(1, {first})}));
  auto const s = b.build();
  CHECK(alternation(s, {1, 1, 1}, {.together = {{0, 2}}}).label == labels{"_run_on_acc_0"});
  CHECK(alternation(s, {1, 0, 1}, {.together = {{0, 2}}}).label == labels{"_run_on_cpu_0"});
  CHECK(parts_of(alternation(s, {1, 1, 0}, {.together = {{1, 2}}})) == numbers{0, 1, 1});
}

TEST_CASE("alternation: rejects more parts than allowed and `together` sets with unknown nodes") {
  CHECK_THROWS_WITH_AS(
      cut_chain("ACA", {.most = 1}),
      "alternation: the accelerator gets 2 parts, but at most 1 are allowed; raise `least`, so "
      "that small parts go to the host, or raise `most`",
      infeasible_error);
  CHECK(cut_chain("ACA", {.most = 2}).parts == 3);
  CHECK_THROWS_WITH_AS(cut_chain("A", {.together = {{1}}}),
                       "alternation: `together` names node #1, but the graph has only 1 nodes", error);
}

TEST_CASE("alternation: an empty graph has no part, and a graph needs only nodes and operands") {
  CHECK(alternation(testing::snapshot_builder().build(), {}).parts == 0);
  archetype::graph const g;
  auto const p = alternation(g, [](archetype::node) { return true; });
  CHECK(p.parts == 1);
}
