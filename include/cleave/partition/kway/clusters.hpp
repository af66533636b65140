// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/partition/kway/effort.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/raw_array.hpp"

namespace cleave {

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

  label_tie tie = label_tie::lighter;

  bool may_join(std::uint32_t a, std::uint32_t b) const {
    if (!fixed || fixed->empty()) return true;
    return (*fixed)[a] == free_node || (*fixed)[b] == free_node || (*fixed)[a] == (*fixed)[b];
  }
};

/// Fixed ranges of `nodes` ids: how many depends on nothing else.
struct id_ranges {
  std::uint32_t nodes, grain;

  std::size_t count() const { return nodes ? (nodes + grain - 1) / grain : 0; }
  std::uint32_t begin(std::size_t range) const { return static_cast<std::uint32_t>(range) * grain; }
  std::uint32_t end(std::size_t range) const {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(nodes, (std::uint64_t{range} + 1) * std::uint64_t{grain}));
  }
};

/// Numbers the clusters and lists their members, where `leader[n]` is the least member of the cluster of n,
/// or `no_cluster`.
inline clustering numbered_clusters(raw_array<std::uint32_t> const& leader, std::uint32_t nodes) {
  clustering c;
  c.of = raw_array<std::uint32_t>(nodes);
  for (std::uint32_t n = 0; n < nodes; ++n) {
    if (leader[n] == no_cluster)
      c.of[n] = no_cluster;
    else
      c.of[n] = leader[n] == n ? c.clusters++ : c.of[leader[n]];
  }
  c.begin = raw_array<std::uint32_t>(std::size_t{c.clusters} + 1);
  std::fill_n(c.begin.data(), std::size_t{c.clusters} + 1, 0u);
  std::uint32_t members = 0;
  for (std::uint32_t n = 0; n < nodes; ++n)
    if (c.of[n] != no_cluster) ++c.begin[c.of[n]], ++members;
  std::uint32_t sum = 0;
  for (std::uint32_t i = 0; i <= c.clusters; ++i) {
    auto const size = i < c.clusters ? c.begin[i] : 0;
    c.begin[i] = sum;
    sum += size;
  }
  c.member = raw_array<std::uint32_t>(members);
  for (std::uint32_t n = 0; n < nodes; ++n)
    if (c.of[n] != no_cluster) c.member[c.begin[c.of[n]]++] = n;
  for (std::uint32_t i = c.clusters; i > 0; --i) c.begin[i] = c.begin[i - 1];
  c.begin[0] = 0;
  return c;
}

}  // namespace cleave
