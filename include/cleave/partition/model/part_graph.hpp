// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/partition/model/needs.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::detail {

/// `each_needed_node` under a partition: companions come along only with operands from outside `n`'s part.
template <std::unsigned_integral Index, class F>
void each_needed_node(basic_dense<Index> const& s, partition const& p, std::size_t n, F f) {
  auto const crosses = [&](Index m) { return m == none<Index> || p.of[m] != p.of[n]; };
  each_needed_node(s, n, crosses, f);
}

/// Which parts need values or effects of which.
struct part_graph {
  std::vector<std::size_t> first_node;  ///< of a part: in program order; `nodes()` for an empty part
  csr<std::uint32_t> dependents;        ///< of a part: those that need it, by where they first do
};

/// O(V + E + parts log parts). Replicable nodes and nodes without a part need nothing and are needed by
/// nobody.
template <std::unsigned_integral Index>
part_graph part_graph_of(basic_dense<Index> const& s, partition const& p) {
  struct need {
    std::uint32_t from, to;
    std::size_t where;  // the first node of `to` that needs `from`
  };
  part_graph parts;
  parts.first_node.assign(p.parts, s.nodes());
  std::vector<need> needs;
  numbering<std::uint64_t, std::size_t> met;                      // pairs of parts
  std::vector<std::uint32_t> last(p.parts, none<std::uint32_t>);  // of a part: whom it needed last
  for (std::size_t n = 0; n < s.nodes(); ++n) {
    if (p.of[n] == no_part) continue;
    auto const to = index(p.of[n]);
    parts.first_node[to] = (std::min)(parts.first_node[to], n);
    if (is_replicable(s, n)) continue;
    each_needed_node(s, p, n, [&](std::size_t m) {
      auto const from = index(p.of[m]);
      if (p.of[m] == p.of[n] || p.of[m] == no_part || std::exchange(last[to], from) == from) return;
      if (met.insert(std::uint64_t{from} << 32 | to) == needs.size()) needs.push_back({from, to, n});
    });
  }
  std::ranges::sort(needs, {}, [](need const& x) { return std::pair(x.from, x.where); });
  for (std::size_t i = 0; auto const from : std::views::iota(std::uint32_t{}, p.parts)) {
    for (; i < needs.size() && needs[i].from == from; ++i) parts.dependents.add(needs[i].to);
    parts.dependents.close();
  }
  return parts;
}

}  // namespace cleave::detail
