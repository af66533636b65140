// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/formats/graph_files/cost_dag.hpp"
#include "cleave/graph/costed_module_graph.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/partition/slices/balance.hpp"

namespace cleave::inline v0_2 {

/// Counts the calls of `g` without a cost; a cost of 0 counts as given. If bytes cost something, also counts
/// the results of unknown size that other calls read. Replicable calls are left out. \throws cost_error
inline unpriced unpriced_calls(module_graph const& g, double cost_per_byte) {
  unpriced u;
  std::vector<char> is_read(g.list().size());
  for (auto const n : g.nodes())
    for (auto const m : g.operands(n)) is_read[m] = 1;
  for (auto const n : g.nodes()) {
    auto const known = detail::cost_of(g, n);
    if (known.replicable) continue;
    ++u.of_nodes;
    u.nodes += !known.cost.has_value();
    if (is_read[n] == 0) continue;
    ++u.of_values;
    u.values += cost_per_byte > 0 && known.bytes == 0;
  }
  return u;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Converts the calls of a module graph (docs/graph_json.md) to operations, in the order of `nodes()`, which
/// is what `balance` places. Placeholders, attributes and the output are left out and cost no transfer.
///
/// An arc has the bytes of the value that is read, and each byte costs `cost_per_byte`. If no call has bytes
/// and bytes are free, each arc costs 1. If no call has a cost, each costs 1, and `lacking` counts all of
/// them.
/// \throws cost_error
inline cost_dag cost_dag_of(module_graph const& g, double cost_per_byte = 0) {
  cost_dag d;
  bool priced = false, sized = false;
  std::vector<std::uint32_t> place(g.list().size(), none<std::uint32_t>), reader = place;
  for (auto const n : g.nodes()) {
    auto const known = cost_of(g, n);
    auto const at = place[n] = static_cast<std::uint32_t>(d.nodes());
    d.work.push_back(known.cost.value_or(0));
    d.name.push_back(g[n].name);
    priced |= known.cost.has_value(), sized |= known.bytes > 0;
    for (auto const m : g.operands(n))  // operands are visited once each
      if (place[m] != none<std::uint32_t> && std::exchange(reader[m], at) != at)
        d.arcs.push_back({place[m], at, static_cast<double>(cost_of(g, m).bytes)});
    for (auto const m : g[n].after)
      if (place[m] != none<std::uint32_t>) d.after.emplace_back(place[m], at);
  }
  d.cost_per_byte = cost_per_byte;
  d.lacking = unpriced_calls(g, cost_per_byte);
  if (!priced) d.work.assign(d.nodes(), 1);
  if (!sized && cost_per_byte == 0)
    for (auto& a : d.arcs) a.cost = 1;
  return d;
}

}  // namespace cleave::detail
