// SPDX-License-Identifier: MIT
#include "cleave/partition/exact/exact.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cleave/partition/model/validity.hpp"
#include "support/brute_force.hpp"
#include "support/error_text.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

namespace {

using cleave::balance_options;
using cleave::exact_balance_options;
using cleave::no_part;
using cleave::part_id;
using cleave::partition_exact;
using cleave::testing::error_text;
using cleave::testing::rng;
using cleave::testing::small_graph;
using cleave::testing::snapshot_builder;

constexpr double impossible = small_graph::impossible;

/// Checks that the partition's fields are consistent.
void check_consistent(cleave::snapshot_arrays const& g, std::uint32_t k, exact_balance_options const& o,
                      cleave::exact_partition const& p) {
  REQUIRE(!cleave::detail::find_unassigned_node(g, p));
  REQUIRE(!cleave::detail::find_split_group(g, p));
  if (o.balance.backward.empty()) REQUIRE(!cleave::detail::find_backward_edge(g, p));
  REQUIRE(p.device.size() == p.parts);
  auto const weights = cleave::part_weights(g, p);
  auto const bytes = cleave::detail::part_transfers(g, p);
  auto const held = cleave::part_memory(g, p, o.balance.node_memory);
  double most = 0;
  for (std::size_t i = 0; i < p.parts; ++i) {
    auto const device = p.device[i];
    auto const& b = o.balance;
    REQUIRE(device < k);
    double const load = weights[i] / (b.speed.empty() ? 1 : b.speed[device]) +
                        (b.link.empty() ? 1 : b.link[0]) * b.cost_per_byte * static_cast<double>(bytes[i]);
    REQUIRE(p.loads[i] == doctest::Approx(load).epsilon(1e-9));
    if (!o.balance.memory.empty()) REQUIRE(held[i] <= o.balance.memory[device]);
    most = std::max(most, p.loads[i]);
  }
  REQUIRE(p.bottleneck == most);
  REQUIRE(p.bound <= p.bottleneck);
  REQUIRE(p.proved == (p.bound == p.bottleneck));
  REQUIRE(p.unproved.empty() == p.proved);
}

/// The least bottleneck over all assignments of nodes to stages and all orders of the devices, spare devices
/// included.
double best_of_orders(cleave::snapshot_arrays const& g, std::uint32_t k, exact_balance_options const& o) {
  auto const& b = o.balance;
  auto const units = cleave::detail::units_of(g, {.together = b.together, .backward = b.backward});
  auto const devices = k + o.spare.size();
  double best = impossible;
  std::vector<std::size_t> stage_of(units.size());
  std::vector<std::size_t> device(devices);
  cleave::partition p{std::vector<part_id>(g.nodes(), no_part), static_cast<std::uint32_t>(devices)};
  for (;;) {
    bool ascending = true;
    for (std::uint32_t u = 0; u < units.size(); ++u) {
      for (auto const n : units.members[u]) p.of[n] = part_id{static_cast<std::uint32_t>(stage_of[u])};
      for (auto const need : units.predecessors[u]) ascending = ascending && stage_of[need] <= stage_of[u];
    }
    if (ascending) {
      auto const weights = cleave::part_weights(g, p);
      auto const bytes = cleave::detail::part_transfers(g, p);
      auto const held = cleave::part_memory(g, p, b.node_memory);
      for (std::size_t i = 0; i < devices; ++i) device[i] = i;
      do {
        double most = 0;
        for (std::size_t s = 0; s < devices; ++s) {
          auto const d = device[s];
          double load = 0;
          bool empty = true;
          for (std::size_t n = 0; n < g.nodes(); ++n)
            if (p.of[n] != no_part && index(p.of[n]) == s) {
              empty = false;
              if (d >= k) load += o.spare[d - k].weight[n];
            }
          if (d < k) {
            load = weights[s] / (b.speed.empty() ? 1 : b.speed[d]) +
                   (b.link.empty() ? 1 : b.link[d]) * b.cost_per_byte * static_cast<double>(bytes[s]);
            if (!b.memory.empty() && held[s] > b.memory[d]) load = impossible;
            if (empty && b.empty == cleave::empty_parts::forbidden) load = impossible;
          }
          most = std::max(most, load);
        }
        best = std::min(best, most);
      } while (std::next_permutation(device.begin(), device.end()));
    }
    std::size_t u = 0;
    while (u < stage_of.size() && ++stage_of[u] == devices) stage_of[u++] = 0;
    if (u == stage_of.size()) return best;
  }
}

struct question {
  cleave::snapshot_arrays g;
  std::uint32_t k;
  exact_balance_options o;
};

question random_question(rng& r, std::size_t nodes) {
  question q{cleave::testing::random_graph(
                 r, {.nodes = 1 + r.below(nodes), .states = 2, .replicable = 6, .tied = 5, .ordered = 6}),
             1 + static_cast<std::uint32_t>(r.below(4)),
             {}};
  auto& b = q.o.balance;
  b.orders = {cleave::unit_order::given};
  b.random_orders = r.below(2);
  b.cost_per_byte = static_cast<double>(r.below(3)) / 2;
  if (r.one_in(4)) b.link = 0.5;
  if (r.one_in(2)) b.empty = cleave::empty_parts::allowed;
  for (auto& w : q.g.weight)
    if (r.one_in(3)) w = 0;
  if (r.one_in(3)) {
    b.backward.resize(q.g.nodes());
    for (auto& back : b.backward) back = r.one_in(3);
  }
  if (r.one_in(3)) b.together.push_back({r.below(q.g.nodes()), r.below(q.g.nodes())});
  for (auto& set : b.together) std::erase_if(set, [&](std::size_t n) { return q.g.replicable[n] != 0; });
  return q;
}

cleave::snapshot_arrays chain(std::vector<double> const& weights, std::size_t bytes) {
  snapshot_builder b;
  std::vector<std::uint32_t> last;
  for (double const w : weights) last = {b.node(w, last, bytes)};
  return b.build();
}

/// Two parallel chains: slices of the given order must cut both.
cleave::snapshot_arrays two_chains() {
  snapshot_builder b;
  std::vector<std::uint32_t> left, right;
  for (int i = 0; i < 4; ++i) {
    left = {b.node(1, left, 10)};
    right = {b.node(1, right, 10)};
  }
  return b.build();
}

}  // namespace

