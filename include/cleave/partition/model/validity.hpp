// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/cycle.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::inline v0_2::detail {

/// Calls `f` with each predecessor of node `n` under the partition `p`. Companions count only for operands
/// that come from outside the part of `n`.
template <std::unsigned_integral Index, class F>
void each_predecessor(basic_snapshot_arrays<Index> const& s, partition const& p, std::size_t n, F f) {
  auto const crosses = [&](Index m) { return m == none<Index> || p.of[m] != p.of[n]; };
  each_predecessor(s, n, crosses, f);
}

/// The dependency graph between parts.
struct part_graph {
  std::vector<std::size_t> first_node;  ///< per part: its first node in program order; `nodes()` if empty
  csr<std::uint32_t> dependents;        ///< per part: its successors, ordered by the first edge to each
};

/// Builds the dependency graph between parts. Replicable nodes and nodes without a part have no edges. O(V +
/// E + parts log parts).
template <std::unsigned_integral Index>
part_graph part_graph_of(basic_snapshot_arrays<Index> const& s, partition const& p) {
  part_graph parts;
  parts.first_node.assign(p.parts, s.nodes());
  std::vector<std::uint32_t> needed, needing;  // edges between parts (source, target), in order of discovery
  numbering<std::uint64_t, std::size_t> met;   // the same edges
  std::vector<std::uint32_t> last(p.parts, none<std::uint32_t>);  // per part: source of the last edge into it
  for (std::size_t n = 0; n < s.nodes(); ++n) {
    if (p.of[n] == no_part) continue;
    auto const to = index(p.of[n]);
    parts.first_node[to] = (std::min)(parts.first_node[to], n);
    if (is_replicable(s, n)) continue;
    each_predecessor(s, p, n, [&](std::size_t m) {
      auto const from = index(p.of[m]);
      if (p.of[m] == p.of[n] || p.of[m] == no_part || std::exchange(last[to], from) == from) return;
      if (met.insert(std::uint64_t{from} << 32 | to) != needed.size()) return;
      needed.push_back(from);
      needing.push_back(to);
    });
  }
  narrow<std::uint32_t>(needed.size());
  auto& [first, item] = parts.dependents;
  first.assign(p.parts + std::size_t{1}, 0);
  for (auto const from : needed) ++first[from + std::size_t{1}];
  for (std::size_t i = 0; i < p.parts; ++i) first[i + 1] += first[i];
  item.resize(needed.size());
  auto next = first;
  for (std::size_t i = 0; i < needed.size(); ++i) item[next[needed[i]]++] = needing[i];
  return parts;
}

/// Thrown when a sum of numbers overflows or is not finite. The witness is the node at which the sum
/// overflowed.
using overflow_error = tagged_error<struct overflow_tag, std::size_t>;

/// Adds `bytes` to `sum`. \throws overflow_error with witness `n` if the sum does not fit std::size_t.
template <std::unsigned_integral Index>
void add_bytes(std::size_t& sum, std::size_t bytes, basic_snapshot_arrays<Index> const& g, std::size_t n) {
  if (bytes > static_cast<std::size_t>(-1) - sum)
    raise(overflow_error("the sum of bytes up to node " + g.label(n) + " exceeds " +
                             std::to_string(static_cast<std::size_t>(-1)),
                         n));
  sum += bytes;
}

