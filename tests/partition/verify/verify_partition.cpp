// SPDX-License-Identifier: MIT
#include "cleave/partition/verify/verify_partition.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <vector>

#include "cleave/graph/adjacency.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

partition parts_of(std::vector<std::uint32_t> const& ids, std::uint32_t parts) {
  partition p{{}, parts};
  for (auto const i : ids) p.of.push_back(part_id{i});
  return p;
}

std::vector<partition_fault> faults_of(auto const& verdict) {
  std::vector<partition_fault> kinds;
  for (auto const& f : verdict.findings) {
    CHECK(!describe(f).empty());
    kinds.push_back(f.what);
  }
  return kinds;
}

adjacency<std::uint32_t> path(std::uint32_t n) {
  edge_pairs<std::uint32_t> e;
  for (std::uint32_t i = 1; i < n; ++i) e.add(i - 1, i);
  return adjacency_of_edges(n, e);
}

struct arc {
  std::uint32_t from, to;
  double cost;
};

}  // namespace

TEST_CASE("describe: shows weights without zeros at the end, and all their digits") {
  CHECK(describe(partition_finding{partition_fault::overweight, 0, 3, 80, 77.25}) ==
        "part 3 weighs 80, but its limit is 77.25");
}

TEST_CASE("verify_partition: measures a path cut into two halves") {
  auto const g = path(6);
  auto const v = verify_partition(g.view(), parts_of({0, 0, 0, 1, 1, 1}, 2));
  CHECK(v.sound());
  CHECK(v.cut == 1);
  CHECK(v.cut_edges == 1);
  CHECK(v.part_weight == std::vector<std::int64_t>{3, 3});
  CHECK(v.imbalance == 0);
  CHECK(v.empty == 0);
  CHECK(v.total == 6);
}

TEST_CASE("verify_partition: reports every kind of fault") {
  using enum partition_fault;
  auto const g = path(6);
  CHECK(faults_of(verify_partition(g.view(), parts_of({0, 0, 0}, 1))) == std::vector{wrong_length});
  CHECK(faults_of(verify_partition(g.view(), parts_of({0, 0, 0, 1, 1, 7}, 2))) == std::vector{no_such_part});
  auto p = parts_of({0, 0, 0, 1, 1, 1}, 2);
  p.of[2] = no_part;
  CHECK(faults_of(verify_partition(g.view(), p)) == std::vector{no_such_part});
  auto const heavy = verify_partition(g.view(), parts_of({0, 0, 0, 0, 1, 1}, 2));
  CHECK(faults_of(heavy) == std::vector{overweight});
  CHECK(heavy.imbalance == doctest::Approx(1.0 / 3));
  CHECK(verify_partition(g.view(), parts_of({0, 0, 0, 0, 1, 1}, 2), {.imbalance = 0.34}).sound());
  CHECK(verify_partition(g.view(), parts_of({0, 0, 0, 0, 1, 1}, 2), {0, {2.0 / 3, 1.0 / 3}}).sound());
  auto const hollow = verify_partition(g.view(), parts_of({0, 0, 0, 2, 2, 2}, 3), {.imbalance = 1});
  CHECK(faults_of(hollow) == std::vector{empty_part});
  CHECK(hollow.empty == 1);
  CHECK(verify_partition(path(2).view(), parts_of({0, 2}, 4)).sound());  // more parts than nodes
  auto one_sided = path(3);
  one_sided.targets[1] = 2;
  CHECK(faults_of(verify_partition(one_sided.view(), parts_of({0, 1, 2}, 3))) ==
        std::vector{one_sided_graph});
  auto large = path(2);
  large.node_weight.assign(2, std::numeric_limits<std::int64_t>::max());
  CHECK(faults_of(verify_partition(large.view(), parts_of({0, 1}, 2))).front() == sums_overflow);
  CHECK(verify_partition(adjacency<std::uint32_t>{}.view(), parts_of({}, 2)).sound());
}

TEST_CASE("verify_partition: rounds the share up before it applies the imbalance") {
  auto const g = path(10);  // 10 nodes in 4 parts: at most 3 each
  CHECK(verify_partition(g.view(), parts_of({0, 0, 0, 1, 1, 1, 2, 2, 3, 3}, 4), {.imbalance = 0}).sound());
  CHECK(!verify_partition(g.view(), parts_of({0, 0, 0, 0, 1, 1, 2, 2, 3, 3}, 4), {.imbalance = 0.3}).sound());
  CHECK(verify_partition(g.view(), parts_of({0, 0, 0, 0, 1, 1, 2, 2, 3, 3}, 4), {.imbalance = 0.34}).sound());
}

