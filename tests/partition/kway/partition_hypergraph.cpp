// SPDX-License-Identifier: MIT
#include "cleave/partition/kway/partition_hypergraph.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/hypergraph.hpp"
#include "cleave/partition/kway/hypergraph_cut.hpp"
#include "cleave/partition/kway/hypergraph_options.hpp"
#include "cleave/partition/kway/options.hpp"
#include "support/cases.hpp"
#include "support/rng.hpp"

namespace {

using namespace cleave;

hypergraph<std::uint32_t> random_hypergraph(testing::rng& r, std::size_t nodes, std::size_t nets,
                                            bool weighted) {
  hypergraph<std::uint32_t> h;
  h.nodes = nodes;
  for (std::size_t e = 0; e < nets; ++e) {
    for (auto pins = 1 + r.below(5); pins > 0; --pins)
      h.pins.push_back(static_cast<std::uint32_t>(r.below(nodes)));
    h.offsets.push_back(static_cast<std::uint32_t>(h.pins.size()));
    if (weighted) h.net_weight.push_back(static_cast<std::int64_t>(r.below(6)));
  }
  for (std::size_t n = 0; n < nodes && weighted; ++n)
    h.node_weight.push_back(1 + static_cast<std::int64_t>(r.below(3)));
  return h;
}

/// Nets among near nodes of a line, and a few nets anywhere.
hypergraph<std::uint32_t> netlist(testing::rng& r, std::size_t nodes) {
  hypergraph<std::uint32_t> h;
  h.nodes = nodes;
  for (std::size_t e = 0; e < nodes; ++e) {
    auto const span = r.one_in(50) ? nodes : std::size_t{12};
    for (auto pins = 2 + r.below(4); pins > 0; --pins)
      h.pins.push_back(static_cast<std::uint32_t>((e + r.below(span)) % nodes));
    h.offsets.push_back(static_cast<std::uint32_t>(h.pins.size()));
  }
  return h;
}

/// What the nets cost, net by net with a set of parts.
hypergraph_cut<std::int64_t> naive_cut(hypergraph<std::uint32_t> const& h, partition const& p) {
  hypergraph_cut<std::int64_t> cut;
  for (std::size_t e = 0; e + 1 < h.offsets.size(); ++e) {
    std::set<std::uint32_t> parts;
    for (auto at = h.offsets[e]; at < h.offsets[e + 1]; ++at) parts.insert(index(p.of[h.pins[at]]));
    if (parts.size() < 2) continue;
    auto const w = h.net_weight.empty() ? 1 : h.net_weight[e];
    cut.connectivity += w * static_cast<std::int64_t>(parts.size() - 1);
    cut.cut_net_weight += w;
    ++cut.cut_nets;
  }
  return cut;
}

std::int64_t objective_of(hypergraph_cut<std::int64_t> const& cut, hypergraph_objective objective) {
  return objective == hypergraph_objective::connectivity ? cut.connectivity : cut.cut_net_weight;
}

/// The least objective of all partitions without empty parts whose parts weigh at most `limit`; -1 if there
/// is none.
std::int64_t least_objective(hypergraph<std::uint32_t> const& h, std::uint32_t k, std::int64_t limit,
                             hypergraph_objective objective) {
  std::int64_t least = -1;
  partition p{.of = std::vector<part_id>(h.nodes), .parts = k};
  auto const all = static_cast<std::size_t>(std::pow(k, h.nodes));
  for (std::size_t code = 0; code < all; ++code) {
    std::vector<std::int64_t> weight(k, 0);
    auto rest = code;
    for (std::size_t n = 0; n < h.nodes; ++n, rest /= k) {
      p.of[n] = part_id{static_cast<std::uint32_t>(rest % k)};
      weight[rest % k] += h.node_weight.empty() ? 1 : h.node_weight[n];
    }
    if (*std::max_element(weight.begin(), weight.end()) > limit) continue;
    if (*std::min_element(weight.begin(), weight.end()) == 0) continue;  // no part may be empty
    auto const cost = objective_of(naive_cut(h, p), objective);
    if (least < 0 || cost < least) least = cost;
  }
  return least;
}

constexpr std::array presets{kway_preset::fast, kway_preset::standard, kway_preset::quality};
constexpr std::array objectives{hypergraph_objective::connectivity, hypergraph_objective::cut_nets};

}  // namespace

TEST_CASE(
    "partition_hypergraph: is never below the optimum of small hypergraphs, and `quality` mostly finds it") {
  testing::rng r(1);
  std::size_t found = 0, tried = 0;
  auto const rounds = testing::cases(14, 40);
  for (std::size_t i = 0; i < rounds; ++i) {
    auto const nodes = 4 + r.below(5), nets = 3 + r.below(12);
    auto const h = random_hypergraph(r, nodes, nets, i % 2 == 1);
    auto const k = static_cast<std::uint32_t>(2 + r.below(2));
    for (auto const objective : objectives) {
      auto const p = partition_hypergraph(
          h.view(), k, {.preset = kway_preset::quality, .objective = objective, .imbalance = 0.5});
      if (!p.within_limits) continue;
      std::int64_t total = 0;
      for (auto const w : p.part_weights) total += w;
      auto const fair = (total + k - 1) / k;
      auto heaviest =
          h.node_weight.empty() ? 1 : *std::max_element(h.node_weight.begin(), h.node_weight.end());
      auto const limit =
          std::max<std::int64_t>(static_cast<std::int64_t>(1.5 * static_cast<double>(fair)), heaviest);
      auto const least = least_objective(h, k, limit, objective);
      auto const cost = objective_of(p.cut, objective);
      REQUIRE(least >= 0);
      CHECK(cost >= least);
      ++tried, found += cost == least;
    }
  }
  CHECK(tried >= rounds * 65 / 40);
  CHECK(found * 10 >= tried * 9);
}

