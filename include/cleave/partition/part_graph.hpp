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
#include "cleave/partition/needs.hpp"
#include "cleave/partition/partition.hpp"

namespace cleave {

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
  auto const lives = [&](std::size_t n) { return p.of[n] != no_part && !is_replicable(s, n); };

  part_graph parts;
  parts.first_node.assign(p.parts, s.nodes());
  csr<std::size_t> part_of;  // of a node: its part, if it has one that counts
  for (std::size_t n = 0; n < s.nodes(); ++n) {
    if (p.of[n] != no_part) {
      auto& first = parts.first_node[index(p.of[n])];
      first = std::min(first, n);
      if (lives(n)) part_of.add(index(p.of[n]));
    }
    part_of.close();
  }
  auto const members = users_of(part_of, p.parts);

  std::vector<need> needs;
  std::vector<std::uint32_t> met_for(p.parts, index(no_part));
  for (std::uint32_t to = 0; to < p.parts; ++to)
    for (auto const n : members[to]) {
      auto const meet = [&](std::size_t m) {
        if (p.of[m] == no_part) return;
        auto const from = index(p.of[m]);
        if (from != to && std::exchange(met_for[from], to) != to) needs.push_back({from, to, n});
      };
      each_needed_node(s, p, n, meet);
    }
  std::ranges::sort(needs, {}, [](need const& x) { return std::pair(x.from, x.where); });
  for (std::size_t i = 0; auto const from : std::views::iota(std::uint32_t{}, p.parts)) {
    for (; i < needs.size() && needs[i].from == from; ++i) parts.dependents.add(needs[i].to);
    parts.dependents.close();
  }
  return parts;
}

}  // namespace cleave