/// Calls `f(v, holders)` for each state or constant value of known size that is used. `holders` are the nodes
/// whose parts must hold `v`: nodes that read `v`, and nodes that read the results of replicable nodes
/// computed from it. None of them is replicable, and a node may be listed twice. O(V + E), plus the
/// replicable nodes that each value reaches.
template <std::unsigned_integral Index, class F>
void each_held(basic_snapshot_arrays<Index> const& g, F f) {
  std::vector<std::size_t> met(g.nodes(), g.values());
  std::vector<Index> copies, holders;
  for (std::size_t v = 0; v < g.values() && !g.bytes.empty(); ++v) {
    if (g.bytes[v] == 0 || !is_held(g.from[v])) continue;
    copies.clear();
    holders.clear();
    auto const give_to = [&](Index user) {
      if (!is_replicable(g, user))
        holders.push_back(user);
      else if (met[user] != v)
        met[user] = v, copies.push_back(user);
    };
    for (Index const user : g.users[v]) give_to(user);
    for (std::size_t i = 0; i < copies.size(); ++i)
      for (Index const made : g.results[copies[i]])
        for (Index const user : g.users[made]) give_to(user);
    if (!holders.empty()) f(static_cast<Index>(v), std::span<Index const>(holders));
  }
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the bytes that each part must hold. State and constants count once per part, and each node of the
/// part adds `node_memory[n]` if that is given. O(V + E), plus the replicable nodes that each value reaches.
/// \throws overflow_error.
template <std::unsigned_integral Index>
std::vector<std::size_t> part_memory(basic_snapshot_arrays<Index> const& g, partition const& p,
                                     std::span<std::size_t const> node_memory = {}) {
  expects(p.of.size() == g.nodes(), "a partition of this graph");
  expects(node_memory.empty() || node_memory.size() == g.nodes(),
          "node_memory to have an entry for each node");
  std::vector<std::size_t> bytes(p.parts), seen(p.parts, g.values());
  detail::each_held(g, [&](Index v, std::span<Index const> holders) {
    for (Index const n : holders)
      if (auto const part = p.of[n]; part != no_part && seen[index(part)] != v) {
        seen[index(part)] = v;
        detail::add_bytes(bytes[index(part)], g.bytes[v], g, n);
      }
  });
  for (std::size_t n = 0; n < node_memory.size(); ++n)
    if (p.of[n] != no_part && !detail::is_replicable(g, n))
      detail::add_bytes(bytes[index(p.of[n])], node_memory[n], g, n);
  return bytes;
}

}  // namespace cleave

/// Faults of a partition, one function each, with a witness. Nodes are positions. `find_unassigned_node` and
/// `find_empty_part` accept any partition. The other functions require that `find_unassigned_node` finds
/// nothing.
namespace cleave::inline v0_2::detail {

/// An edge: `consumer` reads a value of `producer` or must run after it.
struct dependency {
  std::size_t producer, consumer;

