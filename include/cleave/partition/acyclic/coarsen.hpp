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

#include "cleave/graph/csr.hpp"
#include "cleave/partition/acyclic/cluster.hpp"
#include "cleave/partition/acyclic/level.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::detail {

/// Values that the same clusters touch are one: rows of equal lists are merged and their prices added.
/// `touching` has ascending rows. O(touches log values).
template <std::unsigned_integral Index>
void merge_equal_values(csr<Index>& touching, std::vector<std::vector<std::int64_t>>& price) {
  std::vector<std::pair<std::uint64_t, Index>> by_hash;
  for (std::size_t v = 0; v < touching.rows(); ++v) {
    std::uint64_t hash = touching[v].size();
    for (Index const u : touching[v]) hash = (hash ^ u) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
    by_hash.emplace_back(hash, static_cast<Index>(v));
  }
  std::ranges::sort(by_hash);
  std::vector<Index> same(touching.rows());  // of a value: the first that is like it
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

/// Numbers clusters, of which one unit each stands for, by their first unit; returns how many.
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

/// What clusters hold. O(units + needs).
template <std::unsigned_integral Index>
void contract_memory(unit_memory<Index> const& fine, std::span<Index const> of, std::size_t clusters,
                     unit_memory<Index>& coarse) {
  if (fine.own.empty()) return;
  coarse.own.resize(clusters);
  for (std::size_t u = 0; u < fine.own.size(); ++u) coarse.own[of[u]] += fine.own[u];
  coarse.shared = fine.shared;
  std::vector<std::pair<Index, Index>> pairs;
  for (std::size_t u = 0; u < fine.own.size(); ++u)
    for (Index const s : fine.needs[u]) pairs.emplace_back(of[u], s);
  coarse.needs = rows_of((std::max)(clusters, fine.shared.size()), pairs);
}

/// The level above: clusters as units. `of` numbers the cluster of each unit, whose graph has no cycle.
/// O(edges + touches), and log for what `merge_equal_values` sorts.
template <std::unsigned_integral Index>
acyclic_level<Index> contracted(acyclic_level<Index> const& fine, std::span<Index const> of,
                                std::size_t clusters) {
  acyclic_level<Index> level;
  std::vector<std::pair<Index, Index>> pairs;
  for (std::size_t u = 0; u < fine.units(); ++u)
    for (Index const need : fine.needs[u])
      if (of[u] != of[need]) pairs.emplace_back(of[u], of[need]);
  level.needs = rows_of(clusters, pairs);
  level.needed_by = users_of(level.needs, clusters);

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

/// Coarser and coarser levels, and of each unit of a level its cluster on the next.
template <std::unsigned_integral Index>
struct acyclic_hierarchy {
  std::vector<acyclic_level<Index>> levels;  ///< the finest is not among them
  std::vector<std::vector<Index>> cluster;   ///< of a unit of the level below: its cluster
};

/// What is asked of a hierarchy.
struct coarsen_options {
  std::span<std::uint32_t const> part{};  ///< of a unit: clusters do not cross parts; empty: they may
  std::size_t enough = 200;               ///< units of the coarsest level, about
  std::int64_t most_weight = 0;           ///< of a cluster
  std::uint64_t seed = 1;
};

/// Trees and pairs by turns until few units are left or they do not get fewer by a twentieth.
/// O((edges + touches) log).
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
