// SPDX-License-Identifier: MIT
#include "cleave/partition/slices/balance.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "cleave/partition/exact/slice_weights.hpp"
#include "cleave/partition/model/validity.hpp"
#include "support/brute_force.hpp"
#include "support/cases.hpp"
#include "support/error_text.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/small_stack.hpp"
#include "support/snapshot_builder.hpp"

namespace {

using cleave::balance;
using cleave::balance_options;
using cleave::no_part;
using cleave::part_id;
using cleave::testing::error_text;
using cleave::testing::small_graph;
using cleave::testing::snapshot_builder;

std::vector<small_graph::set> unit_sets(cleave::unit_graph<std::uint32_t> const& u) {
  std::vector<small_graph::set> sets(u.size());
  for (std::size_t unit = 0; unit < u.size(); ++unit)
    for (auto const n : u.members[unit]) sets[unit] |= small_graph::set{1} << n;
  return sets;
}

/// The orders that `balance` tries without pins, as sets of nodes.
std::vector<std::vector<small_graph::set>> orders_of(cleave::snapshot_arrays const& g,
                                                     balance_options const& o) {
  auto const u = cleave::detail::units_of(g, {.together = o.together, .backward = o.backward});
  auto const edges = cleave::detail::mirrored_backward_edges<std::uint32_t>(g, u, o.backward);
  auto const units = unit_sets(u);
  std::vector<std::uint32_t> rank(u.size());
  for (std::uint32_t i = 0; i < rank.size(); ++i) rank[i] = i;
  std::vector<std::vector<small_graph::set>> orders;
  auto const list = [&](auto const& predecessors, auto const& successors) {
    for (auto const how : o.orders) {
      auto& sets = orders.emplace_back();
      for (auto const unit :
           cleave::detail::ordered_units<std::uint32_t>(predecessors, successors, how, rank))
        sets.push_back(units[unit]);
    }
  };
  list(u.predecessors, u.successors);
  if (!o.backward.empty()) list(edges.predecessors, edges.successors);
  return orders;
}

/// Checks that the partition's fields are consistent.
void check_consistent(cleave::snapshot_arrays const& g, std::uint32_t k, balance_options const& o,
                      cleave::balanced_partition const& p) {
  auto const units = cleave::detail::units_of(g, {.together = o.together, .backward = o.backward}).size();
  if (o.empty == cleave::empty_parts::forbidden) {
    REQUIRE(p.parts == (units == 0 ? g.nodes() > 0 : std::min<std::size_t>(k, units)));
    if (units > 0) REQUIRE(!cleave::detail::find_empty_part(p));
  }
  REQUIRE(!cleave::detail::find_unassigned_node(g, p));
  REQUIRE(!cleave::detail::find_split_group(g, p));
  REQUIRE(!cleave::find_overfull_part(g, p, p.parts == k ? o.memory : cleave::per_part<std::size_t>{},
                                      o.node_memory));
  if (o.backward.empty()) REQUIRE(!cleave::detail::find_backward_edge(g, p));
  for (std::size_t n = 0; n < o.fixed.size(); ++n)
    if (o.fixed[n] != no_part && !g.replicable[n]) REQUIRE(p.of[n] == o.fixed[n]);
  std::vector<double> speed, link;
  for (std::uint32_t i = 0; i < p.parts; ++i) {
    speed.push_back(o.speed.empty() ? 1 : o.speed[i]);
    link.push_back(o.link.empty() ? 1 : o.link[i]);
  }
  auto const loads = cleave::part_loads(g, p, {o.cost_per_byte, speed, link});
  REQUIRE(loads.size() == p.loads.size());
  for (std::size_t i = 0; i < loads.size(); ++i)
    REQUIRE(std::abs(loads[i] - p.loads[i]) <= 1e-9 * (1 + loads[i]));
  REQUIRE(p.bottleneck == (p.parts == 0 ? 0 : *std::max_element(p.loads.begin(), p.loads.end())));
  REQUIRE(p.unsized == cleave::detail::unsized_cut_values(g, p));
}

/// Checks bound <= best assignment of units <= best one without backward edges <= result, and that the result
/// equals the best slices of the tried orders.
void check_against_brute_force(cleave::snapshot_arrays const& g, std::uint32_t k, balance_options o,
                               bool exact_orders = true) {
  if (exact_orders) o.random_orders = 0;
  small_graph const all(g, o);
  auto const units = cleave::detail::units_of(g, {.together = o.together, .backward = o.backward});
  auto const stages = o.empty == cleave::empty_parts::allowed ? k : std::min<std::size_t>(k, units.size());
  double least = small_graph::impossible;
  if (exact_orders)
    for (auto const& order : orders_of(g, o)) least = std::min(least, all.best_slices(stages, order));
  try {
    auto const p = balance(g, k, o);
    check_consistent(g, k, o, p);
    if (exact_orders) REQUIRE(p.bottleneck == doctest::Approx(least).epsilon(1e-9));
    double const ascending = all.best_ascending(stages);
    REQUIRE(ascending <= p.bottleneck * (1 + 1e-9));
    REQUIRE(p.bound <= all.best_of_any(stages, unit_sets(units)) * (1 + 1e-9));
    REQUIRE(p.gap() >= 0);
  } catch (cleave::infeasible_error const& e) {
    INFO(e.what());
    REQUIRE(least == small_graph::impossible);
    if (!exact_orders && o.memory.empty() && o.empty == cleave::empty_parts::allowed)
      REQUIRE(all.best_ascending(stages) == small_graph::impossible);
  }
}

cleave::snapshot_arrays graph_of_bits(std::size_t nodes, std::uint32_t bits,
                                      std::vector<double> const& weight,
                                      std::vector<std::size_t> const& bytes) {
  snapshot_builder b;
  std::vector<std::uint32_t> made;
  for (std::size_t n = 0; n < nodes; ++n) {
    std::vector<std::uint32_t> operands;
    for (std::size_t m = 0; m < n; ++m, bits >>= 1)
      if (bits & 1) operands.push_back(made[m]);
    made.push_back(b.node(weight[n], operands, bytes[n]));
  }
  return b.build();
}

cleave::snapshot_arrays chain(std::size_t nodes, double weight, std::size_t bytes) {
  snapshot_builder b;
  std::vector<std::uint32_t> last;
  for (std::size_t n = 0; n < nodes; ++n) last = {b.node(weight, last, bytes)};
  return b.build();
}

struct weightless {
  std::vector<int> const& nodes() const;
  std::vector<int> const& operands(int n) const;
  std::size_t bytes(int) const;
};
static_assert(cleave::sized_graph<weightless>);
template <class Graph>
concept balanceable = requires(Graph const& g) { balance(g, 2); };

}  // namespace

