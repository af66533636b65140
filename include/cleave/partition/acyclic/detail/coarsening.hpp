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
#include "cleave/partition/units/units.hpp"

namespace cleave::inline v0_2::detail {

/// The constraints of clustering: a weight limit and, optionally, parts that clusters must not cross.
struct acyclic_cluster_rules {
  std::span<std::uint32_t const> part{};  ///< of each unit; empty: no parts
  std::int64_t most_weight = 0;           ///< weight limit of a cluster, in the first row of weights
  std::int64_t usual_weight = 0;          ///< above this weight, only very light units may join
  std::uint64_t seed = 1;
};

/// Clusters units so that the graph of clusters is acyclic again.
template <std::unsigned_integral Index>
class acyclic_clustering {
 public:
  acyclic_clustering(acyclic_level<Index> const& level, acyclic_cluster_rules const& rules)
      : level_(level), rules_(rules), weight_(level.weight[0]), of_(level.units()) {
    std::iota(of_.begin(), of_.end(), Index{});
    rank_levels();
  }

  /// Clusters in-trees: each unit joins its only successor, if no value that the unit touches costs more than
  /// the values between the two. No other path connects the two, so no cycle arises.
  std::vector<Index> trees() {
    std::vector<std::int64_t> heavy(level_.units());  // of each unit: the largest price of its values
    for (std::size_t u = 0; u < level_.units(); ++u)
      for (Index const v : level_.touched[u]) heavy[u] = (std::max)(heavy[u], level_.price[0][v]);
    for (auto at = order_.size(); at-- > 0;) {
      Index const u = order_[at];
      auto const users = level_.successors[u];
      if (users.size() == 1 && (level_.predecessors[u].empty() || dearest_between(u, users[0]) >= heavy[u]))
        join(u, users[0]);
    }
    return std::move(of_);
  }

  /// Matches pairs of units on one level or on adjacent levels. Merging two units on one level closes no
  /// cycle. Pairs on adjacent levels close no cycle if edges between such pairs only lead from earlier pairs
  /// to later ones. The rules of Herrmann et al., SISC 41(4), 2019, section 4.1, allow neither kind of pair.
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
  static constexpr std::size_t most_pins = 64;  // values with more pins are skipped, because they say little
                                                // about locality

