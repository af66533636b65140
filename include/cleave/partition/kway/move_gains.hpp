// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "cleave/partition/kway/boundary.hpp"
#include "cleave/partition/kway/clusters.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/move_buckets.hpp"
#include "cleave/partition/kway/part_links.hpp"
#include "cleave/partition/kway/team.hpp"

namespace cleave::detail {

/// What each active node would gain in the part that it is tied to most beside its own, were there room:
/// known until a neighbour moves. Counted by all threads, so that the moves, one after another, find few
/// nodes worth a look.
template <class Level>
class move_gains {
 public:
  move_gains(Level const& g, level_parts const& p, std::vector<std::uint32_t> const& fixed,
             thread_team const& team)
      : g_(g), p_(p), fixed_(fixed), team_(team) {}

  /// Of nodes that are fixed or have no neighbour in another part.
  static constexpr std::int64_t nowhere = (std::numeric_limits<std::int64_t>::min)() / 2;

  /// Counts what is not known. O(arcs of the nodes that moves have touched).
  void count(active_nodes& active) {
    auto const known = gain_.size();
    gain_.resize(active.list.size());
    id_ranges const ranges{static_cast<std::uint32_t>(gain_.size()), (std::max)(p_.parts(), 1u << 11)};
    team_.share(ranges.count(), [&](std::size_t r) {
      part_links links(p_.parts());
      for (auto at = ranges.begin(r); at < ranges.end(r); ++at) {
        auto const n = active.list[at];
        if (at < known && active.is[n] == active_nodes::counted) continue;
        active.is[n] = active_nodes::counted;
        gain_[at] = nowhere;
        if (is_fixed(n)) continue;
        links.count(g_, p_.of, n);
        gain_[at] = best(links, p_.of[n]);
      }
    });
  }

  /// The bucket of gains in which, or above which, so many nodes are; 0 if there are fewer. Precondition: all
  /// is known.
  std::uint32_t bucket_above_which(std::size_t nodes) const {
    using histogram = std::array<std::uint32_t, move_buckets::buckets>;
    id_ranges const ranges{static_cast<std::uint32_t>(gain_.size()), 1u << 15};
    std::vector<histogram> found(ranges.count());
    team_.share(ranges.count(), [&](std::size_t r) {
      for (auto at = ranges.begin(r); at < ranges.end(r); ++at)
        ++found[r][move_buckets::bucket_of(gain_[at])];
    });
    std::uint32_t bucket = move_buckets::buckets;
    for (std::size_t above = 0; above < nodes && bucket > 0;) {
      --bucket;
      for (auto const& h : found) above += h[bucket];
    }
    return bucket;
  }

  std::size_t size() const { return gain_.size(); }
  bool knows(active_nodes const& active, std::size_t at) const {
    return at < gain_.size() && active.is[active.list[at]] == active_nodes::counted;
  }
  /// Precondition: it is known.
  std::int64_t of(std::size_t at) const { return gain_[at]; }
  bool is_fixed(std::uint32_t n) const { return !fixed_.empty() && fixed_[n] != free_node; }

  /// The gain in the part beside `own` that a node is tied to most.
  static std::int64_t best(part_links const& links, std::uint32_t own) {
    std::int64_t most = -1;
    for (auto const part : links.nearby())
      if (part != own && links.to(part) > most) most = links.to(part);
    return most < 0 ? nowhere : most - links.to(own);
  }

 private:
  Level const& g_;
  level_parts const& p_;
  std::vector<std::uint32_t> const& fixed_;
  thread_team const& team_;
  std::vector<std::int64_t> gain_;
};

}  // namespace cleave::detail
