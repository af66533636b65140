// SPDX-License-Identifier: MIT
#pragma once
#include <string_view>
#include <vector>

#include "support/archetype.hpp"

namespace archetype {

/// An undirected graph of two nodes and one edge. It has only `nodes()` and `neighbours(n)`, and cannot be
/// copied or moved.
class undirected {
 public:
  undirected() = default;
  undirected(undirected const&) = delete;
  undirected& operator=(undirected const&) = delete;
  std::vector<node> const& nodes() const { return nodes_; }
  once<node> neighbours(node n) const { return once<node>({n == nodes_[0] ? nodes_[1] : nodes_[0]}); }

 private:
  std::vector<node> nodes_{node(1), node(2)};
};

struct undirected_weighted : undirected {
  number weight(node) const { return {}; }
};
struct undirected_edges : undirected {
  once<number> edge_weights(node) const { return once<number>({number{}}); }
};
struct undirected_named : undirected {
  text name(node) const { return {}; }
};

}  // namespace archetype
