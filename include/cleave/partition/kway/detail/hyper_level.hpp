// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/partition/kway/detail/level.hpp"

namespace cleave::inline v0_2::detail {

/// A hypergraph with integer weights, stored in both directions. Each net has at least two different pins.
struct hyper_level {
  std::vector<std::uint32_t> net_first{0}, pin;  ///< the pins of each net
  std::vector<std::uint32_t> node_first, net;    ///< the nets of each node
  std::vector<std::int64_t> node_weight, net_weight;
  std::vector<std::uint32_t> fixed;  ///< the part of each fixed node, else `no_block`; may be empty

  std::uint32_t nodes() const { return static_cast<std::uint32_t>(node_weight.size()); }
  std::uint32_t nets() const { return static_cast<std::uint32_t>(net_weight.size()); }
  std::uint32_t size_of(std::uint32_t e) const { return net_first[e + 1] - net_first[e]; }
  bool is_fixed(std::uint32_t n) const { return !fixed.empty() && fixed[n] != no_block; }
};

/// Lists the nets of each node.
inline void link_nodes(hyper_level& h) {
  h.node_first.assign(h.nodes() + std::size_t{1}, 0);
  for (auto const n : h.pin) ++h.node_first[n + std::size_t{1}];
  for (std::size_t n = 0; n < h.nodes(); ++n) h.node_first[n + 1] += h.node_first[n];
  h.net.resize(h.pin.size());
  auto next = h.node_first;
  for (std::uint32_t e = 0; e < h.nets(); ++e)
    for (auto at = h.net_first[e]; at < h.net_first[e + 1]; ++at) h.net[next[h.pin[at]]++] = e;
}

/// Builds a level net by net. Pins are made unique; nets of one pin are dropped; equal nets become one.
class hyper_builder {
 public:
  explicit hyper_builder(std::size_t nodes) : seen_(nodes, 0) {}

  /// Adds a net with the pins that `add_pin(n)` has received since the last net.
  void end_net(std::int64_t weight) {
    ++mark_;
    auto& h = level_;
    if (now_.size() >= 2 && weight > 0) {
      h.pin.insert(h.pin.end(), now_.begin(), now_.end());
      h.net_first.push_back(static_cast<std::uint32_t>(h.pin.size()));
      h.net_weight.push_back(weight);
    }
    now_.clear();
  }
  void add_pin(std::uint32_t n) {
    if (std::exchange(seen_[n], mark_) != mark_) now_.push_back(n);
  }

  /// Returns the level with these node weights.
  hyper_level level(std::vector<std::int64_t> node_weight, std::vector<std::uint32_t> fixed) {
    auto h = merged();
    h.node_weight = std::move(node_weight);
    h.fixed = std::move(fixed);
    link_nodes(h);
    return h;
  }

 private:
  struct hashed {
    std::uint64_t hash;
    std::uint32_t net;
    bool operator<(hashed const& o) const { return hash != o.hash ? hash < o.hash : net < o.net; }
  };

  /// Merges equal nets and adds up their weights. The first of them stays.
  hyper_level merged() {
    auto& h = level_;
    std::vector<hashed> order(h.nets());
    for (std::uint32_t e = 0; e < h.nets(); ++e) {
      auto const begin = h.pin.begin() + h.net_first[e], end = h.pin.begin() + h.net_first[e + 1];
      std::sort(begin, end);
      std::uint64_t hash = h.size_of(e);
      for (auto at = begin; at != end; ++at) hash = splitmix(hash ^ *at).next();
      order[e] = {hash, e};
    }
    std::sort(order.begin(), order.end());
    std::vector<std::uint8_t> dropped(h.nets(), 0);
    for (std::size_t i = 0; i < order.size(); ++i) {
      auto const e = order[i].net;
      if (dropped[e]) continue;
      for (auto j = i + 1; j < order.size() && order[j].hash == order[i].hash; ++j) {
        auto const other = order[j].net;
        if (dropped[other] ||
            !std::equal(h.pin.begin() + h.net_first[e], h.pin.begin() + h.net_first[e + 1],
                        h.pin.begin() + h.net_first[other], h.pin.begin() + h.net_first[other + 1]))
          continue;
        h.net_weight[e] += h.net_weight[other];
        dropped[other] = 1;
      }
    }
    hyper_level kept;
    for (std::uint32_t e = 0; e < h.nets(); ++e) {
      if (dropped[e]) continue;
      kept.pin.insert(kept.pin.end(), h.pin.begin() + h.net_first[e], h.pin.begin() + h.net_first[e + 1]);
      kept.net_first.push_back(static_cast<std::uint32_t>(kept.pin.size()));
      kept.net_weight.push_back(h.net_weight[e]);
    }
    return kept;
  }

