// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/graph/concepts.hpp"
#include "cleave/graph/numbering.hpp"

namespace cleave::inline v0_2::detail {

/// The facts about one piece of memory that a first pass over an `aliasing_graph` collects.
template <class Value>
struct memory_cell {
  bool written = false;        ///< a node overwrites it
  bool viewed = false;         ///< two of its handles are alive at once (such as a cache and its slices)
  bool known = false;          ///< one of its handles has been seen
  std::vector<Value> outside;  ///< its handles that no node makes

  /// Returns true if the memory is written through one handle at a time. Each write then makes a new version
  /// of one slot.
  bool versioned() const { return written && !viewed; }
  /// Returns true if the memory is written and viewed. All nodes that read or write it then share a stage,
  /// because a view cannot be rebuilt from a version that was sent under another handle.
  bool shared() const { return written && viewed; }
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The memory behind the values of an `aliasing_graph`. Finds which memory is written, and which of that has
/// several handles alive at once. Expected O(V + E).
template <class Graph>
class memory {
 public:
  using value = value_t<Graph>;
  using storage = std::remove_cvref_t<decltype(std::declval<Graph const&>().storage(std::declval<value>()))>;

  explicit memory(Graph const& g) : graph_(&g) {
    numbering<value, std::size_t> made;
    if constexpr (function_graph<Graph>)
      for (auto v : g.inputs()) meet(v, made);
    if constexpr (stateful_graph<Graph>)
      for (auto v : g.state()) meet(v, made);
    if constexpr (closed_graph<Graph>)
      for (auto v : g.constants()) meet(v, made);
    for (auto n : g.nodes()) {
      std::vector<std::size_t> overwritten;
      for (auto v : g.operands(n)) meet(v, made);
      for (auto v : g.overwrites(n)) {
        auto const c = meet(v, made);
        cells_[c].written = true;
        overwritten.push_back(c);
      }
      for (auto v : detail::results_of(g, n)) {
        auto const c = number(v);
        bool const in_place = std::find(overwritten.begin(), overwritten.end(), c) != overwritten.end();
        cells_[c].viewed |= cells_[c].known && !in_place;
        cells_[c].known = true;
        made.insert(v);
      }
    }
  }

  /// Returns the number of the memory of `v`, for use as an index of tables.
  std::size_t number(value const& v) {
    auto const c = storages_.insert(graph_->storage(v));
    if (c == cells_.size()) cells_.emplace_back();
    return c;
  }
  /// Returns the facts about the memory with this number.
  detail::memory_cell<value> const& cell(std::size_t number) const { return cells_[number]; }
  std::size_t cells() const { return cells_.size(); }

 private:
  /// Records a use of `v`, which comes from outside if no node has made it, and returns the number of its
  /// memory.
  std::size_t meet(value const& v, numbering<value, std::size_t> const& made) {
    auto const number = this->number(v);
    auto& c = cells_[number];
    c.known = true;
    auto const known = outside_.size();
    if (made.find(v) == none<std::size_t> && outside_.insert(v) == known) {
      c.outside.push_back(v);
      c.viewed |= c.outside.size() > 1;
    }
    return number;
  }

  Graph const* graph_;
  numbering<storage, std::size_t> storages_;
  std::vector<detail::memory_cell<value>> cells_;
  numbering<value, std::size_t> outside_;
};

}  // namespace cleave