  bool operator==(dependency const&) const = default;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Thrown for a partition that cannot be planned. `witness` lists the nodes concerned. For a cycle it lists
/// the producer and the consumer of each edge.
class partition_error : public witness_error<std::vector<std::size_t>> {
 public:
  using witness_error::witness_error;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the first node that has no part or an invalid part, if any. Replicable nodes need no part, as long
/// as the partition has at least one. O(V).
template <std::unsigned_integral Index>
std::optional<std::size_t> find_unassigned_node(basic_snapshot_arrays<Index> const& s, partition const& p) {
  for (std::size_t n = 0; n < s.nodes(); ++n)
    if (bool const free = is_replicable(s, n) && p.parts > 0;
        n >= p.of.size() || (!(free && p.of[n] == no_part) && index(p.of[n]) >= p.parts))
      return n;
  return std::nullopt;
}

/// Returns the first part without nodes, if any. O(V).
inline std::optional<part_id> find_empty_part(partition const& p) {
  std::vector<char> used(p.parts);
  for (part_id const i : p.of)
    if (index(i) < p.parts) used[index(i)] = 1;
  for (std::uint32_t i = 0; i < p.parts; ++i)
    if (!used[i]) return part_id{i};
  return std::nullopt;
}

/// Returns the first edge that leads to an earlier part, if any. Parts can be executed in ascending order
/// only if no such edge exists. O(V + E).
template <std::unsigned_integral Index>
std::optional<dependency> find_backward_edge(basic_snapshot_arrays<Index> const& s, partition const& p) {
  std::optional<dependency> found;
  for (std::size_t n = 0; n < s.nodes() && !found; ++n) {
    if (is_replicable(s, n)) continue;
    auto const look = [&](std::size_t m) {
      if (!found && p.of[m] > p.of[n]) found = dependency{m, n};
    };
    each_predecessor(s, p, n, look);
  }
  return found;
}

/// Returns the first edge between parts whose value must not cross a part boundary, if any. O(V + E).
template <std::unsigned_integral Index>
std::optional<dependency> find_sent_value(basic_snapshot_arrays<Index> const& s, partition const& p) {
  for (std::size_t n = 0; n < s.nodes() && !s.portable.empty(); ++n)
    for (Index const v : s.operands[n])
      if (Index const m = s.producer[v];
          m != none<Index> && !s.portable[v] && !is_replicable(s, m) && p.of[m] != p.of[n])
        return dependency{m, n};
  return std::nullopt;
}

/// Returns two nodes that must share a part but do not, if any. O(V).
template <std::unsigned_integral Index>
std::optional<std::pair<std::size_t, std::size_t>> find_split_group(basic_snapshot_arrays<Index> const& s,
                                                                    partition const& p) {
  for (std::size_t n = 0; n < s.nodes(); ++n)
    if (!s.group.empty() && !is_replicable(s, n) && p.of[n] != p.of[s.group[n]])
      return std::pair<std::size_t, std::size_t>{s.group[n], n};
  return std::nullopt;
}

/// Returns a cycle between parts, if any, as one edge per step: the last edge leads back to the first part.
/// The cycle is a shortest one unless the search would take more than some 4 million steps, and a short one
/// otherwise. O(V + E) if there is no cycle.
template <std::unsigned_integral Index>
std::optional<std::vector<dependency>> find_cycle_between_parts(basic_snapshot_arrays<Index> const& s,
                                                                partition const& p) {
  auto const parts = part_graph_of(s, p);
  auto const dependents = [&](std::uint32_t part) { return parts.dependents[part]; };
  auto const order = order_of_arcs(p.parts, dependents);
  if (order.size() == p.parts) return std::nullopt;

  auto const stuck = unordered_nodes(p.parts, order);
  auto const is_stuck = [&](std::uint32_t part) { return stuck[part] != 0; };
  std::vector<std::uint32_t> need(p.parts);  // of each part on or behind a cycle: one such predecessor
  for (std::uint32_t from = 0; from < p.parts; ++from)
    for (auto const to : parts.dependents[from])
      if (stuck[from]) need[to] = from;
  auto const on_cycle = first_met_again(p.parts, first_unordered<std::uint32_t>(stuck),
                                        [&](std::uint32_t part) { return need[part]; });

  cycle_search search(p.parts, dependents);
  auto shortest = search.through(on_cycle, is_stuck);
  std::size_t searches = 1;
  for (std::uint32_t start = 0;
       start < p.parts && shortest.size() > 2 && search.steps() + searches * p.parts < 4'000'000; ++start) {
    if (!stuck[start]) continue;
    auto cycle = search.through(start, is_stuck);
    ++searches;
    if (!cycle.empty() && cycle.size() < shortest.size()) shortest = std::move(cycle);
  }

  std::vector<dependency> edges(shortest.size(), dependency{s.nodes(), s.nodes()});
  std::vector<std::uint32_t> place(p.parts, index(no_part));  // of each part: its position on the cycle
  for (std::uint32_t i = 0; i < shortest.size(); ++i) place[shortest[i]] = i;
  for (std::size_t n = 0; n < s.nodes(); ++n) {
    if (p.of[n] == no_part || is_replicable(s, n) || place[index(p.of[n])] == index(no_part)) continue;
    auto const at = place[index(p.of[n])];
    auto const before = (at + shortest.size() - 1) % shortest.size();
    auto const look = [&](std::size_t m) {
      if (edges[before].consumer == s.nodes() && index(p.of[m]) == shortest[before]) edges[before] = {m, n};
    };
    each_predecessor(s, p, n, look);
  }
  return edges;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A part that exceeds its memory limit, with its bytes and that limit.
struct overfull_part {
  part_id part;
  std::size_t bytes, limit;

  bool operator==(overfull_part const&) const = default;
};

/// Returns the first part that exceeds its memory limit, if any. `limit` is in bytes: one for all parts, or
/// one per part. Bytes are counted as by `part_memory`, which may throw overflow_error.
template <std::unsigned_integral Index>
std::optional<overfull_part> find_overfull_part(basic_snapshot_arrays<Index> const& s, partition const& p,
                                                per_part<std::size_t> const& limit,
                                                std::span<std::size_t const> node_memory = {}) {
  if (limit.empty()) return std::nullopt;
  expects(limit.covers(p.parts), "one limit, or one for each part");
  auto const bytes = part_memory(s, p, node_memory);
  for (std::uint32_t i = 0; i < p.parts; ++i)
    if (bytes[i] > limit[i]) return overfull_part{part_id{i}, bytes[i], limit[i]};
  return std::nullopt;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the text by which messages name a node: its label and its part.
template <std::unsigned_integral Index>
std::string part_label(basic_snapshot_arrays<Index> const& s, partition const& p, std::size_t n) {
  return s.label(n) + " in part " + std::to_string(index(p.of[n]));
}

/// Checks that each node has a part, that groups are not split and that no value crosses a part boundary that
/// it must not cross. O(V + E). \throws partition_error.
template <std::unsigned_integral Index>
void check_assignment(basic_snapshot_arrays<Index> const& s, partition const& p) {
  auto const part_of = [&](std::size_t n) { return part_label(s, p, n); };
  if (p.of.size() != s.nodes())
    raise(partition_error("the partition has " + std::to_string(p.of.size()) +
                              " entries, but the number of nodes is " + std::to_string(s.nodes()),
                          {}));
  if (p.parts > s.nodes() + 65'536)  // reject before allocating tables of that size
    raise(partition_error("the partition has " + std::to_string(p.parts) + " parts for " +
                              std::to_string(s.nodes()) + " nodes; number parts from 0 without gaps",
                          {}));
  if (auto const n = find_unassigned_node(s, p))
    raise(partition_error(
        "node " + s.label(*n) + " is not in any of the " + std::to_string(p.parts) + " parts", {*n}));
  if (auto const sent = find_sent_value(s, p))
    raise(partition_error(
        "a value that cannot cross a part boundary is read in another part: " + part_of(sent->producer) +
            " makes it, " + part_of(sent->consumer) + " reads it; put both nodes into the same part",
        {sent->producer, sent->consumer}));
  if (auto const pair = find_split_group(s, p))
    raise(partition_error(
        "nodes that must share a part (because of together(n) or carried(v), or because one writes memory "
        "that the other views) are in different parts: " +
            part_of(pair->first) + ", " + part_of(pair->second) + "; put both into the same part",
        {pair->first, pair->second}));
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Checks that parts can be planned: each node has a part, groups are not split, values that must not be sent
/// are not, and parts do not depend on each other in a cycle. O(V + E) for a valid partition.
/// \throws partition_error; of a long cycle the message names only the edges at its two ends.
template <std::unsigned_integral Index>
void check_partition(basic_snapshot_arrays<Index> const& s, partition const& p) {
  detail::check_assignment(s, p);
  if (auto const cycle = detail::find_cycle_between_parts(s, p)) {
    std::string text = "parts depend on each other in a cycle: ";
    std::vector<std::size_t> nodes;
    std::size_t const shown = 4;  // at each end of a long cycle
    for (std::size_t i = 0; i < cycle->size(); ++i) {
      auto const& edge = (*cycle)[i];
      if (i < shown || i + shown >= cycle->size())
        text += (i == 0 ? "" : "; ") + detail::part_label(s, p, edge.producer) + " -> " +
                detail::part_label(s, p, edge.consumer);
      else if (i == shown)
        text += "; … " + std::to_string(cycle->size() - 2 * shown) + " more …";
      nodes.insert(nodes.end(), {edge.producer, edge.consumer});
    }
    detail::raise(partition_error(text, std::move(nodes)));
  }
}

}  // namespace cleave
