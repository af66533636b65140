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

/// Which of the gradients that are kept for the weight phase could be made again there, and what that saves.
namespace cleave {

/// What arrives at `node` need not be kept: the weight phase can make it from what else is kept.
template <std::unsigned_integral Index>
struct recompute_hint {
  Index node;
  std::vector<Index> again;  ///< where all that arrives is made again: `node` and nodes on the way to it
  std::vector<Index> from;   ///< where what is kept is read; of these …
  std::vector<Index> added;  ///< … outputs that had not been kept
  std::size_t bytes = 0;     ///< what is saved: of `node`, less what is added
  double cost = 0;           ///< of the edges that run again; 0 if unknown

  /// What hints are sorted by: bytes saved for each unit of cost, or for each edge where costs are unknown.
  double worth = 0;

  bool operator==(recompute_hint const&) const = default;
};

struct recompute_options {
  std::size_t edges = 256;  ///< the most that one hint may run again
  double least_worth = 0;   ///< hints that save less for their cost are left out
};

}  // namespace cleave

namespace cleave::detail {

/// Finds hints; `recompute_hints` is its one use.
template <std::unsigned_integral Index>
class recompute_finder {
 public:
  using hint = recompute_hint<Index>;

  recompute_finder(basic_backward_graph<Index> const& g, std::vector<edge_phase> const& phases,
                   recompute_options const& o)
      : g_(g), options_(o), arrivals_(g, phases), seen_(g.nodes(), none<Index>) {
    csr<Index> ends;  // of an edge
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
  /// The caller adds nothing there, and all that arrives is made in the input phase.
  bool can_repeat(std::size_t n) const {
    return !arrivals_.is_output[n] && arrivals_.in[n] == 1 << static_cast<int>(edge_phase::input);
  }

  /// Walks from `n` towards the outputs, up to what is kept; a hint that saves nothing where it gets too far.
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

  /// Those that can be followed together, the first of a list before the others: none makes again from what
  /// another no longer keeps.
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
  csr<Index> in_edges_;        // of a node: places of the edges to it
  std::vector<Index> sender_;  // of an edge
  std::vector<Index> seen_;    // of a node: the last hint that met it
};

}  // namespace cleave::detail

namespace cleave {

/// What need not be kept, the most bytes for the least cost first; all hints can be followed together, and
/// `recomputed` does. Greedy: what a hint reads stays kept, whatever it is worth itself. O(V + E + kept
/// gradients × edges of a hint).
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

/// `phases`, with what the hints say run again. O(E + hints).
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