  hyper_level level_;
  std::vector<std::uint32_t> now_;
  std::vector<std::uint64_t> seen_;  // the last net with this pin
  std::uint64_t mark_ = 1;
};

/// Contracts clusters to the nodes of a coarser level.
inline hyper_level contracted(hyper_level const& h, std::vector<std::uint32_t> const& cluster_of,
                              std::uint32_t clusters) {
  std::vector<std::int64_t> weight(clusters, 0);
  std::vector<std::uint32_t> fixed(h.fixed.empty() ? 0 : clusters, no_block);
  for (std::uint32_t n = 0; n < h.nodes(); ++n) {
    weight[cluster_of[n]] += h.node_weight[n];
    if (h.is_fixed(n)) fixed[cluster_of[n]] = h.fixed[n];
  }
  hyper_builder builder(clusters);
  for (std::uint32_t e = 0; e < h.nets(); ++e) {
    for (auto at = h.net_first[e]; at < h.net_first[e + 1]; ++at) builder.add_pin(cluster_of[h.pin[at]]);
    builder.end_net(h.net_weight[e]);
  }
  return builder.level(std::move(weight), std::move(fixed));
}

/// The clusters of a level.
struct hyper_clusters {
  std::vector<std::uint32_t> of;
  std::uint32_t count = 0;
};

/// Limits of clustering.
struct hyper_cluster_rules {
  std::int64_t heaviest = 1;              ///< weight limit of a cluster
  std::uint32_t least = 1;                ///< stops at this many clusters
  std::uint32_t largest_net = 300;        ///< larger nets say little about who belongs together
  std::uint32_t const* within = nullptr;  ///< nodes with different values are not clustered; may be null
};

/// Clusters nodes with the neighbours that they share the most net weight with, relative to the sizes of the
/// nets. Çatalyürek, Aykanat, IEEE TPDS 10(7), 1999; Karypis and others, IEEE TVLSI 7(1), 1999.
/// O(sum of squared net sizes up to `largest_net`).
inline hyper_clusters clustered(hyper_level const& h, hyper_cluster_rules const& rules, splitmix& random) {
  auto const nodes = h.nodes();
  std::vector<std::uint32_t> leader(nodes), order(nodes), nearby;
  std::vector<std::int64_t> weight = h.node_weight;
  std::vector<std::uint32_t> bound = h.fixed;
  std::vector<std::uint8_t> joined(nodes, 0);
  std::vector<double> rating(nodes, 0);
  for (std::uint32_t n = 0; n < nodes; ++n) leader[n] = order[n] = n;
  random.shuffle(order);
  auto left = nodes;
  auto lone = no_block;  // a cluster of nodes without nets
  for (auto const n : order) {
    if (left <= rules.least) break;
    if (joined[n]) continue;
    nearby.clear();
    if (h.node_first[n] == h.node_first[n + 1]) {
      if (lone != no_block && lone != n) nearby.push_back(lone), rating[lone] = 1;
      lone = n;
    }
    for (auto at = h.node_first[n]; at < h.node_first[n + 1]; ++at) {
      auto const e = h.net[at];
      auto const size = h.size_of(e);
      if (size > rules.largest_net) continue;
      auto const share = static_cast<double>(h.net_weight[e]) / (size - 1);
      for (auto p = h.net_first[e]; p < h.net_first[e + 1]; ++p) {
        auto const lead = leader[h.pin[p]];
        if (rating[lead] == 0) nearby.push_back(lead);
        rating[lead] += share;
      }
    }
    auto best = no_block;
    double most = 0;
    for (auto const lead : nearby) {
      auto const r = std::exchange(rating[lead], 0);
      if (lead == n || weight[lead] + weight[n] > rules.heaviest) continue;
      if (rules.within && rules.within[lead] != rules.within[n]) continue;
      if (!bound.empty() && bound[lead] != no_block && bound[n] != no_block && bound[lead] != bound[n])
        continue;
      if (best != no_block && (r < most || (r == most && weight[lead] >= weight[best]))) continue;
      best = lead, most = r;
    }
    if (best == no_block) continue;
    if (lone == n) lone = best;
    leader[n] = best;
    weight[best] += weight[n];
    joined[n] = joined[best] = 1;
    if (!bound.empty() && bound[n] != no_block) bound[best] = bound[n];
    --left;
  }
  hyper_clusters c;
  c.of.assign(nodes, no_block);
  for (std::uint32_t n = 0; n < nodes; ++n)
    if (leader[n] == n) c.of[n] = c.count++;
  for (std::uint32_t n = 0; n < nodes; ++n) c.of[n] = c.of[leader[n]];
  return c;
}

}  // namespace cleave::detail
