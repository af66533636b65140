// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cleave/graph/adapter_fault.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/acyclic/acyclic.hpp"
#include "cleave/partition/buckets/buckets.hpp"
#include "cleave/partition/exact/exact.hpp"
#include "cleave/partition/groups/alternation.hpp"
#include "cleave/partition/groups/capability.hpp"
#include "cleave/partition/model/validity.hpp"
#include "cleave/partition/named/assign.hpp"
#include "cleave/partition/repartition/repartition_stages.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "cleave/partition/units/part_cycles.hpp"
#include "cleave/split/split.hpp"
#include "support/error_text.hpp"
#include "support/random_program.hpp"
#include "support/rng.hpp"
#include "support/toy_ir.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// A program with nodes that must stay together.
struct grouped : toy::graph {
  std::map<toy::op const*, std::vector<toy::op const*>> with;
  using toy::graph::graph;
  std::vector<toy::op const*> together(toy::op const* o) const {
    auto const found = with.find(o);
    return found == with.end() ? std::vector<toy::op const*>() : found->second;
  }
};
static_assert(grouped_graph<grouped> && !grouped_graph<toy::graph>);

grouped random_groups(testing::rng& r, toy::program const& p) {
  grouped g(p);
  for (auto count = 1 + r.below(3); count-- > 0;)
    g.with[p.ops[r.below(p.ops.size())].get()].push_back(p.ops[r.below(p.ops.size())].get());
  return g;
}

/// The groups as sets of positions.
std::vector<std::vector<std::size_t>> sets_of(toy::program const& p, grouped const& g) {
  std::vector<std::vector<std::size_t>> sets;
  for (std::size_t n = 0; n < p.ops.size(); ++n) {
    sets.push_back({n});
    for (auto const* o : g.together(p.ops[n].get()))
      for (std::size_t m = 0; m < p.ops.size(); ++m)
        if (p.ops[m].get() == o) sets.back().push_back(m);
  }
  return sets;
}

/// Returns whether the parts keep each group whole, by checking all pairs.
template <class Snapshot>
bool keeps(Snapshot const& s, std::vector<std::vector<std::size_t>> const& sets, partition const& p) {
  for (auto const& set : sets)
    for (auto const a : set)
      for (auto const b : set)
        if (!s.replicable[a] && !s.replicable[b] && p.of[a] != p.of[b]) return false;
  return true;
}

/// A long chain, and a variable that is read first and assigned last.
toy::program with_variable(testing::rng& r, std::size_t length) {
  toy::program p{{"x"}, {}, {"v0"}};
  p.add({"read", {}, {"old"}, 1});
  std::string last = "x";
  for (std::size_t i = 0; i < length; ++i) {
    auto const made = "v" + std::to_string(i);
    p.add({"op" + std::to_string(i),
           {last, r.one_in(4) ? "old" : last},
           {made},
           static_cast<double>(1 + r.below(9))});
    if (r.one_in(3)) last = made;
  }
  p.add({"assign", {last}, {}, 1});
  return p;
}

}  // namespace

TEST_CASE("balance: keeps a variable's read and its assignment in one part if together() demands it") {
  testing::rng r(7);
  for (int i = 0; i < 20; ++i) {
    auto const p = with_variable(r, 60);
    grouped g(p);
    g.with[p.ops.back().get()] = {p.ops.front().get()};
    auto const cut = balance(g, 40, {.random_orders = 3, .seed = r.below(1000)});
    CHECK(cut.of.front() == cut.of.back());
    split(g, cut);
    auto const without = balance(toy::graph(p), 40, {.random_orders = 3});
    CHECK(without.of.front() != without.of.back());
  }
}

TEST_CASE("split: names both nodes of a group that the partition cuts apart") {
  toy::program p{{"x"}, {}, {"a"}};
  p.add({"read", {"x"}, {"a"}});
  p.add({"other", {"a"}, {"b"}});
  p.add({"assign", {"b"}, {}});
  grouped g(p);
  g.with[p.ops[0].get()] = {p.ops[2].get()};
  CHECK(testing::error_text([&] { split(g, assign(g, {0, 0, 1})); }) ==
        "nodes that must share a part (because of together(n) or carried(v), or because one writes memory "
        "that the other "
        "views) are in different parts: read (#0) in part 0, assign (#2) in part 1; put both into the same "
        "part");
  CHECK(testing::error_text([&] { split(g, assign(g, {0, 1, 0})); }).find("in a cycle") != std::string::npos);
  split(g, assign(g, {0, 0, 0}));
  toy::graph const plain(p);
  CHECK(split(plain, assign(plain, {0, 0, 1})).size() == 2);
}