TEST_CASE("balance: graphs of up to 5 nodes get the best slices of the tried orders and a valid bound") {
  struct costs {
    std::vector<double> weight;
    std::vector<std::size_t> bytes;
  };
  for (auto const& c : {costs{{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}}, costs{{5, 0, 3, 8, 2}, {2, 7, 0, 1, 4}},
                        costs{{0.5, 0.25, 4, 0.125, 1}, {9, 1, 30, 2, 5}}})
    for (std::size_t nodes = 0; nodes <= 5; ++nodes)
      for (std::size_t bits = 0; bits < 1u << nodes * (nodes - (nodes > 0)) / 2;
           bits += nodes == 5 ? cleave::testing::cases(31, 1) : 1) {
        auto const g = graph_of_bits(nodes, static_cast<std::uint32_t>(bits), c.weight, c.bytes);
        for (std::uint32_t k = 1; k <= 3; ++k) check_against_brute_force(g, k, {});
      }
}

TEST_CASE("balance: random graphs with groups, order edges and replicable nodes match the brute force") {
  cleave::testing::rng r(1);
  for (std::size_t i = 0; i < cleave::testing::cases(100, 400); ++i) {
    auto const g = random_graph(
        r,
        {.nodes = 1 + r.below(i % 10 == 0 ? 12 : 9), .states = 2, .replicable = 6, .tied = 6, .ordered = 6});
    balance_options o;
    o.cost_per_byte = r.one_in(3) ? 0.25 : 1;
    if (r.one_in(3)) o.empty = cleave::empty_parts::allowed;
    if (r.one_in(3)) o.together.push_back({r.below(g.nodes()), r.below(g.nodes())});
    std::erase_if(o.together, [&](auto const& set) { return g.replicable[set[0]] || g.replicable[set[1]]; });
    check_against_brute_force(g, static_cast<std::uint32_t>(1 + r.below(5)), o);
  }
}

