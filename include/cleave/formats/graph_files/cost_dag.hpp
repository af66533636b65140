// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/cycle.hpp"
#include "cleave/core/error.hpp"
#include "cleave/formats/graph_files/text.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/graph/order.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "cleave/partition/verify/verify_partition.hpp"

namespace cleave::inline v0_2 {

/// A directed graph of operations with costs, as in files of planners. Nodes are in any order. The output of
/// a node costs as much as its most expensive arc, once for each other part that reads it. The unit is that
/// of `work`, or bytes if `cost_per_byte` gives the cost of one.
struct cost_dag {
  /// A dependency: `to` reads the output of `from`.
  struct arc {
    std::uint32_t from, to;
    double cost;

    bool operator==(arc const&) const = default;
  };
  std::vector<double> work, memory;  ///< of each node
  std::vector<arc> arcs;             ///< from producers to consumers
  std::vector<double> host_work =
      {};                           ///< work of each node on a device of the other kind; empty if not given
  std::vector<char> backward = {};  ///< 1 for nodes that compute a gradient; empty if there are none
  std::vector<std::vector<std::size_t>> together = {};  ///< sets of nodes that must share a part
  std::vector<std::string> name = {};                   ///< of each node; empty if not given
  std::uint32_t devices = 0, hosts = 0;                 ///< numbers of devices of both kinds; 0 if not given
  double device_memory = 0;                             ///< of each device; 0 if not given
  std::vector<std::pair<std::uint32_t, std::uint32_t>> after =
      {};  ///< pairs of nodes: the second must follow the first, but reads nothing from it
  std::optional<double> cost_per_byte =
      {};                 ///< in the unit of `work`; empty if arcs are in that unit already
  unpriced lacking = {};  ///< numbers of nodes and values without a cost in the file; they count as free

