// SPDX-License-Identifier: MIT
#include "cleave/partition/acyclic/acyclic.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "cleave/partition/model/validity.hpp"
#include "support/brute_force.hpp"
#include "support/cases.hpp"
#include "support/error_text.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

namespace {

using cleave::acyclic_goal;
using cleave::acyclic_options;
using cleave::cut_measure;
using cleave::no_part;
using cleave::part_id;
using cleave::partition_acyclic;
using cleave::testing::error_text;
using cleave::testing::random_graph;
using cleave::testing::small_graph;
using cleave::testing::snapshot_builder;

/// Checks every guarantee that does not depend on the goal.
void check_promises(cleave::snapshot_arrays const& g, std::uint32_t k, acyclic_options const& o,
                    cleave::ordered_partition const& p) {
  REQUIRE(!cleave::detail::find_unassigned_node(g, p));
  REQUIRE(!cleave::detail::find_split_group(g, p));
  if (o.limits.backward.empty()) REQUIRE(!cleave::detail::find_backward_edge(g, p));
  if (o.limits.empty == cleave::empty_parts::forbidden && p.parts > 0) {
    bool any = false;
    for (auto const copied : g.replicable) any |= copied == 0;
    if (any) REQUIRE(!cleave::detail::find_empty_part(p));
  }
  for (auto const& set : o.limits.together)
    for (auto const n : set)
      if (!g.replicable[n] && !g.replicable[set.front()]) REQUIRE(p.of[n] == p.of[set.front()]);
  for (std::size_t n = 0; n < o.limits.fixed.size(); ++n)
    if (o.limits.fixed[n] != no_part && !g.replicable[n]) REQUIRE(p.of[n] == o.limits.fixed[n]);
  auto const bytes = cleave::part_memory(g, p, o.limits.node_memory);
  for (std::uint32_t s = 0; s < p.parts; ++s) {
    REQUIRE(p.device[s] < k);
    if (!o.limits.memory.empty()) REQUIRE(bytes[s] <= o.limits.memory[p.device[s]]);
  }
  double most = 0;
  for (double const load : p.loads) most = std::max(most, load);
  REQUIRE(p.bottleneck == most);
  REQUIRE(p.bound <= p.bottleneck);
}

acyclic_options random_options(cleave::testing::rng& r, cleave::snapshot_arrays const& g, std::uint32_t k) {
  acyclic_options o;
  if (r.one_in(3)) o.limits.empty = cleave::empty_parts::allowed;
  std::vector<double> speed, link;
  for (std::uint32_t s = 0; s < k; ++s) {
    speed.push_back(static_cast<double>(std::size_t{1} << r.below(3)));
    link.push_back(static_cast<double>(r.below(3)) / 2);
  }
  if (r.one_in(3)) o.limits.speed = speed;
  if (r.one_in(3)) o.limits.link = link;
  if (r.one_in(3)) o.limits.memory = 5 + r.below(40);
  if (r.one_in(3))
    for (std::size_t n = 0; n < g.nodes(); ++n) o.limits.node_memory.push_back(r.below(5));
  if (r.one_in(4)) {
    std::vector<std::size_t> set;
    for (std::size_t n = 0; n < g.nodes(); ++n)
      if (!g.replicable[n] && r.one_in(3)) set.push_back(n);
    if (!set.empty()) o.limits.together.push_back(set);
  }
  if (r.one_in(4)) {
    o.limits.fixed.assign(g.nodes(), no_part);
    o.limits.fixed[r.below(g.nodes())] = part_id{static_cast<std::uint32_t>(r.below(k))};
  }
  return o;
}

/// The cut by definition.
double cut_of(cleave::snapshot_arrays const& g, std::vector<std::uint32_t> const& of, cut_measure counted) {
  double sum = 0;
  for (std::uint32_t v = 0; v < g.values(); ++v) {
    auto const producer = g.producer[v];
    if (producer == cleave::none<std::uint32_t> || g.replicable[producer]) continue;
    std::vector<std::uint32_t> readers;
    for (auto const n : g.users[v])
      if (!g.replicable[n] && of[n] != of[producer]) readers.push_back(of[n]);
    auto const edges = readers.size();
    std::ranges::sort(readers);
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    auto const parts = static_cast<double>(readers.size());
    auto const bytes = static_cast<double>(g.bytes[v]);
    sum += counted == cut_measure::received_values  ? parts
           : counted == cut_measure::received_bytes ? bytes * parts
                                                    : bytes * static_cast<double>(edges);
  }
  return sum;
}

/// The least cut of all ordered partitions into `k` non-empty parts of weight at most `most`; infinity if no
/// such partition exists.
double min_k_cut(cleave::snapshot_arrays const& g, std::uint32_t k, double most, cut_measure counted) {
  auto const n = g.nodes();
  std::vector<std::uint32_t> of(n);
  double least = std::numeric_limits<double>::infinity();
  for (;;) {
    bool legal = true;
    std::vector<double> weight(k);
    std::vector<char> used(k);
    for (std::size_t i = 0; i < n && legal; ++i) {
      weight[of[i]] += g.weight[i];
      used[of[i]] = 1;
      for (auto const v : g.operands[i])
        if (auto const m = g.producer[v]; m != cleave::none<std::uint32_t>) legal &= of[m] <= of[i];
      for (auto const m : g.after[i]) legal &= of[m] <= of[i];
    }
    for (std::uint32_t s = 0; s < k; ++s) legal &= used[s] != 0 && weight[s] <= most;
    if (legal) least = std::min(least, cut_of(g, of, counted));
    std::size_t i = 0;
    while (i < n && ++of[i] == k) of[i++] = 0;
    if (i == n) return least;
  }
}

}  // namespace