TEST_CASE("measure_cut: counts as a set of parts per net does") {
  testing::rng r(2);
  for (int i = 0; i < 100; ++i) {
    auto const h = random_hypergraph(r, 1 + r.below(30), r.below(40), r.one_in(2));
    partition p{.of = {}, .parts = 1 + static_cast<std::uint32_t>(r.below(6))};
    for (std::size_t n = 0; n < h.nodes; ++n)
      p.of.push_back(part_id{static_cast<std::uint32_t>(r.below(p.parts))});
    CHECK(measure_cut(h.view(), p) == naive_cut(h, p));
  }
}

TEST_CASE("partition_hypergraph: keeps limits, reports what it did and does not depend on threads") {
  testing::rng r(3);
  for (int i = 0; i < 2; ++i) {
    auto const h = i % 2 == 0 ? netlist(r, testing::cases(60, 500))
                              : random_hypergraph(r, testing::cases(40, 250), testing::cases(55, 350), true);
    for (auto const preset : presets)
      for (auto const objective : objectives) {
        auto const k = static_cast<std::uint32_t>(2 + r.below(9));
        hypergraph_options o{.preset = preset, .objective = objective, .seed = r.next()};
        auto const p = partition_hypergraph(h.view(), k, o);
        CHECK(p.within_limits);
        CHECK(p.cut == naive_cut(h, p));
        for (auto const w : p.part_weights) CHECK(w > 0);
        o.threads = 3;
        CHECK(partition_hypergraph(h.view(), k, o).of == p.of);
      }
  }
}

TEST_CASE("partition_hypergraph: finds the groups of a hypergraph that falls apart") {
  testing::rng r(4);
  hypergraph<std::uint32_t> h;
  auto const each = testing::cases(40, 100);
  h.nodes = 4 * each;
  std::vector<std::uint32_t> name(h.nodes);
  for (std::uint32_t n = 0; n < h.nodes; ++n) name[n] = n;
  r.shuffle(name);
  for (std::size_t e = 0; e < 6 * h.nodes; ++e) {
    auto const group = r.below(4);
    for (int pin = 0; pin < 4; ++pin) h.pins.push_back(name[group * each + r.below(each)]);
    h.offsets.push_back(static_cast<std::uint32_t>(h.pins.size()));
  }
  for (auto const preset : presets)
    for (auto const objective : objectives) {
      bool const is_slow = preset == kway_preset::quality && objective == hypergraph_objective::cut_nets;
      if (is_slow && !testing::all_cases()) continue;
      CHECK(partition_hypergraph(h.view(), 4, {.preset = preset, .objective = objective}).cut.cut_nets == 0);
    }
}

TEST_CASE("partition_hypergraph: fixed nodes are in their parts, and shares set the weights") {
  testing::rng r(5);
  auto const h = netlist(r, 600);
  hypergraph_options o{
      .imbalance = 0.05, .share = {3, 1, 2}, .fixed = std::vector<part_id>(h.nodes, no_part)};
  for (int i = 0; i < 60; ++i) o.fixed[r.below(h.nodes)] = part_id{static_cast<std::uint32_t>(r.below(3))};
  for (auto const preset : presets) {
    o.preset = preset;
    auto const p = partition_hypergraph(h.view(), 3, o);
    CHECK(p.within_limits);
    for (std::size_t n = 0; n < h.nodes; ++n)
      if (o.fixed[n] != no_part) REQUIRE(p.of[n] == o.fixed[n]);
    CHECK(p.part_weights[0] <= 315);
    CHECK(p.part_weights[1] <= 105);
    CHECK(p.part_weights[2] <= 210);
  }
}

TEST_CASE(
    "partition_hypergraph: accepts hypergraphs without nets or nodes, and nets with repeated pins or none") {
  for (auto const preset : presets) {
    hypergraph<std::uint32_t> h;
    CHECK(partition_hypergraph(h.view(), 3, {.preset = preset}).of.empty());
    h.nodes = 7;
    auto const apart = partition_hypergraph(h.view(), 3, {.preset = preset});
    CHECK(apart.within_limits);
    CHECK(apart.cut.connectivity == 0);
    h.pins = {2, 2, 2, 5, 0, 1, 2, 3, 4, 5, 6},
    h.offsets = {0, 3, 3, 4, 11};  // one pin thrice, none, one, all
    auto const p = partition_hypergraph(h.view(), 7, {.preset = preset});
    CHECK(p.cut.cut_nets == 1);
    CHECK(p.cut.connectivity == 6);
    CHECK(partition_hypergraph(h.view(), 1, {.preset = preset}).cut.cut_nets == 0);
    auto const many = partition_hypergraph(h.view(), 20, {.preset = preset});  // more parts than nodes
    CHECK(many.within_limits);
    CHECK(*std::max_element(many.part_weights.begin(), many.part_weights.end()) == 1);
  }
}