  /// Returns the load per unit of an arc's cost.
  double arc_price() const { return cost_per_byte.value_or(1); }
  std::size_t nodes() const { return work.size(); }
  bool operator==(cost_dag const&) const = default;
};

/// Thrown if operations depend on each other in a cycle. The witness is its nodes: each is a predecessor of
/// the next, and the last of the first.
using dag_cycle_error = cycle_error<std::uint32_t>;

/// Returns the nodes in topological order; among the nodes that can be next, the smallest number comes first.
/// O((nodes + arcs) log nodes). \throws dag_cycle_error
inline std::vector<std::uint32_t> order_of(cost_dag const& d) {
  auto const n = d.nodes();
  std::vector<std::size_t> first(n + 1), missing(n);
  auto pairs = d.after;
  for (auto const& a : d.arcs) pairs.emplace_back(a.from, a.to);
  for (auto const& [from, to] : pairs) ++first[from + std::size_t{1}], ++missing[to];
  for (std::size_t i = 0; i < n; ++i) first[i + 1] += first[i];
  std::vector<std::uint32_t> user(pairs.size()), ready, order;
  for (auto next = first; auto const& [from, to] : pairs) user[next[from]++] = to;
  auto const later = [](std::uint32_t a, std::uint32_t b) { return a > b; };
  for (std::uint32_t i = 0; i < n; ++i)
    if (missing[i] == 0) ready.push_back(i);
  while (!ready.empty()) {  // a heap; ascending at first
    std::pop_heap(ready.begin(), ready.end(), later);
    auto const at = ready.back();
    ready.pop_back();
    order.push_back(at);
    for (auto i = first[at]; i < first[at + 1]; ++i)
      if (--missing[user[i]] == 0) {
        ready.push_back(user[i]);
        std::push_heap(ready.begin(), ready.end(), later);
      }
  }
  if (order.size() == n) return order;
  auto const cycle = detail::some_cycle(static_cast<std::uint32_t>(n), pairs, order);
  std::string path;
  for (std::size_t i = 0; i < cycle.size() && i < 8; ++i) path += "#" + std::to_string(cycle[i]) + " -> ";
  if (cycle.size() > 8) path += "… -> ";
  throw dag_cycle_error(
      "nodes depend on each other in a cycle: " + path + "#" + std::to_string(cycle.front()), cycle);
}

/// Returns the undirected graph: node weights are `work`, edge weights are the costs of arcs. `after` is
/// ignored.
template <std::integral Index = std::uint32_t>
adjacency<Index, double> undirected(cost_dag const& d) {
  edge_pairs<Index, double> edges;
  for (auto const& a : d.arcs) edges.add(static_cast<Index>(a.from), static_cast<Index>(a.to), a.cost);
  auto g = adjacency_of_edges(d.nodes(), edges);
  g.node_weight = d.work;
  return g;
}

/// The graph in the form of the algorithms for directed graphs.
struct dag_snapshot {
  snapshot_arrays graph;              ///< its nodes are in topological order
  balance_options options;            ///< the constraints of the file, and the cost of a byte
  std::vector<std::size_t> position;  ///< for each node of the file: its position in `graph`
};

/// Converts to a snapshot. A byte of the snapshot stands for a power of two of the unit of arcs. It is chosen
/// so small that transfer costs are as exact as their sum allows. `unit_order::given` is the order of the
/// file.
/// \throws dag_cycle_error
inline dag_snapshot snapshot_of_dag(cost_dag const& d) {
  using index = std::uint32_t;
  auto const order = order_of(d);
  dag_snapshot s;
  s.position.resize(d.nodes());
  for (std::size_t i = 0; i < order.size(); ++i) s.position[order[i]] = i;

  std::vector<std::pair<index, index>> arcs;  // (producer, consumer), each pair once
  std::vector<double> made(d.nodes());
  double total = 1;
  for (auto const& a : d.arcs) {
    arcs.emplace_back(s.position[a.from], s.position[a.to]);
    made[s.position[a.from]] = (std::max)(made[s.position[a.from]], a.cost);
    total += a.cost;
  }
  std::sort(arcs.begin(), arcs.end());
  arcs.erase(std::unique(arcs.begin(), arcs.end()), arcs.end());
  int const exponent = (std::min)(40, 60 - std::ilogb(total));
  auto& g = s.graph;
  for (index n = 0, i = 0; n < d.nodes(); ++n, g.users.close())
    for (; i < arcs.size() && arcs[i].first == n; ++i) g.users.add(arcs[i].second);
  std::sort(arcs.begin(), arcs.end(),
            [](auto a, auto b) { return std::pair(a.second, a.first) < std::pair(b.second, b.first); });
  for (index n = 0, i = 0; n < d.nodes(); ++n) {
    for (; i < arcs.size() && arcs[i].second == n; ++i) g.operands.add(arcs[i].first);
    g.operands.close();
    g.results.add(n);
    g.results.close();
    g.producer.push_back(n);
    g.from.push_back(source::node);
    g.weight.push_back(d.work[order[n]]);
    g.bytes.push_back(static_cast<std::size_t>(std::llround(std::ldexp(made[n], exponent))));
    if (!d.name.empty())
      for (char const c : d.name[order[n]]) g.name.add(c);
    if (!d.name.empty()) g.name.close();
  }
  std::vector<std::pair<index, index>> after;  // (later, earlier)
  for (auto const& [first, later] : d.after) after.emplace_back(s.position[later], s.position[first]);
  std::sort(after.begin(), after.end());
  for (index n = 0, i = 0; n < d.nodes() && !after.empty(); ++n, g.after.close())
    for (; i < after.size() && after[i].first == n; ++i) g.after.add(after[i].second);
  g.slot = g.latest = g.group = g.producer;
  g.replicable.assign(d.nodes(), 0);

  auto& o = s.options;
  o.cost_per_byte = std::ldexp(d.arc_price(), -exponent);
  o.rank.assign(order.begin(), order.end());
  auto const most = std::ldexp(1.0, 62);
  if (d.device_memory > 0) o.memory = static_cast<std::size_t>((std::min)(d.device_memory, most));
  for (auto const n : order) {
    if (!d.memory.empty()) o.node_memory.push_back(static_cast<std::size_t>((std::min)(d.memory[n], most)));
    if (!d.backward.empty()) o.backward.push_back(d.backward[n]);
  }
  for (auto const& set : d.together) {
    o.together.emplace_back();
    for (auto const n : set) o.together.back().push_back(s.position[n]);
  }
  return s;
}

/// Returns the properties of a partition of `d`, recomputed from these two alone.
inline dag_partition_report verify_partition(cost_dag const& d, partition const& p) {
  return detail::verify_dag_partition<cost_dag::arc>(d.work, d.arcs, p, d.backward, d.after, d.arc_price());
}
}  // namespace cleave

