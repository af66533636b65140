// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "cleave/core/language.hpp"

namespace cleave {

/// What of a graph has no price: nodes of unknown cost and values of unknown bytes, which every load and
/// every bound takes as free.
struct unpriced {
  std::size_t nodes = 0, of_nodes = 0;    ///< nodes of unknown cost; all nodes
  std::size_t values = 0, of_values = 0;  ///< values of unknown bytes; all that go from node to node

  double node_share() const { return share(nodes, of_nodes); }
  double value_share() const { return share(values, of_values); }
  bool any() const { return nodes > 0 || values > 0; }

  /// Whether so little is unknown that a bound of the rest says something: at most 2 % of nodes and of
  /// values.
  bool leaves_bounds() const { return node_share() <= 0.02 && value_share() <= 0.02; }

  bool operator==(unpriced const&) const = default;

 private:
  static double share(std::size_t part, std::size_t of) {
    return of == 0 ? 0 : static_cast<double>(part) / static_cast<double>(of);
  }
};
}  // namespace cleave
