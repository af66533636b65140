// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "cleave/core/bytes.hpp"  // 16_GiB
#include "cleave/core/ids.hpp"
#include "cleave/core/language.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/snapshot_arrays.hpp"

namespace cleave::inline v0_2 {

/// An assignment of nodes to parts, indexed by the node's position in `nodes()`.
struct partition {
  std::vector<part_id> of;  ///< part of each node; `no_part` if it has none
  std::uint32_t parts = 0;  ///< number of parts; all part ids are below it

  bool operator==(partition const&) const = default;
};
/// A setting that is either the same for all parts, or has one value per part, or is not given (empty).
/// Converts from both forms: `{.memory = 16_GiB}` and `{.memory = {16_GiB, 8_GiB}}`.
template <class T>
class per_part {
 public:
  per_part() = default;
  per_part(T all) : values_{all}, shared_(true) {}
  per_part(std::initializer_list<T> each) : values_(each) {}
  per_part(std::vector<T> each) : values_(std::move(each)) {}

  bool empty() const { return values_.empty(); }
  bool same() const { return empty() || shared_; }  ///< true if all parts share one value or none was given
  std::size_t size() const { return values_.size(); }
  T const& operator[](std::size_t part) const { return values_[shared_ ? 0 : part]; }

  /// True if there is a value for each of `parts` parts, or none was given.
  bool covers(std::size_t parts) const { return empty() || shared_ || size() == parts; }

 private:
  std::vector<T> values_;
  bool shared_ = false;
};
/// Returns the nodes of each part in ascending order, as rows of a CSR array. Nodes without a part are left
/// out. O(n + k) for n nodes and k parts.
inline detail::csr<std::size_t> part_members(partition const& p) {
  detail::csr<std::size_t> members;
  members.first.assign(p.parts + std::size_t{1}, 0);
  for (auto const part : p.of)
    if (index(part) < p.parts) ++members.first[index(part) + std::size_t{1}];
  for (std::size_t i = 0; i < p.parts; ++i) members.first[i + 1] += members.first[i];
  members.item.resize(members.first.back());
  auto next = members.first;
  for (std::size_t n = 0; n < p.of.size(); ++n)
    if (index(p.of[n]) < p.parts) members.item[next[index(p.of[n])]++] = n;
  return members;
}
}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Calls `f` with each predecessor of node `n`, possibly more than once. Predecessors are the producers of
/// its operands, the nodes of `after[n]`, and the producers of companions. Companions of an operand count
/// only if `crosses(producer)` returns true; the producer is `none` for values from outside the graph.
/// Replicable nodes are skipped.
template <std::unsigned_integral Index, class Crosses, class F>
void each_predecessor(basic_snapshot_arrays<Index> const& g, std::size_t n, Crosses crosses, F f) {
  auto const need = [&](Index m) {
    if (m != none<Index> && !is_replicable(g, m)) f(m);
  };
  for (Index const v : g.operands[n]) {
    Index const m = g.producer[v];
    need(m);
    if (m != none<Index> && is_replicable(g, m)) continue;  // a copy needs no companions
    if (crosses(m))
      for (Index const c : g.companions[v]) need(g.producer[c]);
  }
  for (Index const m : g.after[n]) need(m);
}

/// Calls `f(m, n)` for each node `n` and each predecessor `m` that it has under any partition. Neither is
/// replicable. O(V + E).
template <std::unsigned_integral Index, class F>
void each_dependency(basic_snapshot_arrays<Index> const& g, F f) {
  auto const may_cross = [](Index) { return true; };
  for (Index n = 0; n < g.nodes(); ++n)
    if (!is_replicable(g, n)) each_predecessor(g, n, may_cross, [&](Index m) { f(m, n); });
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Defines whether devices that differ in speed, link or memory may be permuted.
enum class device_order : std::uint8_t {
  given,  ///< part i runs on device i
  any,    ///< devices may be assigned to parts in any order
};
}  // namespace cleave