TEST_CASE("balance: memory limits, unequal speeds and links match the brute force") {
  cleave::testing::rng r(2);
  for (std::size_t i = 0; i < cleave::testing::cases(100, 400); ++i) {
    auto const g = random_graph(r, {.nodes = 1 + r.below(9), .states = 6, .replicable = 5});
    auto const k = 1 + r.below(4);
    balance_options o;
    if (r.one_in(3)) o.empty = cleave::empty_parts::allowed;
    if (r.one_in(2)) {
      std::vector<double> speed;
      for (std::size_t s = 0; s < k; ++s) speed.push_back(static_cast<double>(std::size_t{1} << r.below(3)));
      o.speed = speed;
      std::vector<double> link;
      for (std::size_t s = 0; s < k; ++s) link.push_back(static_cast<double>(r.below(3)) / 2);
      if (r.one_in(2)) o.link = link;
    }
    if (r.one_in(2)) {
      o.memory = 5 + r.below(30);
    } else {
      std::vector<std::size_t> memory;
      for (std::size_t s = 0; s < k; ++s) memory.push_back(r.below(40));
      o.memory = memory;
    }
    if (r.one_in(2))
      for (std::size_t n = 0; n < g.nodes(); ++n) o.node_memory.push_back(r.below(5));
    check_against_brute_force(g, static_cast<std::uint32_t>(k), o);
  }
}

TEST_CASE("balance: backward nodes, grouped or free, match the brute force") {
  cleave::testing::rng r(3);
  for (std::size_t i = 0; i < cleave::testing::cases(100, 400); ++i) {
    auto const g = random_graph(r, {.nodes = 2 + r.below(9)});
    balance_options o;
    o.backward.assign(g.nodes(), 0);
    for (std::size_t n = 1; n < g.nodes(); ++n) {
      if (!r.one_in(2)) continue;
      o.backward[n] = 1;
      if (r.one_in(2)) o.together.push_back({r.below(n), n});
    }
    check_against_brute_force(g, static_cast<std::uint32_t>(1 + r.below(4)), o);
  }
}

TEST_CASE("balance: pinned nodes are in their parts, and the result never beats the brute force") {
  cleave::testing::rng r(4);
  std::size_t met = 0;
  auto const rounds = cleave::testing::cases(100, 400);
  for (std::size_t i = 0; i < rounds; ++i) {
    auto const g = random_graph(r, {.nodes = 2 + r.below(8), .replicable = 8, .tied = 8});
    auto const k = static_cast<std::uint32_t>(1 + r.below(4));
    balance_options o;
    o.empty = r.one_in(2) ? cleave::empty_parts::allowed : cleave::empty_parts::forbidden;
    o.fixed.assign(g.nodes(), no_part);
    for (auto& pin : o.fixed)
      if (r.one_in(4)) pin = part_id{static_cast<std::uint32_t>(r.below(k))};
    check_against_brute_force(g, k, o, false);
    met += error_text([&] { balance(g, k, o); }) == "accepted";
  }
  CHECK(met > rounds / 8);
}

TEST_CASE("balance: pins decide the order of independent nodes") {
  snapshot_builder b;
  for (int i = 0; i < 3; ++i) b.node(1);
  balance_options o;
  o.fixed = {part_id{2}, part_id{0}, part_id{1}};
  for (auto const how : {cleave::unit_order::given, cleave::unit_order::breadth_first,
                         cleave::unit_order::depth_first, cleave::unit_order::on_demand}) {
    o.orders = {how};
    CHECK(balance(b.build(), 3, o).of == o.fixed);
  }
}