TEST_CASE("partition_acyclic: the bottleneck is never below the optimum and almost always equals it") {
  cleave::testing::rng r(1);
  std::size_t same = 0, solved = 0;
  auto const rounds = cleave::testing::cases(20, 100);
  for (std::size_t i = 0; i < rounds; ++i) {
    auto const g =
        random_graph(r, {.nodes = 1 + r.below(9), .states = 4, .replicable = 6, .tied = 8, .ordered = 6});
    auto const k = static_cast<std::uint32_t>(1 + r.below(4));
    auto const o = random_options(r, g, k);
    cleave::ordered_partition p;
    try {
      p = partition_acyclic(g, k, o);
    } catch (cleave::infeasible_error const&) {
      continue;
    }
    check_promises(g, k, o, p);
    if (p.loads.empty()) continue;
    auto const units = cleave::detail::units_of(g, {.together = o.limits.together}).size();
    if (units == 0) continue;
    auto const parts = cleave::detail::may_leave_gaps(o.limits) ? k : std::min<std::size_t>(k, units);
    small_graph const all(g, o.limits);
    auto const best = all.best_ascending(parts);
    REQUIRE(p.bottleneck >= best * (1 - 1e-9));
    REQUIRE(p.bound <= best * (1 + 1e-9));
    REQUIRE(p.bottleneck <= cleave::balance(g, k, o.limits).bottleneck);
    same += p.bottleneck <= best * (1 + 1e-9);
    ++solved;
  }
  CHECK(solved > rounds * 8 / 10);
  CHECK(same >= solved * 97 / 100);
}

TEST_CASE("partition_acyclic: the cut is never below the best balanced cut and usually equals it") {
  cleave::testing::rng r(2);
  std::size_t same = 0, feasible = 0;
  auto const rounds = cleave::testing::cases(15, 80);
  for (std::size_t i = 0; i < rounds; ++i) {
    auto const g = random_graph(r, {.nodes = 3 + r.below(6), .ordered = 6});
    auto const k = static_cast<std::uint32_t>(2 + r.below(2));
    acyclic_options o{.goal = acyclic_goal::cut, .epsilon = static_cast<double>(r.below(6)) / 10};
    o.counted = static_cast<cut_measure>(r.below(3));
    auto const p = partition_acyclic(g, k, o);
    check_promises(g, k, o, p);
    double sum = 0;
    for (double const w : g.weight) sum += w;
    auto const most = std::floor((1 + o.epsilon) * std::ceil(sum / k) + 1e-9);
    std::vector<std::uint32_t> of;
    for (auto const part : p.of) of.push_back(index(part));
    REQUIRE(p.cut == cut_of(g, of, o.counted));
    auto const best = min_k_cut(g, k, most, o.counted);
    if (p.balanced) {
      for (double const time : p.times) REQUIRE(time <= most);
      REQUIRE(p.cut >= best);
      same += p.cut == best;
      ++feasible;
    }
  }
  CHECK(feasible > rounds / 2);
  CHECK(same >= feasible * 9 / 10);
}