/// `.dag` files: a heading `n m`, a line `work memory` for each node, and a line `producer consumer cost` for
/// each arc. Nodes count from 0, and arcs may be in any order. Lines that begin with # or % are comments.
namespace cleave::inline v0_2::detail {

/// Reads a `.dag` file. O(size of the text). \throws graph_file_error with the place
inline cost_dag read_dag_file(std::string_view text) {
  text_cursor c(text);
  c.skip_to_content("#%");
  auto const* const at = c.here();
  auto const nodes = c.whole("the number of nodes", 0, (std::numeric_limits<std::uint32_t>::max)() - 1);
  auto const arcs = c.whole("the number of arcs", 0, (std::numeric_limits<std::uint32_t>::max)() - 1);
  c.end_line("the heading n m");
  if (nodes > c.left() / 3 || arcs > c.left() / 5)
    c.fail_at(at, "the heading says " + std::to_string(nodes) + " nodes and " + std::to_string(arcs) +
                      " arcs, but the file has only " + std::to_string(c.left()) + " bytes below it");
  if (nodes == 0 && arcs > 0) c.fail_at(at, "the heading gives arcs but no nodes");
  cost_dag d;
  d.work.reserve(nodes), d.memory.reserve(nodes), d.arcs.reserve(arcs);
  auto const next_line = [&](char const* what, std::size_t read, std::size_t stated) {
    c.skip_to_content("#%");
    if (c.at_end())
      c.fail("the file ends after " + std::to_string(read) + " " + what + " of " + std::to_string(stated));
  };
  for (std::size_t n = 0; n < nodes; ++n) {
    next_line("nodes", n, nodes);
    d.work.push_back(read_weight<double>(c, "the work of a node"));
    d.memory.push_back(read_weight<double>(c, "the memory of a node"));
    c.end_line("work and memory");
  }
  for (std::size_t i = 0; i < arcs; ++i) {
    next_line("arcs", i, arcs);
    auto const* const here = c.here();
    auto const from = static_cast<std::uint32_t>(c.whole("a producer", 0, nodes - 1));
    auto const to = static_cast<std::uint32_t>(c.whole("a consumer", 0, nodes - 1));
    if (from == to) c.fail_at(here, "node " + std::to_string(from) + " depends on itself");
    d.arcs.push_back({from, to, read_weight<double>(c, "the cost of an arc")});
    c.end_line("producer, consumer and cost");
  }
  c.skip_to_content("#%");
  if (!c.at_end()) c.fail("a line after the " + std::to_string(arcs) + " arcs given in the heading");
  return d;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the text that `read_dag_file` reads: work, memory and arcs. The format cannot hold the other
/// members.
inline std::string write_dag_file(cost_dag const& d) {
  auto text = std::to_string(d.nodes()) + " " + std::to_string(d.arcs.size()) + "\n";
  for (std::size_t n = 0; n < d.nodes(); ++n) {
    detail::append_number(text, d.work[n]);
    detail::append_number(text += ' ', d.memory.empty() ? 0.0 : d.memory[n]);
    text += '\n';
  }
  for (auto const& a : d.arcs) {
    detail::append_number(text, a.from);
    detail::append_number(text += ' ', a.to);
    detail::append_number(text += ' ', a.cost);
    text += '\n';
  }
  return text;
}

}  // namespace cleave