TEST_CASE("find_adapter_fault: reports a node in together() that the graph does not list") {
  toy::program p{{"x"}, {}, {}}, q{{}, {}, {}};
  p.add({"read", {"x"}, {"a"}});
  p.add({"assign", {"a"}, {}});
  grouped g(p);
  g.with[p.ops[1].get()] = {p.ops[0].get(), q.add({"stranger", {}, {}})};
  CHECK(find_adapter_fault(g) == adapter_fault{adapter_violation::unknown_together_node, 1});
  CHECK(testing::error_text([&] { snapshot_of(g); }) ==
        "adapter: node assign (#1) " + std::string(describe(adapter_violation::unknown_together_node)));
}

TEST_CASE("find_split_group: finds exactly the partitions of small graphs that cut a group") {
  testing::rng r(11);
  std::size_t whole = 0, parted = 0;
  for (int i = 0; i < 60; ++i) {
    auto const p = testing::random_program(r, 2 + r.below(4));
    auto const g = random_groups(r, p);
    auto const s = snapshot_of(g);
    auto const sets = sets_of(p, g);
    partition every{std::vector(s.nodes(), part_id{0}), 3};
    for (bool more = true; more;) {
      bool const kept = keeps(s, sets, every);
      REQUIRE(find_split_group(s, every).has_value() == !kept);
      ++(kept ? whole : parted);
      more = false;
      for (std::size_t n = 0; n < s.nodes() && !more; ++n) {  // counts up
        more = index(every.of[n]) < 2;
        every.of[n] = more ? part_id{index(every.of[n]) + 1} : part_id{0};
      }
    }
  }
  CHECK(whole > 500);
  CHECK(parted > 500);
}

TEST_CASE("together: every partitioner keeps the groups, and some match their option of the same name") {
  testing::rng r(13);
  for (int i = 0; i < 150; ++i) {
    auto const p = testing::random_program(r, 3 + r.below(8));
    auto const g = random_groups(r, p);
    toy::graph const plain(p);
    auto const s = snapshot_of(g);
    auto const sets = sets_of(p, g);
    auto const k = static_cast<std::uint32_t>(1 + r.below(4));
    auto const balanced = balance(g, k);
    REQUIRE(keeps(s, sets, balanced));
    REQUIRE(balanced.of == balance(plain, k, {.together = sets}).of);
    split(g, balanced);

    auto const cut = partition_acyclic(g, k);
    REQUIRE(keeps(s, sets, cut));
    acyclic_options limited;
    limited.limits.together = sets;
    REQUIRE(cut.of == partition_acyclic(plain, k, limited).of);

    auto const best = partition_exact(g, k);
    REQUIRE(keeps(s, sets, best));
    REQUIRE(best.bottleneck == partition_exact(plain, k, {.balance = limited.limits}).bottleneck);

    REQUIRE(keeps(s, sets, repartition_stages(g, balanced, k)));
    REQUIRE(keeps(s, sets, fill_buckets(g, {.cap = 1 + r.below(3)})));
    auto const supports = [&](toy::op const* o) { return o->in.size() % 2 == 0; };
    REQUIRE(keeps(s, sets, alternation(g, supports)));
    std::vector<std::size_t> group_of(s.nodes());  // 0 if the node has no group
    auto const groups = capability_groups(g, supports);
    for (std::size_t j = 0; j < groups.size(); ++j)
      for (auto const n : groups[j].nodes) group_of[n] = j + 1;
    partition of_groups{{}, static_cast<std::uint32_t>(groups.size() + 1)};
    for (auto const of : group_of) of_groups.of.push_back(part_id{static_cast<std::uint32_t>(of)});
    REQUIRE(keeps(s, sets, of_groups));

    auto any = balanced;  // parts that may form a cycle
    for (auto& of : any.of) of = part_id{static_cast<std::uint32_t>(r.below(any.parts))};
    for (std::size_t n = 0; n < s.nodes(); ++n) any.of[n] = any.of[s.group[n]];
    for (auto const policy : {cycle_policy::cut, cycle_policy::merge, cycle_policy::move}) try {
        auto const acyclic = acyclic_parts(g, any, policy);
        REQUIRE(keeps(s, sets, acyclic.parts));
      } catch (partition_error const&) {
        REQUIRE(policy == cycle_policy::cut);
      }
  }
}
