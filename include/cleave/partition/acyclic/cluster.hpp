// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/partition/acyclic/level.hpp"

namespace cleave::detail {

/// Which units may share a cluster: those of one part, where parts are given, up to a weight.
struct acyclic_cluster_rules {
  std::span<std::uint32_t const> part{};  ///< of a unit; empty: any may
  std::int64_t most_weight = 0;           ///< of a cluster, in the first row of weights
  std::int64_t usual_weight = 0;          ///< above it only units that hardly weigh anything join
  std::uint64_t seed = 1;
};

/// Clusters of units whose graph is again acyclic; `acyclic_clusters` is its one use.
template <std::unsigned_integral Index>
class acyclic_clustering {
 public:
  acyclic_clustering(acyclic_level<Index> const& level, acyclic_cluster_rules const& rules)
      : level_(level), rules_(rules), weight_(level.weight[0]), of_(level.units()) {
    std::iota(of_.begin(), of_.end(), Index{});
    rank_levels();
  }

  /// Units join what alone reads them, or what alone they read: no other path connects the two.
  std::vector<Index> trees() {
    std::vector<std::int64_t> heavy(level_.units());  // of a unit: the dearest value it touches
    for (std::size_t u = 0; u < level_.units(); ++u)
      for (Index const v : level_.touched[u]) heavy[u] = (std::max)(heavy[u], level_.price[0][v]);
    for (auto at = order_.size(); at-- > 0;) {
      Index const u = order_[at];
      auto const users = level_.needed_by[u];
      if (users.size() == 1 && (level_.needs[u].empty() || dearest_between(u, users[0]) >= heavy[u]))
        join(u, users[0]);
    }
    return std::move(of_);
  }

  /// Pairs of units. Two on one level make no cycle. Nor do two on neighbouring levels, as long as of any two
  /// such pairs on the same levels only the earlier has an edge into the later. Herrmann et al., SISC 41(4),
  /// 2019, §4.1 allow neither.
  std::vector<Index> pairs() {
    mate_.assign(level_.units(), none<Index>);
    rating_.assign(level_.units(), 0);
    std::vector<Index> visit(level_.units());
    std::iota(visit.begin(), visit.end(), Index{});
    splitmix(rules_.seed).shuffle(visit);
    for (Index const u : visit)
      if (mate_[u] == none<Index>) pair_up(u);
    for (std::size_t u = 0; u < of_.size(); ++u)
      if (mate_[u] != none<Index>) of_[u] = (std::min)(static_cast<Index>(u), mate_[u]);
    return std::move(of_);
  }

 private:
  static constexpr std::size_t most_pins = 64;  // values that more units touch say little

  void rank_levels() {
    std::vector<Index> missing(level_.units());
    top_.resize(level_.units());
    for (std::size_t u = 0; u < level_.units(); ++u) {
      missing[u] = static_cast<Index>(level_.needs[u].size());
      if (missing[u] == 0) order_.push_back(static_cast<Index>(u));
    }
    for (std::size_t i = 0; i < order_.size(); ++i)
      for (Index const user : level_.needed_by[order_[i]]) {
        top_[user] = (std::max)(top_[user], static_cast<Index>(top_[order_[i]] + 1));
        if (--missing[user] == 0) order_.push_back(user);
      }
  }

  bool alike(Index a, Index b) const {
    if (!rules_.part.empty() && rules_.part[a] != rules_.part[b]) return false;
    auto const& [earliest, latest] = level_.window;
    return earliest.empty() || (earliest[a] == earliest[b] && latest[a] == latest[b]);
  }

  bool light_enough(std::int64_t a, std::int64_t b) const {
    return a + b <= rules_.most_weight &&
           (a + b <= rules_.usual_weight || (std::min)(a, b) <= rules_.usual_weight / 16);
  }

  void join(Index u, Index other) {
    Index const root = of_[other];
    if (!alike(u, other) || !light_enough(weight_[root], weight_[u])) return;
    weight_[root] += weight_[u];
    of_[u] = root;  // users are visited first, so nothing has joined `u` yet
  }

  std::int64_t dearest_between(Index u, Index user) const {
    std::int64_t most = 0;
    for (Index const v : level_.touched[u])
      for (Index const other : level_.touching[v].first((std::min)(most_pins, level_.touching[v].size())))
        if (other == user) most = (std::max)(most, level_.price[0][v]);
    return most;
  }

  void pair_up(Index u) {
    met_.clear();
    for (Index const v : level_.touched[u]) {
      auto const pins = level_.touching[v];
      if (pins.size() > most_pins) continue;
      auto const share = level_.price[0][v] / static_cast<std::int64_t>(pins.size() - 1) + 1;
      for (Index const other : pins) {
        if (other == u) continue;
        if (rating_[other] == 0) met_.push_back(other);
        rating_[other] += share;
      }
    }
    Index best = none<Index>;
    for (Index const other : met_)
      if (mate_[other] == none<Index> && alike(u, other) && light_enough(weight_[u], weight_[other]) &&
          (best == none<Index> || better(other, best)) && may_pair(u, other))
        best = other;
    for (Index const other : met_) rating_[other] = 0;
    if (best == none<Index>) return;
    mate_[u] = best;
    mate_[best] = u;
  }
  bool better(Index a, Index b) const {
    return rating_[a] != rating_[b]   ? rating_[a] > rating_[b]
           : weight_[a] != weight_[b] ? weight_[a] < weight_[b]
                                      : a < b;
  }
  bool may_pair(Index a, Index b) const {
    if (top_[a] == top_[b]) return true;
    if (top_[a] > top_[b]) std::swap(a, b);
    if (top_[b] != top_[a] + 1) return false;
    return std::ranges::none_of(level_.needed_by[a], [&](Index user) {
      return user != b && mate_[user] != none<Index> && top_[mate_[user]] + 1 == top_[user] &&
             top_[user] == top_[b];
    });
  }

  acyclic_level<Index> const& level_;
  acyclic_cluster_rules const& rules_;
  std::vector<std::int64_t> weight_;
  std::vector<Index> of_, top_, order_, mate_, met_;
  std::vector<std::int64_t> rating_;
};

}  // namespace cleave::detail
