// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cleave/core/error.hpp"
#include "cleave/graph/adjacency.hpp"
#include "support/rng.hpp"

namespace cleave::testing {

using namespace detail;

enum class random_weights : std::uint8_t { none, edges, nodes, both };

/// Returns a random graph of up to `most` nodes without self-loops or parallel edges.
template <class Index = std::uint32_t, class Weight = std::int64_t>
adjacency<Index, Weight> random_adjacency(rng& dice, std::size_t most, random_weights weights) {
  auto const n = 1 + dice.below(most);
  auto const weight = [&] {
    auto const w = static_cast<Weight>(dice.below(1000));
    return std::is_floating_point_v<Weight> ? static_cast<Weight>(w / Weight{8}) : w;
  };
  bool const of_edges = weights == random_weights::edges || weights == random_weights::both;
  edge_pairs<Index, Weight> edges;
  for (std::size_t e = dice.below(3 * n + 1); e > 0; --e) {
    edges.add(static_cast<Index>(dice.below(n)), static_cast<Index>(dice.below(n)));
    if (of_edges) edges.weight.push_back(weight());
  }
  auto g = adjacency_of_edges(n, edges, repeated_edges::count_once);
  if (weights == random_weights::nodes || weights == random_weights::both)
    for (std::size_t i = 0; i < n; ++i) g.node_weight.push_back(weight());
  return g;
}

template <class Graph>
bool same_graph(Graph const& a, Graph const& b) {
  return a.offsets == b.offsets && a.targets == b.targets && a.node_weight == b.node_weight &&
         a.edge_weight == b.edge_weight;
}

/// Returns `text` with some bytes changed, removed or repeated.
inline std::string mutated(std::string text, rng& dice) {
  static constexpr std::string_view bytes = "0123456789 \n\t%#-.epacn{}[]\",:\xff";
  for (std::size_t changes = 1 + dice.below(3); changes > 0 && !text.empty(); --changes) {
    auto const at = dice.below(text.size());
    auto const length = 1 + dice.below(8);
    switch (dice.below(4)) {
      case 0:
        text[at] = bytes[dice.below(bytes.size())];
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, 1, bytes[dice.below(bytes.size())]);
        break;
      default:
        text.insert(dice.below(text.size()), text.substr(at, length));
    }
  }
  return text;
}

/// Reads `times` mutants of `text`. Each must be read or rejected with an error of the library. Returns the
/// number of mutants that were read.
template <class Read>
std::size_t read_mutants(std::string const& text, std::size_t times, rng& dice, Read read) {
  std::size_t count = 0;
  for (; times > 0; --times) try {
      read(mutated(text, dice));
      ++count;
    } catch (error const&) {
    }
  return count;
}

}  // namespace cleave::testing
