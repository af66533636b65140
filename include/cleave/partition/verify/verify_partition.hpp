// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/model/partition.hpp"

/// Verification of partitions. It shares no code with the partitioners and recomputes everything from the
/// graph and the parts.
namespace cleave::inline v0_2 {

/// A fault of a partition. `code_of` uses the same names.
enum class partition_fault : std::uint8_t {
  wrong_length,       ///< `amount` parts are given for `limit` nodes
  no_such_part,       ///< node `node` is in part `part`, but there are `limit` parts
  overweight,         ///< part `part` weighs `amount`, more than `limit`
  empty_part,         ///< part `part` has no nodes, although there are enough nodes
  one_sided_graph,    ///< the edges between parts weigh `amount` in one direction and `limit` in the other
  sums_overflow,      ///< weights sum to more than 2^63 - 1
  part_cycle,         ///< part `part` depends on itself through the parts after it in the witness
  disconnected_part,  ///< part `part` has `amount` connected pieces, but its nodes lie in `limit` components
                      ///< of the graph
};

/// A fault with its place and the numbers that show it. The comments of `partition_fault` say which fields
/// each fault sets.
struct partition_finding {
  partition_fault what;
  std::size_t node = 0;
  std::uint32_t part = 0;
  double amount = 0, limit = 0;

  bool operator==(partition_finding const&) const = default;
};

/// Describes a finding in one sentence.
inline std::string describe(partition_finding const& f) {
  auto const number = [](double x) {
    auto const whole = static_cast<std::int64_t>(x < 9e15 && x > -9e15 ? x : 0);
    if (static_cast<double>(whole) == x) return std::to_string(whole);
    char digits[32];
    return std::string(digits, std::to_chars(digits, digits + sizeof digits, x).ptr);
  };
  auto const part = "part " + std::to_string(f.part);
  switch (f.what) {
    case partition_fault::wrong_length:
      return "the partition has " + number(f.amount) + " entries, but the number of nodes is " +
             number(f.limit);
    case partition_fault::no_such_part:
      return "node #" + std::to_string(f.node) + " is in " +
             (f.part == index(no_part) ? "no part"
                                       : part + ", but the number of parts is " + number(f.limit));
    case partition_fault::overweight:
      return part + " weighs " + number(f.amount) + ", but its limit is " + number(f.limit);
    case partition_fault::empty_part:
      return part + " is empty, although there are enough nodes for all parts";
    case partition_fault::one_sided_graph:
      return "the edges between parts weigh " + number(f.amount) + " from the lower to the higher part and " +
             number(f.limit) + " in the other direction: the graph lists an edge at only one of its ends";
    case partition_fault::sums_overflow:
      return "the sum of weights exceeds 2^63 - 1";
    case partition_fault::part_cycle:
      return part + " depends on itself through other parts";
    case partition_fault::disconnected_part:
      return part + " has " + number(f.amount) + " connected pieces, but could have " + number(f.limit);
  }
  return "";
}

/// The requirements that `verify_partition` checks.
struct partition_requirements {
  double imbalance = 0.03;      ///< a part may weigh (1 + imbalance) times its share, where integer shares
                                ///< are rounded up
  std::vector<double> share{};  ///< of each part: its fraction of the total weight; empty: equal shares
  bool connected = false;       ///< the nodes of a part must be connected, within each component of the graph
};

/// Measurements of a partition, and its faults.
template <class NodeSum, class EdgeSum>
struct partition_report {
  EdgeSum cut = 0;                          ///< weight of the edges between parts
  std::size_t cut_edges = 0;                ///< number of edges between parts; parallel edges count
                                            ///< separately
  NodeSum total = 0;                        ///< weight of all nodes
  std::vector<NodeSum> part_weight = {};    ///< of each part
  std::vector<std::size_t> part_size = {};  ///< of each part: number of nodes
  std::vector<std::size_t> pieces = {};     ///< of each part: connected pieces; 1 if it is connected
  double imbalance = 0;     ///< largest ratio of a part's weight to its rounded share, minus 1
  std::uint32_t empty = 0;  ///< parts without nodes
  NodeSum heaviest_node = 0;
  std::vector<partition_finding> findings = {};

