// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/cycle.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/model/validity.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::inline v0_2::detail {

/// Counts the dependencies between parts while nodes move, and keeps a topological order of the parts.
template <std::unsigned_integral Index>
class part_dependencies {
 public:
  part_dependencies() = default;
  /// O(V + E + dependencies between parts).
  /// \pre the parts of `p` have a topological order
  part_dependencies(basic_snapshot_arrays<Index> const& s, partition const& p)
      : dependents_(p.parts), rank_(p.parts) {
    std::vector<std::pair<Index, Index>> pairs;  // all dependencies that any partition can have
    each_dependency(s, [&](Index m, Index n) { pairs.emplace_back(m, n); });
    successors_ = rows_of(s.nodes(), pairs);
    for (Index n = 0; n < s.nodes(); ++n) count(s, p, n, 1);
    put_in_order();
  }

  /// Moves the nodes `moving`, all of one part, to part `to` in `p`. Returns false and changes nothing if
  /// parts would then depend on each other in a cycle. O(dependencies of and on the nodes), plus
  /// O(dependencies of all parts) if the order changes.
  bool move(basic_snapshot_arrays<Index> const& s, partition& p, std::span<Index const> moving, part_id to) {
    std::vector<Index> rows(moving.begin(), moving.end());
    for (Index const m : moving) rows.insert(rows.end(), successors_[m].begin(), successors_[m].end());
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    auto const from = p.of[moving.front()];
    auto const put = [&](part_id part) {
      for (Index const n : rows) count(s, p, n, -1);
      for (Index const m : moving) p.of[m] = part;
      backward_ = false;
      for (Index const n : rows) count(s, p, n, 1);
    };
    put(to);
    if (!backward_ || put_in_order()) return true;
    put(from);
    return false;
  }

  template <class F>
  void each_dependent(std::uint32_t part, F f) const {
    for (auto const& d : dependents_[part]) f(d.part);
  }

 private:
  struct dependent {
    std::uint32_t part;
    std::size_t needs;
  };

  void count(basic_snapshot_arrays<Index> const& s, partition const& p, Index n, int sign) {
    if (is_replicable(s, n)) return;
    auto const to = index(p.of[n]);
    each_predecessor(s, p, n, [&](std::size_t m) {
      auto const from = index(p.of[m]);
      if (from == to) return;
      auto& list = dependents_[from];
      auto at = std::ranges::lower_bound(list, to, {}, &dependent::part);
      if (at == list.end() || at->part != to) at = list.insert(at, {to, 0});
      sign > 0 ? ++at->needs : --at->needs;
      if (at->needs == 0) list.erase(at);
      if (sign > 0 && rank_[from] >= rank_[to]) backward_ = true;
    });
  }

  /// Recomputes the ranks by Kahn's algorithm. Returns false and keeps the ranks if the parts have a cycle.
  bool put_in_order() {
    auto const order = order_of_arcs(static_cast<std::uint32_t>(dependents_.size()), [&](std::uint32_t part) {
      return dependents_[part] | std::views::transform(&dependent::part);
    });
    if (order.size() < dependents_.size()) return false;
    for (std::size_t i = 0; i < order.size(); ++i) rank_[order[i]] = i;
    return true;
  }

  csr<Index> successors_;                           // by node
  std::vector<std::vector<dependent>> dependents_;  // by part, ascending
  std::vector<std::size_t> rank_;                   // by part: its place in the order
  bool backward_ = false;                           // a dependency runs against the ranks
};

}  // namespace cleave::detail