TEST_CASE("partition_hypergraph: weights may be real numbers, or close to the largest integers") {
  testing::rng r(6);
  auto const plain = netlist(r, 300);
  std::vector<double> real(plain.nodes, 0.1), nets(plain.offsets.size() - 1, 1e-9);
  hypergraph_view const small{plain.nodes, plain.offsets, plain.pins, real, nets};
  auto const p = partition_hypergraph(small, 4);
  CHECK(p.within_limits);
  CHECK(p.imbalance <= 0.031);
  CHECK(p.cut.connectivity > 0);
  auto big = plain;
  auto const pins = static_cast<std::int64_t>(plain.pins.size());
  big.net_weight.assign(plain.offsets.size() - 1, std::numeric_limits<std::int64_t>::max() / (pins + 1));
  CHECK(partition_hypergraph(big.view(), 4).cut.cut_nets > 0);
}

TEST_CASE("partition_hypergraph: sums of real weights over large nets, and huge limits, do not overflow") {
  testing::rng r(7);
  hypergraph<std::uint32_t, std::int64_t, double> h;
  h.nodes = testing::cases(48, 300);
  for (int e = 0; e < 40; ++e) {
    for (std::size_t pin = 0; pin < h.nodes / 2; ++pin)
      h.pins.push_back(static_cast<std::uint32_t>(r.below(h.nodes)));
    h.offsets.push_back(static_cast<std::uint32_t>(h.pins.size()));
    h.net_weight.push_back(0.1 * static_cast<double>(1 + r.below(7)));
  }
  hypergraph<std::uint32_t> heavy;
  heavy.nodes = 4, heavy.pins = {0, 1, 1, 2, 2, 3}, heavy.offsets = {0, 2, 4, 6};
  heavy.node_weight.assign(4, (std::int64_t{1} << 61) - 1);
  for (auto const preset : presets) {
    for (auto const objective : objectives)  // every net is in every part
      CHECK(partition_hypergraph(h.view(), 16, {.preset = preset, .objective = objective}).cut.cut_nets ==
            40);
    CHECK(partition_hypergraph(heavy.view(), 3, {.preset = preset, .imbalance = 1e9}).cut.connectivity == 2);
  }
}

TEST_CASE("find_hypergraph_fault: names the place of each fault") {
  using enum hypergraph_violation;
  hypergraph<std::int32_t> good;
  good.nodes = 3, good.pins = {0, 1, 1, 2}, good.offsets = {0, 2, 4};
  CHECK(!find_hypergraph_fault(good.view()));
  auto const fault = [&](auto const& change) {
    auto h = good;
    change(h);
    auto const f = find_hypergraph_fault(h.view());
    REQUIRE(f);
    CHECK(!describe(*f).empty());
    CHECK_THROWS_AS(partition_hypergraph(h.view(), 2), detail::hypergraph_error);
    return *f;
  };
  CHECK(fault([](auto& h) { h.pins[2] = 3; }) == hypergraph_fault{no_such_node, 1, 2});
  CHECK(fault([](auto& h) { h.pins[0] = -1; }) == hypergraph_fault{no_such_node, 0, 0});
  CHECK(fault([](auto& h) { h.offsets[1] = 5; }) == hypergraph_fault{offsets_out_of_range, 0});
  CHECK(fault([](auto& h) { h.offsets[1] = -1; }) == hypergraph_fault{offsets_out_of_range, 0});
  CHECK(fault([](auto& h) { h.offsets[2] = 3; }) == hypergraph_fault{offsets_out_of_range, 1});
  CHECK(fault([](auto& h) { h.offsets[0] = 1; }) == hypergraph_fault{offsets_out_of_range});
  CHECK(fault([](auto& h) { h.node_weight = {1, 2}; }) == hypergraph_fault{wrong_length});
  CHECK(fault([](auto& h) { h.net_weight = {1}; }) == hypergraph_fault{wrong_length});
  CHECK(fault([](auto& h) { h.node_weight = {1, -2, 3}; }) ==
        hypergraph_fault{.what = bad_node_weight, .node = 1});
  CHECK(fault([](auto& h) { h.net_weight = {1, -1}; }) == hypergraph_fault{bad_net_weight, 1});
  auto const most = std::numeric_limits<std::int64_t>::max();
  CHECK(fault([&](auto& h) { h.node_weight = {most, 1, 0}; }) == hypergraph_fault{nodes_too_heavy});
  CHECK(fault([&](auto& h) { h.net_weight = {most / 2, 1}; }) == hypergraph_fault{nets_too_heavy});
  CHECK_THROWS_AS(partition_hypergraph(good.view(), 0), detail::kway_option_error);
}