TEST_CASE("partition_exact: finds the optimum of small graphs with memory limits, speeds, pins and groups") {
  rng r(1);
  for (int i = 0; i < 600; ++i) {
    CAPTURE(i);
    auto q = random_question(r, 8);
    auto& b = q.o.balance;
    if (r.one_in(3)) {
      std::vector<double> speed;
      for (std::uint32_t s = 0; s < q.k; ++s) speed.push_back(1 + static_cast<double>(r.below(3)));
      b.speed = speed;
    }
    if (r.one_in(3)) {
      std::vector<std::size_t> memory;
      for (std::uint32_t s = 0; s < q.k; ++s) memory.push_back(4 + r.below(16));
      b.memory = memory;
      for (std::size_t n = 0; n < q.g.nodes(); ++n) b.node_memory.push_back(r.below(6));
    }
    if (r.one_in(4)) {
      b.fixed.assign(q.g.nodes(), no_part);
      b.fixed[r.below(q.g.nodes())] = part_id{static_cast<std::uint32_t>(r.below(q.k))};
    }
    auto const units = cleave::detail::units_of(q.g, {.together = b.together, .backward = b.backward}).size();
    auto const stages = b.empty == cleave::empty_parts::allowed ? q.k : std::min<std::size_t>(q.k, units);
    double const best = small_graph(q.g, b).best_ascending(stages);
    try {
      auto const p = partition_exact(q.g, q.k, q.o);
      check_consistent(q.g, q.k, q.o, p);
      REQUIRE(p.proved);
      if (units > 0) REQUIRE(p.bottleneck == doctest::Approx(best).epsilon(1e-9));
    } catch (cleave::infeasible_error const& e) {
      INFO(e.what());
      bool const pin_without_part =
          std::string(e.what()).find("cannot be parted makes only") != std::string::npos;
      REQUIRE((best == impossible || pin_without_part));
    }
  }
}