TEST_CASE("balance: slices of 20 to 70 nodes equal a quadratic dynamic program") {
  cleave::testing::rng r(5);
  for (std::size_t i = 0; i < cleave::testing::cases(15, 60); ++i) {
    auto const g = random_graph(r, {.nodes = 20 + r.below(50),
                                    .reach = r.one_in(2) ? 6u : 0u,
                                    .most_weight = 1 + r.below(99),
                                    .most_bytes = 1 + r.below(300)});
    auto const k = static_cast<std::uint32_t>(2 + r.below(9));
    balance_options const o{.orders = {cleave::unit_order::given}, .random_orders = 0};
    auto const n = g.nodes();
    // cost[i][j]: of nodes i … j-1, by adding nodes one at a time
    std::vector<std::vector<double>> cost(n + 1, std::vector<double>(n + 1));
    for (std::size_t begin = 0; begin < n; ++begin)
      for (std::size_t end = begin + 1; end <= n; ++end) {
        cleave::partition p{std::vector<part_id>(n, part_id{1}), 2};
        for (std::size_t m = begin; m < end; ++m) p.of[m] = part_id{0};
        double sum = 0;
        for (std::size_t m = begin; m < end; ++m) sum += g.weight[m];
        for (std::size_t v = 0; v < g.values(); ++v) {
          if (g.producer[v] == cleave::none<std::uint32_t>) continue;
          bool in = false, out = false;
          auto const look = [&](std::size_t m) { (m >= begin && m < end ? in : out) = true; };
          look(g.producer[v]);
          for (auto const m : g.users[v]) look(m);
          sum += in && out ? static_cast<double>(g.bytes[v]) : 0;
        }
        cost[begin][end] = sum;
      }
    std::vector<double> least(n + 1, small_graph::impossible);
    least[0] = 0;
    for (std::uint32_t s = 0; s < k; ++s) {
      std::vector<double> next(n + 1, small_graph::impossible);
      for (std::size_t begin = 0; begin < n; ++begin)
        for (std::size_t end = begin + 1; end <= n; ++end)
          next[end] = std::min(next[end], std::max(least[begin], cost[begin][end]));
      least = next;
    }
    auto const p = balance(g, k, o);
    check_consistent(g, k, o, p);
    CHECK(p.bottleneck == least[n]);
  }
}

TEST_CASE("balance: spreads equal nodes of a chain evenly") {
  auto const p = balance(chain(12, 2, 0), 4);
  CHECK(p.loads == std::vector<double>{6, 6, 6, 6});
  CHECK(p.gap() == 0);
  CHECK(p.unsized == 3);
}

TEST_CASE("balance: a chain without transfers equals slice_weights") {
  cleave::testing::rng r(27);
  for (std::size_t i = 0; i < cleave::testing::cases(40, 100); ++i) {
    snapshot_builder b;
    std::vector<double> weights;
    std::vector<std::uint32_t> last;
    for (std::size_t n = 0, count = 1 + r.below(200); n < count; ++n) {
      weights.push_back(static_cast<double>(r.below(1000)));
      last.assign(1, b.node(weights.back(), last));
    }
    auto const k = static_cast<std::uint32_t>(1 + r.below(20));
    auto const p = balance(b.build(), k, {.cost_per_byte = 0});
    CHECK(p.bottleneck == cleave::slice_weights<double>(weights, k).largest);
  }
}

TEST_CASE("balance: a value that two later stages read costs each of the three stages once") {
  snapshot_builder b;
  auto const x = b.node(10, {}, 3);
  auto const y = b.node(10, {x}, 1);
  b.node(10, {x, y});
  b.node(0, {x});
  auto const p = balance(b.build(), 3);
  CHECK(p.loads == std::vector<double>{13, 14, 14});
}

TEST_CASE("balance: uses fewer than k parts if that is cheaper and empty parts are allowed") {
  auto const g = chain(8, 1, 100);
  CHECK(balance(g, 4).bottleneck > 100);
  auto const p = balance(g, 4, {.empty = cleave::empty_parts::allowed});
  CHECK(p.parts == 1);
  CHECK(p.loads == std::vector<double>{8});
  auto const fast = balance(g, 2, {.speed = {1, 4}, .empty = cleave::empty_parts::allowed});
  CHECK(fast.parts == 2);
  CHECK(fast.loads == std::vector<double>{0, 2});
}

