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

namespace cleave {

/// The level above: a node for each cluster, and edges between them with the sum of the weights of those that
/// they stand for. The rows are merged with an array that remembers where each neighbour was put last, not by
/// hashing. O(n + m).
template <class Level>
class contraction {
 public:
  contraction(Level const& g, clustering const& c) : g_(g), c_(c) {}

  level_graph graph(thread_team const& team) const {
    level_graph coarse;
    coarse.nodes = c_.clusters;
    coarse.first = raw_array<std::uint32_t>(std::size_t{c_.clusters} + 1);
    coarse.node_weights = raw_array<std::int64_t>(c_.clusters);
    if (team.threads() == 1 || c_.clusters < 1u << 14) {
      coarse.head = raw_array<std::uint32_t>(g_.arcs());
      coarse.arc_weights = raw_array<std::int64_t>(g_.arcs());
      coarse.first[c_.clusters] = merge(0, c_.clusters, coarse, coarse.head, coarse.arc_weights);
      return coarse;
    }
    return in_pieces(std::move(coarse), team);
  }

 private:
  struct piece {
    raw_array<std::uint32_t> head;
    raw_array<std::int64_t> weight;
    std::uint32_t arcs = 0;
  };

  level_graph in_pieces(level_graph coarse, thread_team const& team) const {
    id_ranges const ranges{c_.clusters, c_.clusters / (4 * team.threads()) + 1};
    std::vector<piece> pieces(ranges.count());
    team.share(ranges.count(), [&](std::size_t r) {
      std::size_t arcs = 0;
      for (auto at = c_.begin[ranges.begin(r)]; at < c_.begin[ranges.end(r)]; ++at)
        arcs += g_.degree(c_.member[at]);
      pieces[r].head = raw_array<std::uint32_t>(arcs);
      pieces[r].weight = raw_array<std::int64_t>(arcs);
      pieces[r].arcs = merge(ranges.begin(r), ranges.end(r), coarse, pieces[r].head, pieces[r].weight);
    });
    std::vector<std::uint32_t> offset(pieces.size() + 1, 0);
    for (std::size_t r = 0; r < pieces.size(); ++r) offset[r + 1] = offset[r] + pieces[r].arcs;
    coarse.head = raw_array<std::uint32_t>(offset.back());
    coarse.arc_weights = raw_array<std::int64_t>(offset.back());
    team.share(ranges.count(), [&](std::size_t r) {
      for (auto i = ranges.begin(r); i < ranges.end(r); ++i) coarse.first[i] += offset[r];
      std::copy_n(pieces[r].head.data(), pieces[r].arcs, coarse.head.data() + offset[r]);
      std::copy_n(pieces[r].weight.data(), pieces[r].arcs, coarse.arc_weights.data() + offset[r]);
      pieces[r] = {};
    });
    coarse.first[c_.clusters] = offset.back();
    return coarse;
  }

  /// Writes rows and weights of the clusters from `lo` up to `hi`, and returns how many arcs they have.
  std::uint32_t merge(std::uint32_t lo, std::uint32_t hi, level_graph& coarse,
                      raw_array<std::uint32_t>& heads, raw_array<std::int64_t>& weights) const {
    auto last = raw_array<std::uint32_t>::zeros(c_.clusters);  // one past where it was put last
    auto* const head = heads.data();
    auto* const weight = weights.data();
    auto const* const of = c_.of.data();
    std::uint32_t end = 0;
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
          if (place > row) {
            weight[place - 1] += g_.arc_weight(arc);
          } else {
            head[end] = other;
            weight[end] = g_.arc_weight(arc);
            last[other] = ++end;
          }
        }
      }
      coarse.node_weights[i] = sum;
    }
    return end;
  }

  Level const& g_;
  clustering const& c_;
};

}  // namespace cleave