TEST_CASE("partition_acyclic: cuts as evenly as slices can if balance is impossible, and reports it") {
  snapshot_builder b;
  std::uint32_t v = b.input();
  for (int i = 0; i < 5; ++i) v = b.node(i == 2 ? 100 : 1, {v}, 8);
  auto const p = partition_acyclic(b.build(), 3, {.goal = acyclic_goal::cut});
  CHECK(!p.balanced);
  CHECK(p.parts == 3);
  CHECK(*std::max_element(p.times.begin(), p.times.end()) == 100);
  CHECK(p.cut == 16);
  CHECK(p.imbalance == doctest::Approx(100 * 3 / 104. - 1));
}

TEST_CASE("partition_acyclic: cuts a chain at its smallest value if the balance allows it") {
  snapshot_builder b;
  std::uint32_t v = b.input();
  for (int i = 0; i < 100; ++i) v = b.node(1, {v}, i == 48 ? 1 : 10);
  CHECK(partition_acyclic(b.build(), 2, {.goal = acyclic_goal::cut}).cut == 1);
  CHECK(partition_acyclic(b.build(), 2, {.goal = acyclic_goal::cut, .epsilon = 0}).cut == 10);
  CHECK(partition_acyclic(b.build(), 2, {.goal = acyclic_goal::cut, .counted = cut_measure::received_values})
            .cut == 1);
}

TEST_CASE("partition_acyclic: device_order::any lowers the bottleneck if devices differ") {
  // The first nodes hardly compute and send a lot: they belong on the host, which pays no transfers.
  snapshot_builder b;
  auto x = b.input();
  auto const a = b.node(1, {x}, 50), c = b.node(1, {a}, 1), d = b.node(10, {c}, 1);
  b.node(10, {d}, 1);
  auto const g = b.build();
  acyclic_options o;
  o.limits = {.speed = {1, 1, 0.5}, .link = {1, 1, 0}, .empty = cleave::empty_parts::allowed};
  auto const given = partition_acyclic(g, 3, o);
  o.devices = cleave::device_order::any;
  auto const any = partition_acyclic(g, 3, o);
  CHECK(any.bottleneck < given.bottleneck);
  std::vector<double> speed, link;
  for (auto const device : any.device) {
    speed.push_back(o.limits.speed[device]);
    link.push_back(o.limits.link[device]);
  }
  CHECK(cleave::bottleneck(g, any, {.speed = speed, .link = link}) == any.bottleneck);
}

TEST_CASE("partition_acyclic: device_order::any is never worse than the given order") {
  cleave::testing::rng r(3);
  for (std::size_t i = 0; i < cleave::testing::cases(6, 16); ++i) {
    auto const g = random_graph(r, {.nodes = 2 + r.below(8)});
    auto const k = static_cast<std::uint32_t>(2 + r.below(3));
    auto o = random_options(r, g, k);
    o.limits.fixed.clear();
    double given = std::numeric_limits<double>::infinity();
    try {
      given = partition_acyclic(g, k, o).bottleneck;
    } catch (cleave::infeasible_error const&) {
    }
    o.devices = cleave::device_order::any;
    try {
      auto const p = partition_acyclic(g, k, o);
      check_promises(g, k, o, p);
      CHECK(p.bottleneck <= given);
    } catch (cleave::infeasible_error const&) {
      CHECK(given == std::numeric_limits<double>::infinity());
    }
  }
}

TEST_CASE("partition_acyclic: equal options give equal parts, and graphs of 300 nodes meet all limits") {
  cleave::testing::rng r(4);
  for (std::size_t i = 0; i < 6; i += cleave::testing::cases(5, 1)) {
    auto const g = random_graph(r, {.nodes = 300, .reach = 30, .states = 10, .replicable = 20, .tied = 30});
    acyclic_options o{.goal = i % 2 == 0 ? acyclic_goal::cut : acyclic_goal::bottleneck};
    if (i > 3)
      o.limits.memory = 60 + cleave::part_memory(g, {std::vector<part_id>(300, part_id{0}), 1})[0] / 2;
    auto const p = partition_acyclic(g, 5, o);
    check_promises(g, 5, o, p);
    CHECK(p.of == partition_acyclic(g, 5, o).of);
    auto const share = std::ceil(std::accumulate(p.times.begin(), p.times.end(), 0.0) / 5);
    if (o.goal == acyclic_goal::cut && p.balanced) CHECK(std::ranges::max(p.times) <= 1.03 * share + 1e-9);
    if (o.goal == acyclic_goal::bottleneck) CHECK(p.bottleneck <= cleave::balance(g, 5, o.limits).bottleneck);
  }
}

