// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::detail {

/// Numbers that sum up to more than can be held, or to no number. The witness: the node that the sum reached.
class overflow_error : public witness_error<std::size_t> {
 public:
  using witness_error::witness_error;
};

/// Adds bytes. \throws overflow_error that names `n` if they exceed what std::size_t holds.
template <std::unsigned_integral Index>
void add_bytes(std::size_t& sum, std::size_t bytes, basic_dense<Index> const& g, std::size_t n) {
  if (bytes > static_cast<std::size_t>(-1) - sum)
    throw overflow_error("the bytes summed up to node " + g.label(n) + " exceed " +
                             std::to_string(static_cast<std::size_t>(-1)),
                         n);
  sum += bytes;
}

/// Calls `f(v, holders)` for each state or constant value of known size that some node needs. The holders are
/// the nodes, none of them replicable, whose part must hold `v`: those that read it, and those that need a
/// replicable node that does; a node may be listed twice. O(V + E) and the replicable nodes that each value
/// reaches.
template <std::unsigned_integral Index, class F>
void each_held(basic_dense<Index> const& g, F f) {
  std::vector<std::size_t> met(g.nodes(), g.values());
  std::vector<Index> copies, holders;
  for (std::size_t v = 0; v < g.values() && !g.bytes.empty(); ++v) {
    if (g.bytes[v] == 0 || (g.from[v] != source::state && g.from[v] != source::constant)) continue;
    copies.clear();
    holders.clear();
    auto const give_to = [&](Index user) {
      if (!is_replicable(g, user))
        holders.push_back(user);
      else if (met[user] != v)
        met[user] = v, copies.push_back(user);
    };
    for (Index const user : g.users[v]) give_to(user);
    for (std::size_t i = 0; i < copies.size(); ++i)
      for (Index const made : g.results[copies[i]])
        for (Index const user : g.users[made]) give_to(user);
    if (!holders.empty()) f(static_cast<Index>(v), std::span<Index const>(holders));
  }
}

}  // namespace cleave::detail

namespace cleave {

/// The bytes that each part must hold: of state and constants, each once a part, and `node_memory[n]` for
/// each of its nodes where that is given. \throws overflow_error.
template <std::unsigned_integral Index>
std::vector<std::size_t> part_memory(basic_dense<Index> const& g, partition const& p,
                                     std::span<std::size_t const> node_memory = {}) {
  expects(p.of.size() == g.nodes(), "a partition of this graph");
  expects(node_memory.empty() || node_memory.size() == g.nodes(),
          "node_memory to have an entry for each node");
  std::vector<std::size_t> bytes(p.parts), seen(p.parts, g.values());
  detail::each_held(g, [&](Index v, std::span<Index const> holders) {
    for (Index const n : holders)
      if (auto const part = p.of[n]; part != no_part && seen[index(part)] != v) {
        seen[index(part)] = v;
        detail::add_bytes(bytes[index(part)], g.bytes[v], g, n);
      }
  });
  for (std::size_t n = 0; n < node_memory.size(); ++n)
    if (p.of[n] != no_part && !detail::is_replicable(g, n)) detail::add_bytes(bytes[index(p.of[n])], node_memory[n], g, n);
  return bytes;
}

}  // namespace cleave