TEST_CASE("partition_exact: finds the best use of devices in any order and of spare devices") {
  rng r(2);
  for (int i = 0; i < 250; ++i) {
    CAPTURE(i);
    auto q = random_question(r, 5);
    q.k = 1 + q.k % 2;
    auto& b = q.o.balance;
    q.o.devices = cleave::device_order::any;
    b.empty = cleave::empty_parts::allowed;
    if (r.one_in(2)) b.speed = {std::vector<double>(q.k, 2)};
    if (r.one_in(2) && q.k == 2) b.speed = {1, 3};
    if (r.one_in(3)) {
      b.memory = {std::vector<std::size_t>(q.k, 12)};
      b.node_memory.assign(q.g.nodes(), 3);
    }
    if (r.one_in(2)) {
      auto& weight = q.o.spare.emplace_back().weight;
      for (double const w : q.g.weight) weight.push_back(w * 2 + static_cast<double>(r.below(3)));
    }
    if (cleave::detail::units_of(q.g, {.together = b.together, .backward = b.backward}).size() == 0) continue;
    double const best = best_of_orders(q.g, q.k, q.o);
    try {
      auto const p = partition_exact(q.g, q.k, q.o);
      if (q.o.spare.empty()) check_consistent(q.g, q.k, q.o, p);
      REQUIRE(p.proved);
      CAPTURE(q.k);
      CAPTURE(q.o.spare.size());
      CAPTURE(b.together.size());
      CAPTURE(b.backward.size());
      CAPTURE(b.speed.size());
      CAPTURE(b.memory.size());
      CAPTURE(int(p.bound_by));
      CAPTURE(p.ideals);
      CAPTURE(q.g.nodes());
      REQUIRE(p.bottleneck == doctest::Approx(best).epsilon(1e-9));
      auto devices = p.device;
      std::ranges::sort(devices);
      REQUIRE(std::adjacent_find(devices.begin(), devices.end()) == devices.end());
    } catch (cleave::infeasible_error const&) {
      REQUIRE(best == impossible);
    }
  }
}

TEST_CASE("partition_exact: an interrupted search claims no proof, and its bound still holds") {
  rng r(3);
  std::size_t unproved = 0;
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    auto q = random_question(r, 9);
    if (i % 2 == 0)
      q.o.most_ideals = 1 + r.below(6), q.o.most_steps = 40 + r.below(200);
    else
      q.o.most_steps = 1 + r.below(120);
    double const best =
        small_graph(q.g, q.o.balance)
            .best_ascending(q.o.balance.empty == cleave::empty_parts::allowed
                                ? q.k
                                : std::min<std::size_t>(
                                      q.k, cleave::detail::units_of(q.g, {.together = q.o.balance.together,
                                                                          .backward = q.o.balance.backward})
                                               .size()));
    auto const p = partition_exact(q.g, q.k, q.o);
    check_consistent(q.g, q.k, q.o, p);
    if (best == impossible) continue;
    REQUIRE(p.bound <= best * (1 + 1e-9));
    REQUIRE(p.bottleneck >= best * (1 - 1e-9));
    unproved += !p.proved;
  }
  REQUIRE(unproved > 2);
}

TEST_CASE("partition_exact: branching over parts of units finds the optimum if there are too many ideals") {
  rng r(5);
  std::size_t by_branches = 0;
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    auto q = random_question(r, 8);
    q.o.most_ideals = 0;
    auto& b = q.o.balance;
    if (r.one_in(3)) b.speed = {std::vector<double>(q.k, 2)};
    if (r.one_in(3)) {
      std::vector<std::size_t> memory;
      for (std::uint32_t s = 0; s < q.k; ++s) memory.push_back(4 + r.below(16));
      b.memory = memory;
      for (std::size_t n = 0; n < q.g.nodes(); ++n) b.node_memory.push_back(r.below(6));
    }
    auto const units = cleave::detail::units_of(q.g, {.together = b.together, .backward = b.backward}).size();
    auto const stages = b.empty == cleave::empty_parts::allowed ? q.k : std::min<std::size_t>(q.k, units);
    if (r.one_in(4)) {
      b.fixed.assign(q.g.nodes(), no_part);
      if (stages > 0) b.fixed[r.below(q.g.nodes())] = part_id{static_cast<std::uint32_t>(r.below(stages))};
    }
    double const best = small_graph(q.g, b).best_ascending(stages);
    try {
      auto const p = partition_exact(q.g, q.k, q.o);
      check_consistent(q.g, q.k, q.o, p);
      REQUIRE(p.proved);
      if (units > 0) REQUIRE(p.bottleneck == doctest::Approx(best).epsilon(1e-9));
      by_branches += p.bound_by == cleave::bound_proof::branches;
    } catch (cleave::infeasible_error const& e) {
      INFO(e.what());
      REQUIRE(best == impossible);
    }
  }
  REQUIRE(by_branches > 20);
}

TEST_CASE("partition_exact: mirrored backward nodes never give a better result than free ones") {
  rng r(4);
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    auto q = random_question(r, 8);
    auto const free = partition_exact(q.g, q.k, q.o);
    q.o.loose = cleave::unrestricted_nodes::mirrored;
    auto const mirrored = partition_exact(q.g, q.k, q.o);
    REQUIRE(free.proved);
    REQUIRE(free.bottleneck <= mirrored.bottleneck * (1 + 1e-9));
    if (q.o.balance.backward.empty()) REQUIRE(free.bottleneck == mirrored.bottleneck);
  }
}