TEST_CASE("partition_acyclic: with backward nodes the bottleneck is never below the optimum") {
  cleave::testing::rng r(5);
  for (std::size_t i = 0; i < cleave::testing::cases(6, 40); ++i) {
    auto const g = random_graph(r, {.nodes = 2 + r.below(8)});
    acyclic_options o;
    o.limits.backward.resize(g.nodes());
    for (auto& b : o.limits.backward) b = r.one_in(3);
    auto const p = partition_acyclic(g, 3, o);
    check_promises(g, 3, o, p);
    auto const units = cleave::detail::units_of(g, {.backward = o.limits.backward}).size();
    small_graph const all(g, o.limits);
    CHECK(p.bottleneck >= all.best_ascending(std::min<std::size_t>(3, units)) * (1 - 1e-9));
  }
}

TEST_CASE("partition_acyclic: the step time is the callable's, and no longer than at the best bottleneck") {
  cleave::testing::rng r(6);
  int shorter = 0;
  for (std::size_t i = 0; i < cleave::testing::cases(3, 8); ++i) {
    auto const g = random_graph(r, {.nodes = 40, .reach = 8});
    // Each part waits for the one before it: the pipeline fills, then seven more microbatches run.
    auto const step = [&](cleave::partition const& p) {
      double sum = 0, most = 0;
      for (double const load : cleave::part_loads(g, p)) sum += load, most = std::max(most, load);
      return sum + 7 * most;
    };
    auto const start = partition_acyclic(g, 4);
    auto const p = partition_acyclic(g, 4, {.effort = 0.3}, step);
    check_promises(g, 4, {}, p);
    CHECK(p.step_time == step(p));
    CHECK(p.step_time <= step(start));
    shorter += p.step_time < step(start);
  }
  CHECK(shorter > 0);
  CHECK(error_text([&] {
          partition_acyclic(random_graph(r, {}), 2, {},
                            [](cleave::partition const&) { return std::nan(""); });
        }).find("the time of a step is") != std::string::npos);
}

TEST_CASE("partition_acyclic: accepts no node, one node and more parts than nodes") {
  CHECK(partition_acyclic(snapshot_builder().build(), 3).parts == 0);
  snapshot_builder b;
  b.node(2);
  auto const one = b.build();
  for (auto const goal : {acyclic_goal::cut, acyclic_goal::bottleneck}) {
    auto const p = partition_acyclic(one, 7, {.goal = goal});
    CHECK(p.parts == 1);
    CHECK(p.bottleneck == 2);
    CHECK(p.cut == 0);
  }
}

TEST_CASE("partition_acyclic: rejects invalid options and names the option") {
  snapshot_builder b;
  b.node(2);
  auto const g = b.build();
  auto const text = [&](acyclic_options const& o, std::uint32_t k = 2) {
    return error_text([&] { partition_acyclic(g, k, o); });
  };
  auto const has = [](std::string const& all, char const* part) {
    return all.find(part) != std::string::npos;
  };
  CHECK(has(text({}, 0), "partition_acyclic: k is 0; pass at least 1"));
  CHECK(has(text({.epsilon = -0.1}), "epsilon is -0.1"));
  CHECK(has(text({.epsilon = std::nan("")}), "epsilon is"));
  CHECK(has(text({.effort = -1}), "effort is -1"));
  acyclic_options fixed{.devices = cleave::device_order::any};
  fixed.limits.fixed = {part_id{0}};
  CHECK(has(text(fixed), "nodes are fixed to parts, which requires a given device order"));
  acyclic_options small;
  small.limits.memory = 1;
  small.limits.node_memory = {2};
  CHECK(has(text(small), "the largest memory limit of a part is 1 bytes"));
  small.devices = cleave::device_order::any;
  CHECK(has(text(small), "the largest memory limit of a part is 1 bytes"));
}
