// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/kway/clusters.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/team.hpp"

namespace cleave::detail {

/// The level above: a node for each cluster, and edges between them with the sum of the weights of those that
/// they stand for. The rows are merged with an array that remembers where each neighbour was put last, not by
/// hashing. O(n + m).
template <class Level>
class contraction {
 public:
  contraction(Level const& g, clustering const& c) : g_(g), c_(c) {}

  level_graph graph(thread_team const& team) const { return graph(team, g_.width()); }

  /// Precondition: sums of weights fit `width`.
  level_graph graph(thread_team const& team, weight_width width) const {
    level_graph coarse;
    coarse.nodes = c_.clusters;
    coarse.first = raw_array<std::uint32_t>(std::size_t{c_.clusters} + 1);
    coarse.head = raw_array<std::uint32_t>(g_.arcs());
    coarse.node_weights = level_weights(c_.clusters, width);
    coarse.arc_weights = level_weights(g_.arcs(), width);
    if (width == weight_width::narrow)
      merge_all<std::uint32_t>(coarse, team);
    else
      merge_all<std::int64_t>(coarse, team);
    return coarse;
  }

 private:
  /// The threads merge pieces of the rows into places with room for all their arcs; then these are drawn
  /// together.
  template <class Weight>
  void merge_all(level_graph& coarse, thread_team const& team) const {
    bool const in_one = team.threads() == 1 || c_.clusters < 1u << 14;
    id_ranges const ranges{c_.clusters,
                           in_one ? (std::max)(c_.clusters, 1u) : c_.clusters / (4 * team.threads()) + 1};
    std::vector<std::uint32_t> place(ranges.count() + 1, 0), arcs(ranges.count() + 1, 0);
    if (ranges.count() > 1)
      team.share(ranges.count(), [&](std::size_t r) {
        for (auto at = c_.begin[ranges.begin(r)]; at < c_.begin[ranges.end(r)]; ++at)
          place[r + 1] += g_.degree(c_.member[at]);
      });
    for (std::size_t r = 0; r < ranges.count(); ++r) place[r + 1] += place[r];
    team.share(ranges.count(), [&](std::size_t r) {
      arcs[r + 1] = merge<Weight>(ranges.begin(r), ranges.end(r), coarse, place[r]);
    });
    for (std::size_t r = 0; r < ranges.count(); ++r) arcs[r + 1] += arcs[r];
    coarse.first[c_.clusters] = arcs.back();
    if (ranges.count() == 1) {
      coarse.head.shrink(arcs.back());
      coarse.arc_weights.shrink(arcs.back());
      return;
    }
    team.share(ranges.count(), [&](std::size_t r) {
      for (auto i = ranges.begin(r); i < ranges.end(r); ++i) coarse.first[i] -= place[r] - arcs[r];
    });
    coarse.head = drawn_together(coarse.head, place, arcs, team);
    auto& weights = coarse.arc_weights.template array<Weight>();
    weights = drawn_together(weights, place, arcs, team);
  }

  /// Of pieces that begin at `from`, those elements that they have, to begin at `to`.
  template <class T>
  static raw_array<T> drawn_together(raw_array<T> const& pieces, std::vector<std::uint32_t> const& from,
                                     std::vector<std::uint32_t> const& to, thread_team const& team) {
    raw_array<T> all(to.back());
    team.share(from.size() - 1, [&](std::size_t r) {
      std::copy_n(pieces.data() + from[r], to[r + 1] - to[r], all.data() + to[r]);
    });
    return all;
  }

  /// Writes rows and weights of the clusters from `lo` up to `hi`, the first arc at `begin`, and returns how
  /// many arcs they have.
  template <class Weight>
  std::uint32_t merge(std::uint32_t lo, std::uint32_t hi, level_graph& coarse, std::uint32_t begin) const {
    auto last = raw_array<std::uint32_t>::zeros(c_.clusters);  // one past where it was put last
    auto* const head = coarse.head.data();
    auto* const weight = coarse.arc_weights.template array<Weight>().data();
    auto const* const of = c_.of.data();
    auto const arc_weights = g_.arc_weights;
    auto end = begin;
    for (auto i = lo; i < hi; ++i) {
      auto const row = end;
      coarse.first[i] = row;
      std::int64_t sum = 0;
      for (auto at = c_.begin[i]; at < c_.begin[i + 1]; ++at) {
        auto const n = c_.member[at];
        sum += g_.weight(n);
        for (auto arc = g_.first[n], stop = g_.first[n + 1]; arc < stop; ++arc) {
          auto const other = of[g_.head[arc]];
          if (other == i) continue;
          auto const place = last[other];
          auto const w = static_cast<Weight>(arc_weights[arc]);
          if (place > row) {
            weight[place - 1] += w;
          } else {
            head[end] = other;
            weight[end] = w;
            last[other] = ++end;
          }
        }
      }
      coarse.node_weights.template array<Weight>()[i] = static_cast<Weight>(sum);
    }
    return end - begin;
  }

  Level const& g_;
  clustering const& c_;
};

}  // namespace cleave::detail
