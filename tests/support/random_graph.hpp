// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/partition.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

namespace cleave::testing {

/// The shape of a random graph. A chance of c means one in c; 0 means never.
struct random_shape {
  std::size_t nodes = 10;
  std::size_t most_operands = 3;
  std::size_t reach = 0;                        ///< how many of the latest values a node may read; 0 = all
  std::size_t most_weight = 9, most_bytes = 9;  ///< integers from 0 on, so that sums are exact
  std::size_t states = 0;                       ///< shared by random nodes
  std::size_t several_results = 4, replicable = 0, tied = 0, ordered = 0;  ///< chances per node
};

/// Returns a random acyclic graph whose node order is topological.
inline snapshot_arrays random_graph(rng& r, random_shape const& shape) {
  snapshot_builder b;
  std::vector<std::uint32_t> made, everywhere, single;
  auto const chance = [&](std::size_t c) { return c != 0 && r.one_in(c); };
  auto const bytes = [&] { return r.below(shape.most_bytes + 1); };
  auto const recent = [&](std::vector<std::uint32_t> const& list) {
    auto const window = shape.reach == 0 ? list.size() : std::min(shape.reach, list.size());
    return list[list.size() - 1 - r.below(window)];
  };
  auto const input = b.input(bytes());
  for (std::size_t i = 0; i < shape.states; ++i) everywhere.push_back(b.state(bytes()));
  for (std::size_t n = 0; n < shape.nodes; ++n) {
    bool const copied = chance(shape.replicable);
    std::vector<std::uint32_t> operands;
    auto const count = r.below(shape.most_operands + 1);
    for (std::size_t i = 0; i < count; ++i) {
      auto const& from = copied || (!everywhere.empty() && r.one_in(4)) ? everywhere : made;
      if (!from.empty()) operands.push_back(recent(from));
    }
    if (operands.empty() && !copied) operands.push_back(input);
    std::vector<std::size_t> sizes(chance(shape.several_results) ? 2 : 1);
    for (auto& size : sizes) size = bytes();
    auto const results = b.nodes(static_cast<double>(r.below(shape.most_weight + 1)), operands, sizes);
    auto& known = copied ? everywhere : made;
    known.insert(known.end(), results.begin(), results.end());
    auto const earlier = [&] { return static_cast<std::uint32_t>(r.below(n)); };
    if (copied) b.replicable();
    if (n > 0 && chance(shape.ordered)) b.after(earlier());
    if (!copied && !single.empty() && chance(shape.tied))
      b.together(b.last(), single[r.below(single.size())]);
    if (!copied) single.push_back(b.last());
  }
  return b.build();
}

/// Assigns nodes to random parts. Some may be empty, and edges may run backward.
inline partition random_partition(rng& r, std::size_t nodes, std::uint32_t parts) {
  partition p{{}, parts};
  for (std::size_t n = 0; n < nodes; ++n) p.of.push_back(part_id{static_cast<std::uint32_t>(r.below(parts))});
  return p;
}

}  // namespace cleave::testing
