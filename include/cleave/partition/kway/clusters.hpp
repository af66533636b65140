// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/kway/effort.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/raw_array.hpp"
#include "cleave/partition/kway/team.hpp"

namespace cleave::detail {

/// The cluster of a node that is left out of the level above: it has no edge.
inline constexpr std::uint32_t no_cluster = 0xffffffff;

/// Which nodes become one on the level above. Clusters are numbered in order of their first members, so that
/// neighbours in memory remain neighbours.
struct clustering {
  std::uint32_t clusters = 0;
  raw_array<std::uint32_t> of;      ///< the cluster of a node, or `no_cluster`
  raw_array<std::uint32_t> begin;   ///< of a cluster in `member`; clusters + 1 of them
  raw_array<std::uint32_t> member;  ///< nodes, cluster after cluster
};

/// What bounds and steers the choice of clusters.
struct cluster_rules {
  std::int64_t heaviest = 1;  ///< a cluster may weigh
  std::vector<std::uint32_t> const*
      fixed;                       ///< nodes bound to different parts are not put together; may be null
  std::uint32_t grain = 1u << 17;  ///< nodes a range, which is clustered by itself

  cluster_tie tie = cluster_tie::lighter;

  bool may_join(std::uint32_t a, std::uint32_t b) const {
    if (!fixed || fixed->empty()) return true;
    return (*fixed)[a] == free_node || (*fixed)[b] == free_node || (*fixed)[a] == (*fixed)[b];
  }
};

/// Fixed ranges of `nodes` ids: how many depends on nothing else.
struct id_ranges {
  std::uint32_t nodes, grain;

  std::size_t count() const { return (std::size_t{nodes} + grain - 1) / grain; }
  std::uint32_t begin(std::size_t range) const { return static_cast<std::uint32_t>(range) * grain; }
  std::uint32_t end(std::size_t range) const {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(nodes, (std::uint64_t{range} + 1) * std::uint64_t{grain}));
  }
};

/// Numbers the clusters and lists their members, where `leader[n]` is the least member of the cluster of n,
/// or `no_cluster`, and no cluster reaches from one range into another.
inline clustering numbered_clusters(raw_array<std::uint32_t> leader, id_ranges const& ranges,
                                    thread_team const& team) {
  clustering c;
  c.of = std::move(leader);
  std::vector<std::uint32_t> first_cluster(ranges.count() + 1, 0), first_member(ranges.count() + 1, 0);
  team.share(ranges.count(), [&](std::size_t r) {
    std::uint32_t clusters = 0, members = 0;
    for (auto n = ranges.begin(r); n < ranges.end(r); ++n) {
      if (c.of[n] == no_cluster) continue;
      ++members;
      c.of[n] = c.of[n] == n ? clusters++ : c.of[c.of[n]];  // a leader comes first, and has its number
    }
    first_cluster[r + 1] = clusters;
    first_member[r + 1] = members;
  });
  for (std::size_t r = 0; r < ranges.count(); ++r) {
    first_cluster[r + 1] += first_cluster[r];
    first_member[r + 1] += first_member[r];
  }
  c.clusters = first_cluster.back();
  c.begin = raw_array<std::uint32_t>(std::size_t{c.clusters} + 1);
  c.member = raw_array<std::uint32_t>(first_member.back());
  c.begin[c.clusters] = first_member.back();
  team.share(ranges.count(), [&](std::size_t r) {
    auto* const begin = c.begin.data() + first_cluster[r];
    auto const clusters = first_cluster[r + 1] - first_cluster[r];
    std::fill_n(begin, clusters, 0u);
    for (auto n = ranges.begin(r); n < ranges.end(r); ++n)
      if (c.of[n] != no_cluster) ++begin[c.of[n]];
    auto end = first_member[r];
    for (std::uint32_t i = 0; i < clusters; ++i) begin[i] = std::exchange(end, end + begin[i]);
    std::vector<std::uint32_t> next(begin, begin + clusters);
    for (auto n = ranges.begin(r); n < ranges.end(r); ++n) {
      if (c.of[n] == no_cluster) continue;
      c.member[next[c.of[n]]++] = n;
      c.of[n] += first_cluster[r];
    }
  });
  return c;
}

}  // namespace cleave::detail
