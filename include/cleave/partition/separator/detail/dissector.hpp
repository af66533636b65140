// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/partition/separator/detail/multilevel_separator.hpp"
#include "cleave/partition/separator/detail/plain_graph.hpp"
#include "cleave/partition/separator/detail/separation.hpp"

namespace cleave::inline v0_2::detail {

/// Groups nodes with equal closed neighbourhoods, which any order may keep together. Returns the group of
/// each node, numbered by first members. O(n + m) expected.
inline std::vector<std::uint32_t> equal_neighbours(plain_graph const& g) {
  constexpr std::uint32_t none = 0xffffffff;
  auto const nodes = g.nodes();
  std::vector<std::pair<std::uint64_t, std::uint32_t>> by_sum(nodes);
  auto const hashed = [](std::uint64_t n) { return (n + 1) * 0x9e3779b97f4a7c15u >> 7; };
  for (std::uint32_t n = 0; n < nodes; ++n) {
    auto sum = hashed(n);
    for (auto e = g.offsets[n]; e < g.offsets[n + 1]; ++e) sum += hashed(g.targets[e]);
    by_sum[n] = {sum, n};
  }
  std::sort(by_sum.begin(), by_sum.end());
  std::vector<std::uint32_t> leader(nodes, none), seen_by(nodes, none);
  for (std::size_t i = 0; i < nodes; ++i) {
    auto const n = by_sum[i].second;
    if (leader[n] != none) continue;
    leader[n] = n;
    if (i + 1 == nodes || by_sum[i + 1].first != by_sum[i].first) continue;
    seen_by[n] = n;
    for (auto e = g.offsets[n]; e < g.offsets[n + 1]; ++e) seen_by[g.targets[e]] = n;
    for (auto j = i + 1; j < nodes && by_sum[j].first == by_sum[i].first; ++j) {
      auto const other = by_sum[j].second;
      bool equal = leader[other] == none && seen_by[other] == n && g.degree(other) == g.degree(n);
      for (auto e = g.offsets[other]; equal && e < g.offsets[other + 1]; ++e)
        equal = seen_by[g.targets[e]] == n;
      if (equal) leader[other] = n;
    }
  }
  std::vector<std::uint32_t> group(nodes);
  std::uint32_t groups = 0;
  for (std::uint32_t n = 0; n < nodes; ++n) group[n] = leader[n] == n ? groups++ : group[leader[n]];
  return group;
}

/// Returns the graph of the groups. The weight of a group is that of its nodes. O(n + m).
inline plain_graph grouped(plain_graph const& g, std::vector<std::uint32_t> const& group) {
  plain_graph to;
  std::vector<std::uint32_t> seen_by(g.nodes(), 0xffffffff);
  for (std::uint32_t n = 0; n < g.nodes(); ++n) {
    if (group[n] < to.weight.size()) {
      to.weight[group[n]] += g.weight[n];
      continue;
    }
    seen_by[group[n]] = group[n];
    for (auto e = g.offsets[n]; e < g.offsets[n + 1]; ++e) {
      auto const other = group[g.targets[e]];
      if (std::exchange(seen_by[other], group[n]) != group[n]) to.targets.push_back(other);
    }
    to.offsets.push_back(static_cast<std::uint32_t>(to.targets.size()));
    to.weight.push_back(g.weight[n]);
  }
  return to;
}

/// Eliminates nodes of degree at most 2, one after the other. Their neighbours become adjacent.
class thin_elimination {
 public:
  explicit thin_elimination(plain_graph const& g) : eliminated_(g.nodes(), 0), rows_(g.nodes()) {
    std::vector<std::uint32_t> open;
    for (std::uint32_t n = 0; n < g.nodes(); ++n) {
      rows_[n] = {g.offsets[n], g.degree(n)};
      if (g.degree(n) <= 2) open.push_back(n);
    }
    list_ = g.targets;
    while (!open.empty()) {
      auto const n = open.back();
      open.pop_back();
      if (eliminated_[n] || rows_[n].size > 2) continue;
      if (rows_[n].size == 2 && !may_join(list_[rows_[n].first], list_[rows_[n].first + 1])) continue;
      eliminated_[n] = 1;
      auto const first = rows_[n].first;
      if (rows_[n].size == 2) {
        auto const a = list_[first], b = list_[first + 1];
        bool const joined = contains(a, b);
        replace(a, n, b, joined), replace(b, n, a, joined);
        if (rows_[a].size <= 2) open.push_back(a);
        if (rows_[b].size <= 2) open.push_back(b);
      } else if (rows_[n].size == 1) {
        auto const a = list_[first];
        replace(a, n, n, true);
        if (rows_[a].size <= 2) open.push_back(a);
      }
    }
  }

  /// Returns the graph of the remaining nodes. `nodes` receives them in increasing order.
  plain_graph remaining(std::vector<std::uint32_t>& nodes) const {
    nodes.clear();
    std::vector<std::uint32_t> number(rows_.size());
    for (std::uint32_t n = 0; n < rows_.size(); ++n)
      if (!eliminated_[n]) number[n] = static_cast<std::uint32_t>(nodes.size()), nodes.push_back(n);
    plain_graph g;
    for (auto const n : nodes) {
      for (std::uint32_t i = 0; i < rows_[n].size; ++i)
        g.targets.push_back(number[list_[rows_[n].first + i]]);
      g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
    }
    g.weight.assign(nodes.size(), 1);
    return g;
  }