TEST_CASE("balance: the bound includes transfers that a stage cannot avoid") {
  snapshot_builder b;  // a light node between two heavy ones, bound to them by large values
  auto const x = b.node(50, {}, 1000);
  auto const y = b.node(1, {x}, 1000);
  b.node(50, {y});
  for (int i = 0; i < 5; ++i) b.node(1);
  auto const p = balance(b.build(), 6);
  CHECK(p.bottleneck == 101);
  CHECK(p.bound == 101);
  CHECK(p.gap() == 0);
}

TEST_CASE("balance: accepts no nodes, one node, zero weights and only replicable nodes") {
  auto const empty = balance(snapshot_builder{}.build(), 3);
  CHECK(empty.parts == 0);
  CHECK(empty.bottleneck == 0);
  CHECK(empty.gap() == 0);
  auto const one = balance(chain(1, 7, 5), 3);
  CHECK(one.parts == 1);
  CHECK(one.bottleneck == 7);
  auto const weightless = balance(chain(5, 0, 0), 3);
  CHECK(weightless.parts == 3);
  CHECK(weightless.bottleneck == 0);
  snapshot_builder copied;
  copied.node(1);
  copied.replicable();
  CHECK(balance(copied.build(), 2).parts == 1);
}

TEST_CASE("balance: nodes on a cycle through a group become one unit") {
  snapshot_builder b;
  auto const x = b.node(1, {}, 1);
  auto const y = b.node(1, {x}, 1);
  auto const z = b.node(1, {y}, 1);
  b.node(1, {z});
  b.together(0, 2);
  auto const p = balance(b.build(), 4);
  CHECK(p.parts == 2);
  CHECK(p.of == std::vector{part_id{0}, part_id{0}, part_id{0}, part_id{1}});
}

