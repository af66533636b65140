// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// A residual network in CSR form. Each edge is two arcs, one at each of its nodes; arcs of a node keep the
/// order of the edges. To build one, call `clear`, `edge` for each edge, then `build`. Arrays are reused.
template <std::unsigned_integral Index>
class basic_residual_network {
 public:
  using node = Index;
  struct arc {
    Index head, twin;         ///< the node it leads to, and the reverse arc of the same edge
    std::int64_t room, back;  ///< the residual capacities of this arc and of its twin
  };

  explicit basic_residual_network(std::size_t nodes = 0) { clear(nodes); }

  /// Removes everything and starts a network of `nodes` nodes.
  void clear(std::size_t nodes) {
    edges_.clear();
    first_.assign(nodes + 1, 0);
  }
  /// Adds an edge with capacity `there` from `u` to `v` and capacity `back` from `v` to `u`.
  void edge(node u, node v, std::int64_t there, std::int64_t back) {
    edges_.push_back({u, v, there, back});
    ++first_[u], ++first_[v];
  }
  /// Builds the CSR arrays. Call it after all edges are added.
  void build() {
    Index sum = 0;
    for (auto& at : first_) sum += at, at = sum;
    arcs_.resize(sum);
    for (std::size_t i = edges_.size(); i-- > 0;) {
      auto const& [u, v, there, back] = edges_[i];
      auto const b = --first_[v], a = --first_[u];
      arcs_[a] = {v, b, there, back};
      arcs_[b] = {u, a, back, there};
    }
    edges_.clear();
  }

  std::size_t nodes() const { return first_.size() - 1; }
  /// Returns the number of arcs. Precondition: `build` was called.
  std::size_t arcs() const { return arcs_.size(); }
  /// Returns the number of the first arc of a node. The arcs of a node have consecutive numbers, and those of
  /// the next node follow.
  Index first(std::size_t n) const { return first_[n]; }
  arc const& operator[](Index a) const { return arcs_[a]; }
  std::span<arc const> arcs_of(node n) const { return {arcs_.data() + first_[n], first_[n + 1] - first_[n]}; }
  /// Returns the node at which an arc begins.
  node tail(Index a) const { return arcs_[arcs_[a].twin].head; }

  /// Pushes `amount` units of flow along an arc. A negative amount takes flow back.
  void push(Index a, std::int64_t amount) {
    auto& there = arcs_[a];
    auto& twin = arcs_[there.twin];
    there.room -= amount, there.back += amount;
    twin.room += amount, twin.back -= amount;
  }

 private:
  struct named_edge {
    node u, v;
    std::int64_t there, back;
  };

  std::vector<named_edge> edges_;
  std::vector<Index> first_;
  std::vector<arc> arcs_;
};

using residual_network = basic_residual_network<std::uint32_t>;

}  // namespace cleave::detail