 private:
  static constexpr std::uint32_t longest_search = 64;
  struct row {
    std::uint32_t first, size;
  };

  bool may_join(std::uint32_t a, std::uint32_t b) const {
    return (std::max)(rows_[a].size, rows_[b].size) <= longest_search;
  }
  bool contains(std::uint32_t n, std::uint32_t other) const {
    auto const first = list_.begin() + rows_[n].first;
    return std::find(first, first + rows_[n].size, other) != first + rows_[n].size;
  }
  void replace(std::uint32_t n, std::uint32_t from, std::uint32_t to, bool erase) {
    auto const first = list_.begin() + rows_[n].first;
    auto const at = std::find(first, first + rows_[n].size, from);
    *at = erase ? *(first + --rows_[n].size) : to;
  }

  std::vector<std::uint8_t> eliminated_;
  std::vector<row> rows_;
  std::vector<std::uint32_t> list_;
};

/// Effort of a nested dissection.
struct dissection_config {
  separator_config separator;
  double imbalance = 0.3;
  std::uint32_t leaf = 200;           ///< smaller pieces are not separated
  bool keep_heavy_separators = true;  ///< otherwise a piece without a light separator is not separated
};

/// Separates a graph recursively, without recursive calls. Gives each node the block in which it is
/// eliminated: separators come after the pieces that they separate.
class dissector {
 public:
  dissector(plain_graph const& g, dissection_config const& config, std::uint64_t seed)
      : block_of(g.nodes(), 0), config_(config), random_(seed) {
    piece whole;
    whole.node.resize(g.nodes());
    for (std::uint32_t n = 0; n < g.nodes(); ++n) whole.node[n] = n;
    whole.graph = g;
    open_.push_back(std::move(whole));
    while (!open_.empty()) {
      auto p = std::move(open_.back());
      open_.pop_back();
      if (p.node.size() <= config_.leaf)
        finish(p);
      else if (!split_components(p))
        separate(std::move(p));
    }
  }

  std::vector<std::uint32_t> block_of;
  std::vector<std::size_t> separator_sizes;  ///< the topmost first; depth first
  bool found_heavy_separators = false;

 private:
  struct piece {
    plain_graph graph;
    std::vector<std::uint32_t> node;  // ids in the whole graph
    std::uint32_t first = 0;          // number of the first position
  };

  void finish(piece const& p) {
    for (auto const n : p.node) block_of[n] = p.first;
  }

  /// Opens a piece for each component if there are several. Small components share a piece.
  bool split_components(piece const& p) {
    auto const nodes = p.graph.nodes();
    std::vector<std::uint8_t> seen(nodes, 0);
    std::vector<std::uint32_t> component, small;
    auto first = p.first;
    auto const open_all = [&](std::vector<std::uint32_t>& part) {
      if (part.empty()) return;
      std::sort(part.begin(), part.end());
      open(p, part, first);
      first += static_cast<std::uint32_t>(part.size());
      part.clear();
    };
    for (std::uint32_t from = 0; from < nodes; ++from) {
      if (seen[from]) continue;
      component.assign(1, from);
      seen[from] = 1;
      for (std::size_t i = 0; i < component.size(); ++i)
        for (auto e = p.graph.offsets[component[i]]; e < p.graph.offsets[component[i] + 1]; ++e)
          if (auto const other = p.graph.targets[e]; !std::exchange(seen[other], std::uint8_t{1}))
            component.push_back(other);
      if (component.size() == nodes) return false;
      if (component.size() > config_.leaf) {
        open_all(component);
        continue;
      }
      if (small.size() + component.size() > config_.leaf) open_all(small);
      small.insert(small.end(), component.begin(), component.end());
    }
    open_all(small);
    return true;
  }

  void open(piece const& from, std::vector<std::uint32_t> const& nodes, std::uint32_t first) {
    piece p;
    p.graph = induced(from.graph, nodes, number_);
    p.first = first;
    p.node.reserve(nodes.size());
    for (auto const n : nodes) p.node.push_back(from.node[n]);
    open_.push_back(std::move(p));
  }

  /// Returns whether a separator has more than twice as many nodes as a plane that cuts a cube of this size.
  static bool is_heavy(separation const& s) {
    auto const nodes = static_cast<double>(s.weight[0] + s.weight[1] + s.weight[2]);
    auto const half = static_cast<double>(s.weight[2]) / 2;
    return half * half * half > nodes * nodes;
  }

  void separate(piece p) {
    auto const limit = side_limit_of(p.graph.total(), config_.imbalance);
    auto const s = multilevel_separator(p.graph, limit, config_.separator).best(random_);
    std::vector<std::uint32_t> part[3];
    for (std::uint32_t n = 0; n < p.graph.nodes(); ++n) part[s.of[n]].push_back(n);
    if (part[0].empty() || part[1].empty()) return finish(p);
    found_heavy_separators = found_heavy_separators || is_heavy(s);
    if (!config_.keep_heavy_separators && is_heavy(s)) return finish(p);
    auto first = p.first + p.graph.nodes() - static_cast<std::uint32_t>(part[2].size());
    for (auto const n : part[2]) block_of[p.node[n]] = first;
    separator_sizes.push_back(static_cast<std::size_t>(s.weight[2]));
    first -= static_cast<std::uint32_t>(part[1].size());
    open(p, part[1], first);
    open(p, part[0], p.first);
  }

  dissection_config config_;
  splitmix random_;
  std::vector<piece> open_;
  std::vector<std::uint32_t> number_;
};

}  // namespace cleave::detail