  bool sound() const { return findings.empty(); }
};

/// Type for sums of weights; exact for integers.
template <weight_number Weight>
using verified_sum = std::conditional_t<std::floating_point<Weight>, double, std::int64_t>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A sum of weights that detects overflow.
template <weight_number Weight>
struct exact_sum {
  verified_sum<Weight> value = 0;
  bool overflow = false;

  void add(Weight w) {
    if constexpr (std::integral<Weight>) {
      overflow |= static_cast<std::uint64_t>(w) >
                  static_cast<std::uint64_t>((std::numeric_limits<std::int64_t>::max)() - value);
      if (overflow) return;
    }
    value += static_cast<verified_sum<Weight>>(w);
  }
};

/// Numbers the connected pieces of a graph without the edges that `may_pass(from, to)` refuses. Returns the
/// piece of each node, numbered by first nodes. O(n + m).
template <class Graph, class MayPass>
std::vector<std::size_t> connected_pieces(Graph const& g, MayPass may_pass) {
  constexpr auto none = static_cast<std::size_t>(-1);
  std::vector<std::size_t> piece(g.nodes(), none), open;
  std::size_t pieces = 0;
  for (std::size_t first = 0; first < g.nodes(); ++first) {
    if (piece[first] != none) continue;
    piece[first] = pieces;
    open.push_back(first);
    while (!open.empty()) {
      auto const n = open.back();
      open.pop_back();
      for (auto const target : g.neighbours(n)) {
        auto const to = static_cast<std::size_t>(target);
        if (piece[to] != none || !may_pass(n, to)) continue;
        piece[to] = pieces;
        open.push_back(to);
      }
    }
    ++pieces;
  }
  return piece;
}

/// Counts for each part the different numbers that its nodes have.
inline std::vector<std::size_t> count_by_part(partition const& p, std::vector<std::size_t> const& number) {
  std::vector<std::pair<std::uint32_t, std::size_t>> seen;
  for (std::size_t n = 0; n < number.size(); ++n) {
    std::pair const now{index(p.of[n]), number[n]};
    if (seen.empty() || seen.back() != now) seen.push_back(now);
  }
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  std::vector<std::size_t> count(p.parts, 0);
  for (auto const& [part, unused] : seen) ++count[part];
  return count;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Measures a partition and lists its faults. Never throws because of the parts. O(m + n log n +
/// parts).
///
/// \param g             the graph in CSR form
/// \param p             the partition
/// \param requirements  balance, and whether parts must be connected
/// \pre The rows of the graph lie within its arrays (see `find_adjacency_fault`), and weights are not
///     negative.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
partition_report<verified_sum<NodeWeight>, verified_sum<EdgeWeight>> verify_partition(
    adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g, partition const& p,
    partition_requirements const& requirements = {}) {
  partition_report<verified_sum<NodeWeight>, verified_sum<EdgeWeight>> v;
  auto const find = [&](partition_finding f) { v.findings.push_back(f); };
  auto const n = g.nodes();
  if (p.of.size() != n) {
    find({partition_fault::wrong_length, 0, 0, static_cast<double>(p.of.size()), static_cast<double>(n)});
    return v;
  }
  for (std::size_t i = 0; i < n; ++i)
    if (index(p.of[i]) >= p.parts)
      find({partition_fault::no_such_part, i, index(p.of[i]), 0, static_cast<double>(p.parts)});
  if (!v.sound()) return v;

  detail::exact_sum<NodeWeight> total;
  std::vector<detail::exact_sum<NodeWeight>> weight(p.parts);
  v.part_size.resize(p.parts);
  for (std::size_t i = 0; i < n; ++i) {
    auto const part = index(p.of[i]);
    total.add(g.weight(i));
    weight[part].add(g.weight(i));
    ++v.part_size[part];
    v.heaviest_node = (std::max)(v.heaviest_node, static_cast<verified_sum<NodeWeight>>(g.weight(i)));
  }
  detail::exact_sum<EdgeWeight> up, down;
  for (std::size_t i = 0, arc = 0; i < n; ++i)
    for (Index const to : g.neighbours(i)) {
      auto const here = index(p.of[i]), there = index(p.of[static_cast<std::size_t>(to)]);
      auto const w = g.weight_of_edge(arc++);
      if (here < there) up.add(w), ++v.cut_edges;
      if (here > there) down.add(w);
    }
  v.cut = up.value;
  v.total = total.value;
  if (total.overflow || up.overflow || down.overflow) find({partition_fault::sums_overflow});
  auto const difference = static_cast<double>(up.value) - static_cast<double>(down.value);
  auto const rounding = std::floating_point<EdgeWeight> ? 1e-9 * static_cast<double>(up.value) : 0.0;
  if (difference > rounding || -difference > rounding)
    find({partition_fault::one_sided_graph, 0, 0, static_cast<double>(up.value),
          static_cast<double>(down.value)});

  for (std::uint32_t part = 0; part < p.parts; ++part) {
    v.part_weight.push_back(weight[part].value);
    double const heavy = static_cast<double>(weight[part].value);
    double share = static_cast<double>(v.total) *
                   (requirements.share.size() == p.parts ? requirements.share[part] : 1.0 / p.parts);
    if constexpr (std::integral<NodeWeight>) {  // rounded up, and exact for equal shares
      auto const whole = requirements.share.size() == p.parts ? static_cast<std::int64_t>(share)
                                                              : v.total / static_cast<std::int64_t>(p.parts);
      bool const more = requirements.share.size() == p.parts
                            ? static_cast<double>(whole) < share
                            : whole * static_cast<std::int64_t>(p.parts) < v.total;
      share = static_cast<double>(whole + (more ? 1 : 0));
    }
    auto const over = share > 0 ? heavy / share - 1 : heavy > 0 ? std::numeric_limits<double>::infinity() : 0;
    v.imbalance = part == 0 ? over : (std::max)(v.imbalance, over);
    if (heavy > share * (1 + requirements.imbalance) * (1 + 1e-12))
      find({partition_fault::overweight, 0, part, heavy, share * (1 + requirements.imbalance)});
    if (v.part_size[part] == 0) {
      ++v.empty;
      if (n >= p.parts) find({partition_fault::empty_part, 0, part});
    }
  }
  auto const in_one_part = [&](std::size_t a, std::size_t b) { return p.of[a] == p.of[b]; };
  v.pieces = detail::count_by_part(p, detail::connected_pieces(g, in_one_part));
  if (!requirements.connected) return v;
  auto const always = [](std::size_t, std::size_t) { return true; };
  auto const components = detail::count_by_part(p, detail::connected_pieces(g, always));
  for (std::uint32_t part = 0; part < p.parts; ++part)
    if (v.pieces[part] > components[part])
      find({partition_fault::disconnected_part, 0, part, static_cast<double>(v.pieces[part]),
            static_cast<double>(components[part])});
  return v;
}

/// Measurements of a partition of a dataflow graph. The load of a part is its work plus the cost of all
/// transfers that enter or leave it.
struct dag_partition_report {
  std::vector<double> loads = {};
  double bottleneck = 0;
  double cut = 0;                   ///< cost of the edges between parts
  double traffic = 0;               ///< cost of the transfers, once per node and reading part
  std::vector<part_id> cycle = {};  ///< parts, each a predecessor of the next, and the last of the first
  std::vector<partition_finding> findings = {};

  bool sound() const { return findings.empty(); }
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Measures a partition of a dataflow graph and lists its faults. `work` is the cost of each node. `arcs` are
/// values with `from`, `to` and `cost`.
///
/// The result of a node costs as much as the most expensive of its outgoing arcs: once for its own part, and
/// once for each other part that reads it. Arcs at a node where `free` is not 0 have a cost but do not
/// restrict the order of parts. A pair in `after` restricts the order at no cost: the second node follows the
/// first. Loads count `arc_price` times the cost of an arc. O(n + m log m + parts).
template <class Arc>
dag_partition_report verify_dag_partition(std::span<double const> work, std::span<Arc const> arcs,
                                          partition const& p, std::span<char const> free = {},
                                          std::span<std::pair<std::uint32_t, std::uint32_t> const> after = {},
                                          double arc_price = 1) {
  dag_partition_report v;
  if (p.of.size() != work.size()) {
    v.findings.push_back({partition_fault::wrong_length, 0, 0, static_cast<double>(p.of.size()),
                          static_cast<double>(work.size())});
    return v;
  }
  for (std::size_t i = 0; i < work.size(); ++i)
    if (index(p.of[i]) >= p.parts)
      v.findings.push_back(
          {partition_fault::no_such_part, i, index(p.of[i]), 0, static_cast<double>(p.parts)});
  if (!v.sound()) return v;

  v.loads.resize(p.parts);
  std::vector<double> dearest(work.size());
  struct reader {
    std::uint32_t node, part;
  };
  std::vector<reader> readers;
  std::vector<std::uint64_t> pairs;  // of parts: the first is a predecessor of the second
  for (std::size_t i = 0; i < work.size(); ++i) v.loads[index(p.of[i])] += work[i];
  for (auto const& a : arcs) {
    dearest[a.from] = (std::max)(dearest[a.from], static_cast<double>(a.cost));
    auto const from = index(p.of[a.from]), to = index(p.of[a.to]);
    if (from == to) continue;
    v.cut += a.cost;
    readers.push_back({static_cast<std::uint32_t>(a.from), to});
    bool const restricts = free.empty() || (free[a.from] == 0 && free[a.to] == 0);
    if (restricts) pairs.push_back(std::uint64_t{from} << 32 | to);
  }
  for (auto const& [first, later] : after)
    if (auto const from = index(p.of[first]), to = index(p.of[later]); from != to)
      pairs.push_back(std::uint64_t{from} << 32 | to);
  std::sort(readers.begin(), readers.end(),
            [](reader a, reader b) { return a.node != b.node ? a.node < b.node : a.part < b.part; });
  for (std::size_t i = 0; i < readers.size(); ++i) {
    auto const [node, part] = readers[i];
    bool const first = i == 0 || readers[i - 1].node != node;
    if (!first && readers[i - 1].part == part) continue;
    if (first) v.loads[index(p.of[node])] += arc_price * dearest[node];
    v.loads[part] += arc_price * dearest[node];
    v.traffic += dearest[node];
  }
  for (double const load : v.loads) v.bottleneck = (std::max)(v.bottleneck, load);

  // Removes parts without remaining predecessors as long as there are any (Kahn's algorithm).
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  std::vector<std::size_t> missing(p.parts), first(p.parts + std::size_t{1});
  for (auto const pair : pairs) ++missing[pair & 0xffffffffu], ++first[(pair >> 32) + 1];
  for (std::size_t i = 0; i < p.parts; ++i) first[i + 1] += first[i];
  std::vector<std::uint32_t> ready;
  for (std::uint32_t i = 0; i < p.parts; ++i)
    if (missing[i] == 0) ready.push_back(i);
  for (std::size_t next = 0; next < ready.size(); ++next)
    for (auto i = first[ready[next]]; i < first[ready[next] + 1]; ++i)
      if (auto const to = static_cast<std::uint32_t>(pairs[i]); --missing[to] == 0) ready.push_back(to);
  if (ready.size() == p.parts) return v;
  std::vector<std::uint32_t> predecessors(p.parts);
  for (auto const pair : pairs)
    if (missing[pair >> 32] != 0) predecessors[pair & 0xffffffffu] = static_cast<std::uint32_t>(pair >> 32);
  auto at = static_cast<std::uint32_t>(
      std::find_if(missing.begin(), missing.end(), [](auto m) { return m != 0; }) - missing.begin());
  for (std::size_t step = 0; step < p.parts; ++step) at = predecessors[at];
  for (auto const begin = at; v.cycle.empty() || at != begin; at = predecessors[at])
    v.cycle.push_back(part_id{at});
  std::reverse(v.cycle.begin(), v.cycle.end());
  v.findings.push_back({partition_fault::part_cycle, 0, index(v.cycle.front())});
  return v;
}

}  // namespace cleave::detail