  void rank_levels() {
    std::vector<Index> missing(level_.units());
    top_.resize(level_.units());
    for (std::size_t u = 0; u < level_.units(); ++u) {
      missing[u] = static_cast<Index>(level_.predecessors[u].size());
      if (missing[u] == 0) order_.push_back(static_cast<Index>(u));
    }
    for (std::size_t i = 0; i < order_.size(); ++i)
      for (Index const user : level_.successors[order_[i]]) {
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
    of_[u] = root;  // users are visited first, so no unit has joined `u` yet
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
    return std::ranges::none_of(level_.successors[a], [&](Index user) {
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

/// Merges values that touch the same clusters and adds their prices. O(pins log values).
/// \pre The rows of `touching` are ascending.
template <std::unsigned_integral Index>
void merge_equal_values(csr<Index>& touching, std::vector<std::vector<std::int64_t>>& price) {
  std::vector<std::pair<std::uint64_t, Index>> by_hash;
  for (std::size_t v = 0; v < touching.rows(); ++v) {
    std::uint64_t hash = touching[v].size();
    for (Index const u : touching[v]) hash = (hash ^ u) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
    by_hash.emplace_back(hash, static_cast<Index>(v));
  }
  std::ranges::sort(by_hash);
  std::vector<Index> same(touching.rows());  // of each value: the first equal value
  for (std::size_t i = 0; i < by_hash.size(); ++i) {
    same[by_hash[i].second] = by_hash[i].second;
    for (std::size_t end = i; end > 0 && by_hash[end - 1].first == by_hash[i].first; --end)
      if (auto const first = same[by_hash[end - 1].second];
          std::ranges::equal(touching[first], touching[by_hash[i].second])) {
        same[by_hash[i].second] = first;
        break;
      }
  }
  csr<Index> merged;
  std::vector<Index> row_of(touching.rows());
  for (std::size_t v = 0; v < touching.rows(); ++v) {
    if (same[v] != v) {
      for (auto& row : price) row[row_of[same[v]]] += row[v];
      continue;
    }
    row_of[v] = static_cast<Index>(merged.rows());
    for (auto& row : price) row[row_of[v]] = row[v];
    for (Index const u : touching[v]) merged.add(u);
    merged.close();
  }
  for (auto& row : price) row.resize(merged.rows());
  touching = std::move(merged);
}

/// Numbers clusters by their first unit and returns their number. On entry, `of` holds a representative unit
/// for each unit's cluster.
template <std::unsigned_integral Index>
std::size_t number_clusters(std::vector<Index>& of) {
  std::vector<Index> number(of.size(), none<Index>);
  Index count = 0;
  for (auto& cluster : of) {
    if (number[cluster] == none<Index>) number[cluster] = count++;
    cluster = number[cluster];
  }
  return count;
}

/// Computes the memory items of clusters. O(units + shared memory items).
template <std::unsigned_integral Index>
void contract_memory(unit_memory<Index> const& fine, std::span<Index const> of, std::size_t clusters,
                     unit_memory<Index>& coarse) {
  if (fine.own.empty()) return;
  coarse.own.resize(clusters);
  for (std::size_t u = 0; u < fine.own.size(); ++u) coarse.own[of[u]] += fine.own[u];
  coarse.shared = fine.shared;
  std::vector<std::pair<Index, Index>> pairs;
  for (std::size_t u = 0; u < fine.own.size(); ++u)
    for (Index const s : fine.predecessors[u]) pairs.emplace_back(of[u], s);
  coarse.predecessors = rows_of((std::max)(clusters, fine.shared.size()), pairs);
}

/// Contracts clusters to the units of the coarser level. `of` holds the cluster of each unit.
/// O(edges + pins), plus the sorting in `merge_equal_values`.
/// \pre The graph of clusters is acyclic.
template <std::unsigned_integral Index>
acyclic_level<Index> contracted(acyclic_level<Index> const& fine, std::span<Index const> of,
                                std::size_t clusters) {
  acyclic_level<Index> level;
  std::vector<std::pair<Index, Index>> pairs;
  for (std::size_t u = 0; u < fine.units(); ++u)
    for (Index const need : fine.predecessors[u])
      if (of[u] != of[need]) pairs.emplace_back(of[u], of[need]);
  level.predecessors = rows_of(clusters, pairs);
  level.successors = users_of(level.predecessors, clusters);

  level.price.resize(fine.price.size());
  std::vector<Index> row;
  for (std::size_t v = 0; v < fine.values(); ++v) {
    row.clear();
    for (Index const u : fine.touching[v]) row.push_back(of[u]);
    std::ranges::sort(row);
    row.erase(std::unique(row.begin(), row.end()), row.end());
    if (row.size() < 2) continue;
    for (Index const u : row) level.touching.add(u);
    level.touching.close();
    for (std::size_t i = 0; i < level.price.size(); ++i) level.price[i].push_back(fine.price[i][v]);
  }
  merge_equal_values(level.touching, level.price);
  level.touched = users_of(level.touching, clusters);

  for (auto const& weights : fine.weight) {
    auto& sums = level.weight.emplace_back(clusters);
    for (std::size_t u = 0; u < fine.units(); ++u) sums[of[u]] += weights[u];
  }
  contract_memory<Index>(fine.memory, of, clusters, level.memory);
  if (!fine.window.earliest.empty()) {
    level.window.earliest.resize(clusters);
    level.window.latest.resize(clusters);
    for (std::size_t u = 0; u < fine.units(); ++u) {
      level.window.earliest[of[u]] = fine.window.earliest[u];
      level.window.latest[of[u]] = fine.window.latest[u];
    }
  }
  return level;
}

/// The coarser levels of a graph, and the mappings between levels.
template <std::unsigned_integral Index>
struct acyclic_hierarchy {
  std::vector<acyclic_level<Index>> levels;  ///< without the finest level
  std::vector<std::vector<Index>> cluster;   ///< of each unit of the next finer level: its cluster
};

/// Parameters of coarsening.
struct coarsen_options {
  std::span<std::uint32_t const> part{};  ///< of each unit: clusters do not cross parts; empty: no parts
  std::size_t enough = 200;               ///< approximate number of units of the coarsest level
  std::int64_t most_weight = 0;           ///< weight limit of a cluster
  std::uint64_t seed = 1;
};

/// Coarsens by in-trees and pairs in turn, until few units are left or a level shrinks by less than a
/// twentieth. O((edges + pins) log).
template <std::unsigned_integral Index>
acyclic_hierarchy<Index> coarsened(acyclic_level<Index> const& finest, coarsen_options const& o) {
  acyclic_hierarchy<Index> h;
  std::vector<std::uint32_t> part(o.part.begin(), o.part.end());
  auto const* level = &finest;
  h.levels.reserve(64);
  for (bool trees = true; level->units() > o.enough && h.levels.size() < 64; trees = !trees) {
    auto const sum = std::accumulate(level->weight[0].begin(), level->weight[0].end(), std::int64_t{});
    auto const mean = sum / static_cast<std::int64_t>(level->units());
    acyclic_cluster_rules const rules{part, o.most_weight, 4 * mean + 1, o.seed + h.levels.size()};
    acyclic_clustering<Index> clustering(*level, rules);
    auto of = trees ? clustering.trees() : clustering.pairs();
    auto const before = level->units();
    auto const clusters = number_clusters(of);
    if (clusters + before / 20 >= before) {
      if (!trees) break;
      continue;
    }
    if (!part.empty()) {
      std::vector<std::uint32_t> coarse(clusters);
      for (std::size_t u = 0; u < before; ++u) coarse[of[u]] = part[u];
      part = std::move(coarse);
    }
    h.levels.push_back(contracted<Index>(*level, of, clusters));
    h.cluster.push_back(std::move(of));
    level = &h.levels.back();
  }
  return h;
}

}  // namespace cleave::detail