TEST_CASE("partition_exact: beats slices of a bad order and names the proof of its bound") {
  auto const g = two_chains();
  exact_balance_options o{.balance = {.orders = {cleave::unit_order::given}, .random_orders = 0}};
  auto const slices = cleave::balance(g, 2, o.balance);
  REQUIRE(slices.bottleneck == 17);
  auto const p = partition_exact(g, 2, o);
  REQUIRE(p.bottleneck == 4);
  REQUIRE(p.proved);
  REQUIRE(p.bound_by == cleave::bound_proof::ideals);
  REQUIRE(p.device == std::vector<std::uint32_t>{0, 1});
  auto const even = partition_exact(chain({1, 1, 1, 1}, 0), 2);
  REQUIRE(even.proved);
  REQUIRE(even.bound_by == cleave::bound_proof::even_share);
  REQUIRE(even.ideals == 0);
}

TEST_CASE("partition_exact: proves results for graphs without nodes or with only replicable nodes") {
  REQUIRE(partition_exact(cleave::snapshot_arrays{}, 3).proved);
  snapshot_builder b;
  b.node(1, {}, 1);
  b.replicable();
  auto const p = partition_exact(b.build(), 2);
  REQUIRE(p.proved);
  REQUIRE(p.parts == 1);
}

TEST_CASE("partition_exact: finds parts that no slices fit, or says that no parts meet the limits") {
  snapshot_builder b;  // two sources that need more than half of a part's memory each, and two small nodes
  auto const x = b.node(1, {}, 1), y = b.node(1, {}, 1);
  b.node(1, {x}, 1);
  b.node(1, {y}, 1);
  auto const g = b.build();
  exact_balance_options o{.balance = {.memory = 6,
                                      .node_memory = {4, 4, 2, 2},
                                      .orders = {cleave::unit_order::given},
                                      .random_orders = 0}};
  REQUIRE_THROWS_AS(cleave::balance(g, 2, o.balance), cleave::infeasible_error);
  auto const p = partition_exact(g, 2, o);
  REQUIRE(p.proved);
  REQUIRE(p.of[0] == p.of[2]);
  o.balance.memory = 5;
  REQUIRE(error_text([&] {
            partition_exact(g, 2, o);
          }).starts_with("no partition meets the limits in any topological order: "));
  o.balance.memory = 6;
  o.most_ideals = 1;
  o.most_steps = 9;
  REQUIRE(error_text([&] {
            partition_exact(g, 2, o);
          }).find("; the search for other partitions was incomplete: ") != std::string::npos);
}

TEST_CASE("partition_exact: rejects invalid options and explains why") {
  auto const g = chain({1, 2, 3}, 1);
  auto const text = [&](exact_balance_options const& o) {
    return error_text([&] { partition_exact(g, 2, o); });
  };
  REQUIRE(error_text([&] { partition_exact(g, 0); }) == "partition_exact: k is 0; pass at least 1");
  REQUIRE(text({.balance = {.link = {1, 0}}}) ==
          "partition_exact: the links of parts 0 and 1 differ, but the search supports only one link for all "
          "parts: model a host that pays for no transfers as a spare device");
  REQUIRE(text({.spare = {{{1, 1, 1}}}}) ==
          "partition_exact: spare devices require a free device order: set devices to device_order::any");
  auto const any = cleave::device_order::any;
  REQUIRE(text({.spare = {{{1, 1}}}, .devices = any}) ==
          "partition_exact: spare device 0 has 2 weights, but the graph has 3 nodes");
  REQUIRE(text({.spare = {{{1, -1, 1}}}, .devices = any}) ==
          "partition_exact: the weight of node #1 on spare device 0 is -1.000000: expected a finite number "
          "of at least 0");
  double const huge = std::numeric_limits<double>::max();
  REQUIRE(text({.spare = {{{huge, huge, huge}}}, .devices = any}) ==
          "the sum of the weights on a spare device overflows at node #1: use smaller weights");
  REQUIRE(text({.balance = {.fixed = {part_id{0}, no_part, no_part}}, .devices = any}) ==
          "partition_exact: node #0 is fixed to part 0, which requires a given device order: set devices to "
          "device_order::given");
  REQUIRE(text({.balance = {.fixed = {part_id{0}, no_part, no_part}},
                .loose = cleave::unrestricted_nodes::mirrored}) ==
          "partition_exact: node #0 is fixed to part 0, which conflicts with mirrored loose nodes: set loose "
          "to unrestricted_nodes::anywhere");
  REQUIRE(text({.seconds = -1}) == "partition_exact: seconds is -1.000000: expected a number of at least 0");
}