TEST_CASE("verify_partition: equals a count on an adjacency matrix for random partitions") {
  testing::rng dice(1);
  for (int round = 0; round < 300; ++round) {
    auto const n = 1 + dice.below(10);
    auto const k = static_cast<std::uint32_t>(1 + dice.below(5));
    std::vector<std::vector<double>> w(n, std::vector<double>(n));
    edge_pairs<std::int32_t, double> e;
    for (auto i = dice.below(3 * n); i > 0; --i) {
      auto const a = dice.below(n), b = dice.below(n);
      auto const x = static_cast<double>(dice.below(8)) / 4;
      e.add(static_cast<std::int32_t>(a), static_cast<std::int32_t>(b), x);
      if (a != b) w[a][b] += x, w[b][a] += x;
    }
    auto g = adjacency_of_edges(n, e);
    partition p{{}, k};
    std::vector<double> weight(k);
    std::set<std::uint32_t> used;
    for (std::size_t i = 0; i < n; ++i) {
      g.node_weight.push_back(static_cast<double>(dice.below(5)));
      p.of.push_back(part_id{static_cast<std::uint32_t>(dice.below(k))});
      weight[index(p.of[i])] += g.node_weight[i];
      used.insert(index(p.of[i]));
    }
    double cut = 0, total = 0;
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = 0; b < a; ++b)
        if (p.of[a] != p.of[b]) cut += w[a][b];
    for (double const x : weight) total += x;
    auto const v = verify_partition(g.view(), p, {.imbalance = 0.5});
    CHECK(v.cut == cut);
    CHECK(v.part_weight == weight);
    CHECK(v.empty == k - used.size());
    auto const heaviest = *std::ranges::max_element(weight);
    if (total > 0) CHECK(v.imbalance == doctest::Approx(heaviest / (total / k) - 1));
    auto const found = faults_of(v);
    CHECK(std::ranges::count(found, partition_fault::overweight) ==
          std::ranges::count_if(weight, [&](double x) { return x > 1.5 * total / k + 1e-9; }));
    CHECK(std::ranges::count(found, partition_fault::empty_part) ==
          (n >= k ? static_cast<std::ptrdiff_t>(v.empty) : 0));
  }
}

TEST_CASE("verify_dag_partition: loads count each value once per receiving part") {
  // 0 -> 1 (2), 0 -> 2 (3), 0 -> 3 (1): 0 in part 0, 1 and 2 in part 1, 3 in part 2.
  std::vector<arc> const arcs{{0, 1, 2}, {0, 2, 3}, {0, 3, 1}};
  std::vector<double> const work{10, 1, 1, 1};
  auto const v = verify_dag_partition<arc>(work, arcs, parts_of({0, 1, 1, 2}, 3));
  CHECK(v.sound());
  CHECK(v.loads == std::vector<double>{13, 5, 4});
  CHECK(v.bottleneck == 13);
  CHECK(v.cut == 6);
  CHECK(v.traffic == 6);
}

TEST_CASE("verify_dag_partition: reports a cycle of parts exactly if there is one") {
  testing::rng dice(2);
  int circles = 0;
  for (int round = 0; round < 300; ++round) {
    auto const n = static_cast<std::uint32_t>(2 + dice.below(8));
    auto const k = static_cast<std::uint32_t>(1 + dice.below(4));
    std::vector<arc> arcs;
    for (auto i = dice.below(2 * n); i > 0; --i) {
      auto a = static_cast<std::uint32_t>(dice.below(n)), b = static_cast<std::uint32_t>(dice.below(n));
      if (a > b) std::swap(a, b);
      if (a != b) arcs.push_back({a, b, 1});
    }
    partition p{{}, k};
    for (std::uint32_t i = 0; i < n; ++i) p.of.push_back(part_id{static_cast<std::uint32_t>(dice.below(k))});
    std::vector<std::vector<bool>> reach(k, std::vector<bool>(k));
    for (auto const& a : arcs)
      if (p.of[a.from] != p.of[a.to]) reach[index(p.of[a.from])][index(p.of[a.to])] = true;
    auto const direct = reach;
    for (std::size_t m = 0; m < k; ++m)
      for (std::size_t a = 0; a < k; ++a)
        for (std::size_t b = 0; b < k; ++b)
          if (reach[a][m] && reach[m][b]) reach[a][b] = true;
    bool cycle = false;
    for (std::size_t a = 0; a < k; ++a) cycle = cycle || reach[a][a];
    auto const v = verify_dag_partition<arc>(std::vector<double>(n, 1), arcs, p);
    CHECK(v.sound() == !cycle);
    for (std::size_t i = 0; i < v.cycle.size(); ++i)
      CHECK(direct[index(v.cycle[i])][index(v.cycle[(i + 1) % v.cycle.size()])]);
    circles += cycle ? 1 : 0;
  }
  CHECK(circles > 20);
  std::vector<arc> const back{{0, 1, 1}, {1, 2, 1}};
  std::vector<char> const gradient{0, 0, 1};
  auto const there_and_back = parts_of({0, 1, 0}, 2);
  CHECK(faults_of(verify_dag_partition<arc>(std::vector<double>(3, 1), back, there_and_back)) ==
        std::vector{partition_fault::part_cycle});
  CHECK(verify_dag_partition<arc>(std::vector<double>(3, 1), back, there_and_back, gradient).sound());
}
