// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "cleave/graph/csr.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/partition/model/part_memory.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::detail {

/// What units make their part hold. What several units need is held once.
template <std::unsigned_integral Index>
struct unit_memory {
  std::vector<std::size_t> own;     ///< of a unit: bytes that it alone needs
  std::vector<std::size_t> shared;  ///< bytes of what several units need
  csr<Index> needs;                 ///< of a unit: which of those it needs, each once

  /// Of a part that has this unit alone.
  std::size_t alone(std::size_t unit) const {
    std::size_t bytes = own[unit];
    for (Index const s : needs[unit]) bytes += shared[s];
    return bytes;
  }
  /// Of a part that has all units.
  std::size_t total() const {
    return std::accumulate(own.begin(), own.end(),
                           std::accumulate(shared.begin(), shared.end(), std::size_t{}));
  }
};

/// Counts as `part_memory` does. O(V + E), and what `each_held` takes.
/// \throws overflow_error if all bytes together overflow.
template <std::unsigned_integral Index>
unit_memory<Index> memory_of(basic_dense<Index> const& g, unit_graph<Index> const& u,
                             std::span<std::size_t const> node_memory = {}) {
  unit_memory<Index> m;
  m.own.resize(u.size());
  std::size_t total = 0;
  for (std::size_t n = 0; n < node_memory.size(); ++n)
    if (u.of[n] != none<Index>) {
      add_bytes(total, node_memory[n], g, n);
      m.own[u.of[n]] += node_memory[n];
    }
  csr<Index> sharers;  // of what several units need: those units
  std::vector<Index> seen(u.size(), none<Index>);
  each_held(g, [&](Index v, std::span<Index const> holders) {
    auto const before = sharers.item.size();
    for (Index const n : holders)
      if (std::exchange(seen[u.of[n]], v) != v) sharers.add(u.of[n]);
    add_bytes(total, g.bytes[v], g, holders.front());
    if (sharers.item.size() - before == 1) {
      m.own[sharers.item.back()] += g.bytes[v];
      sharers.item.pop_back();
    } else {
      m.shared.push_back(g.bytes[v]);
      sharers.close();
    }
  });
  m.needs = users_of(sharers, u.size());
  return m;
}

/// For each end j of a slice of `order` the first begin i from which units i … j-1 fit into `limit`; j where
/// not even the last does. It never falls. O(units + needs): two pointers.
template <std::unsigned_integral Index>
std::vector<Index> first_fitting(unit_memory<Index> const& m, std::span<Index const> order,
                                 std::size_t limit) {
  std::vector<Index> first{0}, count(m.shared.size());
  std::size_t bytes = 0, begin = 0;
  for (std::size_t j = 0; j < order.size(); ++j) {
    bytes += m.own[order[j]];
    for (Index const s : m.needs[order[j]])
      if (count[s]++ == 0) bytes += m.shared[s];
    for (; bytes > limit; ++begin) {
      bytes -= m.own[order[begin]];
      for (Index const s : m.needs[order[begin]])
        if (--count[s] == 0) bytes -= m.shared[s];
    }
    first.push_back(static_cast<Index>(begin));
  }
  return first;
}

}  // namespace cleave::detail
