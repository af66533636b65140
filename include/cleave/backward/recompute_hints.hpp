// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "cleave/backward/backward_graph.hpp"
#include "cleave/backward/backward_phases.hpp"
#include "cleave/core/error.hpp"
#include "cleave/graph/csr.hpp"

/// Finds gradients that need not be kept for the weight phase because it can recompute them.
namespace cleave::inline v0_2 {

/// A hint that the gradient at `node` need not be kept, because the weight phase can recompute it from other
/// gradients that are kept.
template <std::unsigned_integral Index>
struct recompute_hint {
  Index node;
  std::vector<Index> again;  ///< nodes whose gradients are recomputed: `node` and nodes on the way to it
  std::vector<Index> from;   ///< nodes whose kept gradients are read
  std::vector<Index> added;  ///< the nodes of `from` that are outputs and were not kept before
  std::size_t bytes = 0;     ///< saved bytes: those of `node` less those of `added`
  double cost = 0;           ///< cost of the edges that run again; 0 if unknown

  /// Sort key of hints: bytes saved per unit of cost, or per edge if costs are unknown.
  double worth = 0;

  bool operator==(recompute_hint const&) const = default;
};

/// Options of `recompute_hints`.
struct recompute_options {
  std::size_t edges = 256;  ///< limit on the edges that one hint may run again
  double least_worth = 0;   ///< hints with a smaller worth are left out
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Finds hints. Helper of `recompute_hints`.
template <std::unsigned_integral Index>
class recompute_finder {
 public:
  using hint = recompute_hint<Index>;

  recompute_finder(basic_backward_graph<Index> const& g, std::vector<edge_phase> const& phases,
                   recompute_options const& o)
      : g_(g), options_(o), arrivals_(g, phases), seen_(g.nodes(), none<Index>) {
    csr<Index> ends;  // for each edge: its target
    for (std::size_t n = 0; n < g.nodes(); ++n)
      for (auto const& e : g.next[n]) {
        sender_.push_back(static_cast<Index>(n));
        if (e.to != none<Index> && arrivals_.reached(n)) ends.add(e.to);
        ends.close();
      }
    in_edges_ = users_of(ends, g.nodes());
  }

  std::vector<hint> find() {
    std::vector<hint> found;
    for (std::size_t n = 0; n < g_.nodes(); ++n)
      if (arrivals_.saved(n) && can_repeat(n))
        if (auto h = trace(static_cast<Index>(n)); h.bytes > 0 && h.worth >= options_.least_worth)
          found.push_back(std::move(h));
    std::ranges::sort(found, {}, [](hint const& h) { return std::pair(-h.worth, h.node); });
    return together(std::move(found));
  }

 private:
  /// Returns true if the caller adds no gradient at `n` and its gradient is made entirely in the input phase.
  bool can_repeat(std::size_t n) const {
    return !arrivals_.is_output[n] && arrivals_.in[n] == 1 << static_cast<int>(edge_phase::input);
  }

  /// Walks from `n` towards the outputs until it reaches kept gradients. Returns a hint that saves nothing if
  /// the walk exceeds the limit on edges.
  hint trace(Index n) {
    hint h{n, {n}, {}, {}, g_.bytes[n]};
    std::size_t edges = 0, added = 0;
    seen_[n] = n;
    for (std::size_t i = 0; i < h.again.size(); ++i)
      for (Index const e : in_edges_[h.again[i]]) {
        if (++edges > options_.edges) return {n, {}, {}, {}};
        if (!g_.cost.empty()) h.cost += g_.cost[e];
        Index const m = sender_[e];
        if (std::exchange(seen_[m], n) == n) continue;
        bool const made = arrivals<Index>::has(arrivals_.in[m], edge_phase::both);
        if (arrivals_.saved(m)) {
          h.from.push_back(m);
        } else if (can_repeat(m)) {
          h.again.push_back(m);
        } else if (!made) {
          h.from.push_back(m);
          h.added.push_back(m);
          added += g_.bytes[m];
        }
      }
    h.bytes -= (std::min)(h.bytes, added);
    auto const pay = g_.cost.empty() ? static_cast<double>(edges) : h.cost;
    h.worth = pay > 0 ? static_cast<double>(h.bytes) / pay : std::numeric_limits<double>::infinity();
    for (auto* list : {&h.again, &h.from, &h.added}) std::ranges::sort(*list);
    return h;
  }

  /// Selects hints that can be followed together; earlier hints have priority. No selected hint reads a
  /// gradient that another one drops.
  std::vector<hint> together(std::vector<hint> list) const {
    std::vector<char> needed(g_.nodes()), gone(g_.nodes());
    std::erase_if(list, [&](hint const& h) {
      if (needed[h.node] || std::ranges::any_of(h.from, [&](Index m) { return gone[m] != 0; })) return true;
      gone[h.node] = 1;
      for (Index const m : h.from) needed[m] = 1;
      return false;
    });
    return list;
  }

  basic_backward_graph<Index> const& g_;
  recompute_options options_;
  arrivals<Index> arrivals_;
  csr<Index> in_edges_;        // for each node: the indices of its incoming edges
  std::vector<Index> sender_;  // for each edge: the node that it leaves
  std::vector<Index> seen_;    // for each node: the last hint that visited it
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns hints sorted by the bytes saved per unit of cost, best first. All hints can be followed together;
/// `recomputed` does this.
///
/// The choice is greedy: a gradient that a chosen hint reads is kept, even if a hint to drop it would be
/// worth more. O(V + E + kept gradients × edges of a hint).
///
/// \throws backward_graph_error, edge_phase_error
template <std::unsigned_integral Index>
std::vector<recompute_hint<Index>> recompute_hints(basic_backward_graph<Index> const& g,
                                                   std::vector<edge_phase> const& phases,
                                                   recompute_options const& o = {}) {
  detail::check_edge_phases(g, phases);
  if (g.bytes.empty()) return {};
  return detail::recompute_finder<Index>(g, phases, o).find();
}

/// Returns `phases` with the edges of the hints set to run in both phases. O(E + hints).
template <std::unsigned_integral Index>
std::vector<edge_phase> recomputed(basic_backward_graph<Index> const& g, std::vector<edge_phase> phases,
                                   std::vector<recompute_hint<Index>> const& hints) {
  std::vector<char> again(g.nodes());
  for (auto const& h : hints)
    for (Index const n : h.again) again[n] = 1;
  for (std::size_t e = 0; e < phases.size(); ++e)
    if (Index const to = g.next.item[e].to; to != none<Index> && again[to] && phases[e] == edge_phase::input)
      phases[e] = edge_phase::both;
  return phases;
}

}  // namespace cleave
