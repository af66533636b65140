// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/fixed_point.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/components.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/disjoint_sets.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/metrics.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/model/validity.hpp"

namespace cleave::inline v0_2 {

/// The graph of units: nodes that must share a part are contracted into one unit. Units are numbered by their
/// first node. Replicable nodes belong to no unit.
template <std::unsigned_integral Index>
struct unit_graph {
  std::vector<Index> of;            ///< per node: its unit, or `none`
  detail::csr<Index> members;       ///< per unit: its nodes, ascending
  detail::csr<Index> predecessors;  ///< per unit: its predecessors, each once
  detail::csr<Index> successors;    ///< per unit: its successors, ascending

  std::size_t size() const { return members.rows(); }
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Rules that define units, in addition to the groups of the graph.
struct unit_rules {
  std::span<std::vector<std::size_t> const> together{};  ///< sets of nodes that must share a part;
                                                         ///< replicable nodes are ignored
  std::span<char const> backward{};  ///< nonzero for nodes whose edges do not restrict the order
};

/// Returns rows built from (row, item) pairs. Items are below `rows`; each item is listed once per row, in
/// ascending order. O(rows + pairs).
template <std::unsigned_integral Index>
csr<Index> rows_of(std::size_t rows, std::vector<std::pair<Index, Index>> const& pairs) {
  narrow<Index>(pairs.size());
  csr<Index> by_item;
  by_item.first.assign(rows + 1, 0);
  for (auto const& [row, item] : pairs) ++by_item.first[item + std::size_t{1}];
  std::partial_sum(by_item.first.begin(), by_item.first.end(), by_item.first.begin());
  by_item.item.resize(pairs.size());
  for (auto next = by_item.first; auto const& [row, item] : pairs) by_item.item[next[item]++] = row;
  return users_of(by_item, rows);
}

/// Builds the unit graph of disjoint sets of nodes.
template <std::unsigned_integral Index>
unit_graph<Index> linked_units(basic_snapshot_arrays<Index> const& g, disjoint_sets<Index>& sets,
                               std::span<char const> backward) {
  unit_graph<Index> u;
  u.of.assign(g.nodes(), none<Index>);
  std::vector<Index> unit_of_set(g.nodes(), none<Index>);
  std::size_t count = 0;
  csr<Index> unit_of;  // the same as `of`, as rows
  for (std::size_t n = 0; n < g.nodes(); ++n, unit_of.close()) {
    if (is_replicable(g, n)) continue;
    auto& unit = unit_of_set[sets[n]];
    if (unit == none<Index>) unit = static_cast<Index>(count++);
    unit_of.add(u.of[n] = unit);
  }
  u.members = users_of(unit_of, count);

  std::vector<std::pair<Index, Index>> pairs;
  auto const is_backward = [&](Index n) { return n < backward.size() && backward[n] != 0; };
  each_dependency(g, [&](Index m, Index n) {
    if (u.of[m] != u.of[n] && !is_backward(m) && !is_backward(n)) pairs.emplace_back(u.of[n], u.of[m]);
  });
  u.predecessors = rows_of(count, pairs);
  u.successors = users_of(u.predecessors, count);
  return u;
}

/// Contracts nodes that must share a part: the groups of the graph, the sets of `rules.together`, and then
/// each cycle of units, because no order can separate its nodes. O(V + E).
template <std::unsigned_integral Index>
unit_graph<Index> units_of(basic_snapshot_arrays<Index> const& g, unit_rules const& rules = {}) {
  disjoint_sets<Index> sets(g.nodes());
  for (std::size_t n = 0; n < g.group.size(); ++n) sets.join(n, g.group[n]);
  for (auto const& set : rules.together) {
    auto const live = [&](std::size_t n) { return !is_replicable(g, n); };
    auto one = g.nodes();  // the first non-replicable node of the set
    for (auto const n : set) {
      if (!live(n)) continue;
      if (one == g.nodes()) one = n;
      sets.join(one, n);
    }
  }
  auto u = linked_units(g, sets, rules.backward);
  auto const component = components_of(u.predecessors);
  if (component.empty()) return u;
  std::vector<Index> first(u.size(), none<Index>);  // per component: one of its nodes
  for (std::size_t n = 0; n < g.nodes(); ++n) {
    if (u.of[n] == none<Index>) continue;
    auto& one = first[component[u.of[n]]];
    if (one == none<Index>) one = static_cast<Index>(n);
    sets.join(one, n);
  }
  return linked_units(g, sets, rules.backward);
}

/// Returns the first node whose weight is negative, infinite or NaN, if any. O(V).
template <std::unsigned_integral Index>
std::optional<std::size_t> find_bad_weight(basic_snapshot_arrays<Index> const& g) {
  for (std::size_t n = 0; n < g.weight.size(); ++n)
    if (!(g.weight[n] >= 0) || !is_finite(g.weight[n])) return n;
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The costs of units and transfers as integers on one fixed-point scale.
template <std::unsigned_integral Index>
struct unit_costs {
  detail::fixed_point scale;
  std::vector<std::uint32_t> speed_of;            ///< per part: its row of `weight`
  std::vector<std::vector<std::int64_t>> weight;  ///< per distinct speed: the time of each unit
  std::size_t fastest = 0;                        ///< row of the highest speed
  double relative_speed = 0;                      ///< sum of the speeds of all parts, relative to the fastest

  std::vector<std::int64_t> transfer;             ///< per value that may cross: cost on the cheapest link
  std::vector<std::uint32_t> link_of;             ///< per part: its row of `linked`
  std::vector<std::vector<std::int64_t>> linked;  ///< per distinct link: cost per value; empty if equal
  detail::csr<Index> touching;  ///< per value: the two or more units that make or read it, each once
  detail::csr<Index> touched;   ///< per unit: its values, ascending

  std::size_t units() const { return weight.front().size(); }
  /// Returns the cost of each value's crossing for part `s`.
  std::vector<std::int64_t> const& transfer_of(std::size_t s) const {
    return linked.empty() ? transfer : linked[link_of[s]];
  }
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the transfer costs of the values that several units make or read, except those that cost nothing.
/// Lists their units in `touching`. O(V + E).
template <std::unsigned_integral Index>
std::vector<double> list_transfers(basic_snapshot_arrays<Index> const& g, unit_graph<Index> const& u,
                                   double cost_per_byte, csr<Index>& touching) {
  std::vector<double> cost;
  std::vector<Index> seen(u.size(), none<Index>);
  for (Index v = 0; v < g.bytes.size(); ++v) {
    Index const producer = g.producer[v];
    double const price = cost_per_byte * static_cast<double>(g.bytes[v]);
    if (producer == none<Index> || is_replicable(g, producer) || price == 0) continue;
    auto const before = touching.item.size();
    auto const touch = [&](Index n) {
      if (Index const unit = u.of[n]; unit != none<Index> && std::exchange(seen[unit], v) != v)
        touching.add(unit);
    };
    touch(producer);
    for (Index const user : g.users[v]) touch(user);
    if (touching.item.size() - before < 2) {
      touching.item.resize(before);
      continue;
    }
    touching.close();
    cost.push_back(price);
  }
  return cost;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Computes the costs of units and transfers on one scale. O(V + E), plus O(units) per distinct speed.
/// \throws overflow_error if a sum of costs is not finite.
template <std::unsigned_integral Index>
unit_costs<Index> costs_of(basic_snapshot_arrays<Index> const& g, unit_graph<Index> const& u,
                           std::uint32_t parts, load_model const& model) {
  unit_costs<Index> c;
  std::vector<double> speeds;
  for (std::uint32_t s = 0; s < parts; ++s) {
    double const speed = model.speed.empty() ? 1 : model.speed[s];
    std::uint32_t row = 0;
    while (row < speeds.size() && speeds[row] != speed) ++row;
    if (row == speeds.size()) speeds.push_back(speed);
    c.speed_of.push_back(row);
    if (speed > speeds[c.fastest]) c.fastest = row;
  }
  double slowest = speeds.front();
  for (double const speed : speeds) slowest = (std::min)(slowest, speed);
  for (auto const row : c.speed_of) c.relative_speed += speeds[row] / speeds[c.fastest];

  std::vector<double> links;
  for (std::uint32_t s = 0; s < parts; ++s) {
    double const link = model.link.empty() ? 1 : model.link[s];
    c.link_of.push_back(
        static_cast<std::uint32_t>(std::find(links.begin(), links.end(), link) - links.begin()));
    if (c.link_of.back() == links.size()) links.push_back(link);
  }

  auto const prices = detail::list_transfers(g, u, model.cost_per_byte, c.touching);
  std::vector<double> sum(u.size());
  double total = 0;
  auto const require = [&](double reached, std::size_t n, char const* what) {
    if (!is_finite(reached))
      detail::raise(detail::overflow_error(
          std::string(what) + ", summed up to node " + g.label(n) + ", are not finite; scale them down", n));
  };
  for (std::size_t n = 0; n < g.nodes(); ++n)
    if (u.of[n] != none<Index>) {
      require(sum[u.of[n]] += g.weight[n], n, "the weights");
      require(total += g.weight[n] / slowest, n, "the weights");
    }
  for (std::size_t v = 0; v < prices.size(); ++v) {
    // a relayed value may count at every boundary between two units
    auto const times = model.relayed ? 2 * u.size() : c.touching[v].size();
    require(
        total += 2 * static_cast<double>(times) * prices[v] * *std::max_element(links.begin(), links.end()),
        u.members[c.touching[v].front()].front(), "the transfer costs");
  }

  c.scale = detail::fixed_point::for_total(total);
  std::uint64_t bits = 0;  // common trailing zeros are dropped below, which saves search steps
  auto const exact = [&](double cost) {
    auto const scaled = c.scale.of(cost);
    bits |= static_cast<std::uint64_t>(scaled);
    return scaled;
  };
  for (double const speed : speeds) {
    auto& row = c.weight.emplace_back();
    for (double const w : sum) row.push_back(exact(w / speed));
  }
  auto const all_prices = [&](double link) {
    std::vector<std::int64_t> row;
    for (double const price : prices) row.push_back(exact(link * price));
    return row;
  };
  for (std::size_t i = 0; i < links.size() && links.size() > 1; ++i) c.linked.push_back(all_prices(links[i]));
  c.transfer = all_prices(*std::min_element(links.begin(), links.end()));
  int const spare = bits == 0 ? 0 : std::countr_zero(bits);
  c.scale.exponent -= spare;
  for (auto& row : c.weight)
    for (auto& w : row) w >>= spare;
  for (auto& t : c.transfer) t >>= spare;
  for (auto& row : c.linked)
    for (auto& t : row) t >>= spare;

  c.touched = detail::users_of(c.touching, u.size());
  return c;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The bytes that units require in their part. Values that several units need are stored once.
template <std::unsigned_integral Index>
struct unit_memory {
  std::vector<std::size_t> own;     ///< per unit: bytes that no other unit needs
  std::vector<std::size_t> shared;  ///< bytes of each value that several units need
  csr<Index> predecessors;          ///< per unit: the shared values that it needs, each once

  /// Returns the bytes of a part that consists of this unit only.
  std::size_t alone(std::size_t unit) const {
    std::size_t bytes = own[unit];
    for (Index const s : predecessors[unit]) bytes += shared[s];
    return bytes;
  }
  /// Returns the bytes of a part with all units.
  std::size_t total() const {
    return std::accumulate(own.begin(), own.end(),
                           std::accumulate(shared.begin(), shared.end(), std::size_t{}));
  }
};

/// Returns the memory of units, counted as by `part_memory`. O(V + E), plus the cost of `each_held`.
/// \throws overflow_error if the sum of all bytes overflows.
template <std::unsigned_integral Index>
unit_memory<Index> memory_of(basic_snapshot_arrays<Index> const& g, unit_graph<Index> const& u,
                             std::span<std::size_t const> node_memory = {}) {
  unit_memory<Index> m;
  m.own.resize(u.size());
  std::size_t total = 0;
  for (std::size_t n = 0; n < node_memory.size(); ++n)
    if (u.of[n] != none<Index>) {
      add_bytes(total, node_memory[n], g, n);
      m.own[u.of[n]] += node_memory[n];
    }
  csr<Index> sharers;  // per shared value: the units that need it
  std::vector<Index> seen(u.size(), none<Index>);
  each_held(g, [&](Index v, std::span<Index const> holders) {
    auto const before = sharers.item.size();
    for (Index const n : holders)
      if (std::exchange(seen[u.of[n]], v) != v) sharers.add(u.of[n]);
    add_bytes(total, g.bytes[v], g, holders.front());
    if (sharers.item.size() - before == 1) {
      m.own[sharers.item.back()] += g.bytes[v];
      sharers.item.pop_back();
    } else {
      m.shared.push_back(g.bytes[v]);
      sharers.close();
    }
  });
  m.predecessors = users_of(sharers, u.size());
  return m;
}

/// Returns, for each end j of a slice of `order`, the smallest start i such that units i to j-1 fit into
/// `limit`, or j if unit j-1 alone does not fit. The result never decreases. O(units + uses of shared
/// values), by two pointers.
template <std::unsigned_integral Index>
std::vector<Index> first_fitting(unit_memory<Index> const& m, std::span<Index const> order,
                                 std::size_t limit) {
  std::vector<Index> first{0}, count(m.shared.size());
  std::size_t bytes = 0, begin = 0;
  for (std::size_t j = 0; j < order.size(); ++j) {
    bytes += m.own[order[j]];
    for (Index const s : m.predecessors[order[j]])
      if (count[s]++ == 0) bytes += m.shared[s];
    for (; bytes > limit; ++begin) {
      bytes -= m.own[order[begin]];
      for (Index const s : m.predecessors[order[begin]])
        if (--count[s] == 0) bytes -= m.shared[s];
    }
    first.push_back(static_cast<Index>(begin));
  }
  return first;
}

}  // namespace cleave::detail