TEST_CASE("balance: rejects invalid numbers and names the node or the option") {
  snapshot_builder b;
  b.node(1);
  b.name("conv1");
  auto g = b.build();
  CHECK(error_text([&] { balance(g, 0); }) == "balance: k is 0; pass at least 1");
  auto const with_weight = [&](double w) {
    g.weight[0] = w;
    return error_text([&] { balance(g, 1); });
  };
  CHECK(with_weight(-1).find("weight of node conv1 (#0) is -1") != std::string::npos);
  CHECK(with_weight(std::nan("")).find("conv1 (#0)") != std::string::npos);
  CHECK(with_weight(std::numeric_limits<double>::infinity()).find("conv1 (#0)") != std::string::npos);
  CHECK(with_weight(1) == "accepted");
  g.weight.clear();
  CHECK(error_text([&] { balance(g, 1); }).find("the graph has no node weights") != std::string::npos);
  auto unsized = chain(3, 1, 1);
  unsized.bytes.push_back(1);
  CHECK(error_text([&] { balance(unsized, 1); }) ==
        "balance: bytes has 4 entries, but the graph has 3 values");
  auto const heavy = chain(3, std::numeric_limits<double>::max(), 1);
  CHECK(error_text([&] { balance(heavy, 2); }).find("summed up to node #1") != std::string::npos);
  auto const pair = chain(2, 1, 1);
  CHECK(error_text([&] { balance(pair, 1, {.link = -1}); }).find("link of part 0") != std::string::npos);
  CHECK(error_text([&] { balance(pair, 2, {.link = {1, 1, 1}}); }).find("3 links are given for 2 parts") !=
        std::string::npos);
  for (double const speed : {0.0, -1.0, std::nan("")})
    CHECK(error_text([&] { balance(pair, 1, {.speed = speed}); }).find("speed of part 0") !=
          std::string::npos);
  CHECK(error_text([&] { balance(pair, 2, {.speed = {1, 1, 1}}); }).find("3 speeds are given for 2 parts") !=
        std::string::npos);
  CHECK(error_text([&] { balance(pair, 2, {.cost_per_byte = -1}); }).find("cost_per_byte") !=
        std::string::npos);
  CHECK(error_text([&] {
          balance(pair, 2, {.fixed = {part_id{2}, no_part}});
        }).find("is fixed to part 2, but there are only 2 parts") != std::string::npos);
  CHECK(error_text([&] { balance(pair, 2, {.together = {{0, 2}}}); }).find("#2") != std::string::npos);
  balance_options far{.fixed = {part_id{70'000}, no_part}, .empty = cleave::empty_parts::allowed};
  CHECK(balance(pair, 70'001, {}).parts == 2);
  CHECK(error_text([&] { balance(pair, 70'001, far); }) ==
        "balance: 70001 parts are requested, but the graph has only 2 nodes; request fewer parts");
  CHECK(error_text([&] { balance(pair, 2, {.orders = {}, .random_orders = 0}); }).find("order") !=
        std::string::npos);
  balance_options huge{.memory = 1};
  huge.node_memory.assign(2, std::numeric_limits<std::size_t>::max());
  CHECK(error_text([&] { balance(pair, 2, huge); }).find("the sum of bytes up to node #1 exceeds ") !=
        std::string::npos);
}

TEST_CASE("balance: rejects a unit whose weight overflows, at any speed") {
  auto const g = chain(3, std::numeric_limits<double>::max(), 1);
  CHECK(error_text([&] {
          balance(g, 2, {.speed = 1e10, .together = {{0, 1}}});
        }).find("the weights, summed up to node #1") != std::string::npos);
}

TEST_CASE("balance: companions of a value close no cycle between parts") {
  struct accompanied {
    std::vector<int> all{0, 1, 2, 3};
    std::vector<int> const& nodes() const { return all; }
    static std::vector<int> operands(int n) { return n == 0 ? std::vector<int>{} : std::vector<int>{n - 1}; }
    static std::vector<int> companions(int v) { return v == 0 ? std::vector<int>{2} : std::vector<int>{}; }
    static double weight(int) { return 10; }
    static std::size_t bytes(int) { return 1; }
  };
  auto const s = cleave::snapshot_of(accompanied{});
  auto const p = balance(s, 4);
  CHECK(p.parts == 3);
  CHECK(p.of[1] == p.of[2]);  // node 1 reads value 0, whose companion is value 2
  CHECK(!cleave::detail::find_cycle_between_parts(s, p));
}

TEST_CASE("balance: backward nodes may precede their operands if nothing else fits") {
  snapshot_builder b;
  auto const x = b.node(1, {b.state(10)});
  b.node(1, {x});
  auto const g = b.build();
  balance_options const o{.memory = {0, 10}, .backward = {0, 1}};
  CHECK(balance(g, 2, o).of == std::vector{part_id{1}, part_id{0}});
}

TEST_CASE("balance: tries random orders alone if no other order is given") {
  CHECK(balance(chain(100, 1, 0), 4, {.orders = {}, .random_orders = 1}).bottleneck == 25);
}

TEST_CASE("balance: tries one random order of more than a million units if no other order is given" *
          doctest::skip(!cleave::testing::all_cases())) {
  CHECK(balance(chain(1'000'001, 1, 0), 1, {.orders = {}}).parts == 1);
}

TEST_CASE("balance: names the node that no part can hold or whose pin contradicts another") {
  snapshot_builder b;
  auto const w = b.state(300);
  auto const x = b.node(1, {b.state(100)});
  auto const y = b.node(1, {x, b.state(100)});
  b.node(1, {y, w});
  b.name("head");
  auto const g = b.build();
  auto const refusal = [&](std::uint32_t k, balance_options const& o) {
    CHECK_THROWS_AS(balance(g, k, o), cleave::infeasible_error);
    return error_text([&] { balance(g, k, o); });
  };
  CHECK(refusal(2, {.memory = 250})
            .find("node head (#2) needs 300 bytes, but the largest memory limit of a part is 250 bytes") !=
        std::string::npos);
  CHECK(refusal(2, {.memory = {300, 200}}).find("part 0 cannot hold node head (#2)") == std::string::npos);
  CHECK(refusal(1, {.memory = 450}) ==
        "part 0 cannot hold node head (#2) in addition to the nodes before it: its limit is 450 bytes, and "
        "all nodes together need 500 bytes");
  CHECK(refusal(2, {.memory = {300, 200}, .fixed = {no_part, no_part, part_id{1}}})
            .find("part 1, to which it is fixed, has a limit of 200 bytes") != std::string::npos);
  CHECK(refusal(2, {.fixed = {part_id{1}, part_id{0}, no_part}})
            .find("node #1 is fixed to part 0 and depends on node #0, which is fixed to the later part 1") !=
        std::string::npos);
  CHECK(refusal(2, {.together = {{0, 1}}, .fixed = {part_id{1}, part_id{0}, no_part}})
            .find("must share the part of node #0") != std::string::npos);
  CHECK(refusal(4, {.together = {{0, 1}}, .fixed = {no_part, no_part, part_id{3}}})
            .find("allow only 2 parts") != std::string::npos);
  CHECK(balance(g, 2, {.memory = {200, 300}}).of == std::vector{part_id{0}, part_id{0}, part_id{1}});
}

TEST_CASE("balance: costs above 2^60 and below 1 keep their ratios") {
  snapshot_builder b;
  std::vector<std::uint32_t> last;
  for (double const w : {3e200, 1e200, 1e200, 1e200}) last = {b.node(w, last, 1)};
  CHECK(balance(b.build(), 2).loads == std::vector<double>{3e200, 1e200 * 3});
  auto const tiny = balance(chain(6, 1e-30, 0), 3);
  CHECK(tiny.loads[0] == doctest::Approx(2e-30));
}

TEST_CASE("balance: several orders give the best result of the single orders") {
  cleave::testing::rng r(6);
  for (int i = 0; i < 20; ++i) {
    auto const g = random_graph(r, {.nodes = 40, .reach = 12, .most_weight = 50, .most_bytes = 60});
    auto const together = balance(g, 4, {.random_orders = 0});
    double best = std::numeric_limits<double>::infinity();
    for (auto const how : balance_options{}.orders)
      best = std::min(best, balance(g, 4, {.orders = {how}, .random_orders = 0}).bottleneck);
    CHECK(together.bottleneck == best);
  }
}

TEST_CASE("balance: handles a chain of many nodes with groups on a small stack") {
  snapshot_builder b;
  std::vector<std::uint32_t> last;
  double sum = 0;
  for (std::size_t n = 0; n < cleave::testing::cases(50'000, 1'000'000); ++n) {
    auto const w = static_cast<double>(1 + n % 7);
    sum += w;
    last = {b.node(w, last, static_cast<std::size_t>(1 + n % 5))};
    if (n % 1000 == 999) b.together(static_cast<std::uint32_t>(n - 2), static_cast<std::uint32_t>(n));
  }
  auto const g = b.build();
  cleave::testing::on_small_stack([&] {
    auto const p = balance(g, 8);
    CHECK(p.parts == 8);
    CHECK(p.bottleneck >= sum / 8);
    CHECK(p.bottleneck < sum / 8 + 10);
    CHECK(p.bound <= p.bottleneck);
    CHECK(!cleave::detail::find_backward_edge(g, p));
  });
}

TEST_CASE("balance: handles a value that very many nodes read") {
  snapshot_builder b;
  auto const x = b.node(1, {}, 3);
  std::vector<std::uint32_t> all;
  auto const readers = cleave::testing::cases(50'000, 200'000);
  for (std::size_t n = 0; n < readers; ++n) all.push_back(b.node(1, {x}, 0));
  b.node(1, all);
  auto const p = balance(b.build(), 4, {.random_orders = cleave::testing::cases(6, 64)});
  CHECK(p.bottleneck <= static_cast<double>(readers + 2) / 4 + 4);
  CHECK(p.bottleneck >= p.bound);
}

TEST_CASE("balance: equal graphs give equal parts, with 32-bit and 64-bit indices") {
  cleave::testing::rng r(7);
  for (int i = 0; i < 10; ++i) {
    auto const seed = r.next();
    cleave::testing::rng one(seed), two(seed);
    auto const g =
        random_graph(one, {.nodes = 80, .reach = 20, .most_weight = 1000, .most_bytes = 500, .states = 3});
    auto const h =
        random_graph(two, {.nodes = 80, .reach = 20, .most_weight = 1000, .most_bytes = 500, .states = 3});
    auto const p = balance(g, 5, {.memory = 2000}), q = balance(h, 5, {.memory = 2000});
    CHECK(p.of == q.of);
    CHECK(p.bottleneck == q.bottleneck);
    CHECK(p.order == q.order);
  }
  cleave::testing::basic_snapshot_builder<std::uint64_t> wide;
  snapshot_builder narrow;
  std::vector<std::uint64_t> last_wide;
  std::vector<std::uint32_t> last_narrow;
  for (int n = 0; n < 50; ++n) {
    last_wide = {wide.node(n % 7, last_wide, 3)};
    last_narrow = {narrow.node(n % 7, last_narrow, 3)};
  }
  CHECK(balance(wide.build(), 4).of == balance(narrow.build(), 4).of);
}

TEST_CASE("balance: the result for a seed is the same with every compiler and standard library") {
  std::uint64_t digest = 0xcbf29ce484222325u;  // FNV-1a
  auto const count = [&](std::uint64_t x) { digest = (digest ^ x) * 0x100000001b3u; };
  auto r = cleave::testing::rng::recorded(10);
  for (int i = 0; i < 20; ++i) {
    auto const g = random_graph(r, {.nodes = 60, .most_weight = 100, .most_bytes = 200, .states = 3});
    auto const p = balance(g, 5, {.cost_per_byte = 0.3, .speed = {1, 3, 1, 0.7, 1}, .seed = r.next()});
    for (auto const part : p.of) count(index(part));
    count(std::bit_cast<std::uint64_t>(p.bottleneck));
    count(std::bit_cast<std::uint64_t>(p.bound));
  }
  CHECK(digest == 3495785143738592211u);
}

TEST_CASE("balance: scaling weights and bytes by one factor scales the result and nothing else") {
  cleave::testing::rng r(8);
  for (int i = 0; i < 20; ++i) {
    auto g = random_graph(r, {.nodes = 30, .reach = 10, .most_weight = 100, .most_bytes = 100});
    auto const p = balance(g, 4);
    for (auto& w : g.weight) w *= 0.125;
    auto const q = balance(g, 4, {.cost_per_byte = 0.125});
    CHECK(q.of == p.of);
    CHECK(q.bottleneck == p.bottleneck * 0.125);
    CHECK(q.bound == p.bound * 0.125);
  }
}

TEST_CASE("balance: random orders never make it worse, and a seed repeats") {
  cleave::testing::rng r(9);
  bool better = false;
  for (std::size_t i = 0; i < cleave::testing::cases(7, 20); ++i) {
    auto const g = random_graph(r, {.nodes = 60, .most_weight = 100, .most_bytes = 200});
    auto const plain = balance(g, 6, {.random_orders = 0});
    auto const more = balance(g, 6, {.random_orders = 60, .seed = 3});
    CHECK(more.bottleneck <= plain.bottleneck);
    better |= more.bottleneck < plain.bottleneck;
    CHECK(more.order == (more.bottleneck < plain.bottleneck ? cleave::unit_order::random : plain.order));
    CHECK(more.of == balance(g, 6, {.random_orders = 60, .seed = 3}).of);
  }
  CHECK(better);
}

TEST_CASE("balance: the rank decides the order of independent nodes") {
  snapshot_builder b;
  b.node(1);
  b.node(2);
  balance_options o{.rank = {1, 0}, .orders = {cleave::unit_order::given}, .random_orders = 0};
  CHECK(balance(b.build(), 2, o).of == std::vector{part_id{1}, part_id{0}});
}

TEST_CASE("balance: accepts a user's graph with weights and rejects too narrow indices") {
  struct squares {
    std::vector<int> all{0, 1, 2, 3, 4, 5};
    std::vector<int> const& nodes() const { return all; }
    static std::vector<int> operands(int n) { return n == 0 ? std::vector<int>{} : std::vector<int>{n - 1}; }
    static double weight(int n) { return n * n; }
    static std::size_t bytes(int) { return 1; }
  };
  auto const p = balance(squares{}, 2);
  CHECK(p.loads == std::vector<double>{31, 26});
  CHECK(p.of[4] == part_id{0});
  CHECK(balance<std::uint64_t>(squares{}, 2).of == p.of);
  squares many;
  for (int n = 6; n < 300; ++n) many.all.push_back(n);
  CHECK_THROWS_AS(balance<std::uint8_t>(many, 2), cleave::index_overflow);
  static_assert(!balanceable<weightless>);
}
