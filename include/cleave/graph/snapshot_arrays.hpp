// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/graph/csr.hpp"
#include "cleave/graph/label.hpp"

namespace cleave::inline v0_2 {

/// The origin of a value.
enum class source : std::uint8_t { node, input, state, constant };

/// Returns true if values of this origin (state and constants) are held by each stage that reads them and
/// never sent.
constexpr bool is_held(source from) { return from == source::state || from == source::constant; }

/// A graph as flat arrays, which are all that an algorithm sees. Nodes are numbered by their position in
/// `nodes()`, values in order of first appearance.
///
/// A *slot* is a value's handle, or memory that is written in place. A *value* is the content of a slot
/// between two writes: each write makes a new value in the same slot. An ability that the graph lacks is an
/// empty array. If costs come from elsewhere, fill `weight` and `bytes` by hand.
template <std::unsigned_integral Index>
struct basic_snapshot_arrays {
  using index_type = Index;

  detail::csr<Index> operands;  ///< of a node: values, in argument order, then the captures of its bodies
  detail::csr<Index> results;   ///< of a node: values, in order, numbered consecutively
  detail::csr<Index> after;  ///< of a node: nodes that it must follow although it reads none of their values
  detail::csr<Index> companions;  ///< of a value: values that are sent wherever it is sent
  detail::csr<Index> users;       ///< of a value: nodes that read it, each once, in order

  std::vector<Index> producer;                ///< of a value: the node that makes it, or none
  std::vector<Index> slot;                    ///< of a value: the slot that holds it
  std::vector<Index> latest;                  ///< of a slot: its last value
  std::vector<source> from;                   ///< of a value: its origin
  std::vector<Index> inputs, state, outputs;  ///< values, in the caller's order

  std::vector<Index> group;        ///< of a node: the first of the nodes that must share its stage
  std::vector<char> replicable;    ///< of a node: 1 if it is copied to its users and never sent
  std::vector<double> weight;      ///< of a node: the cost of running it
  std::vector<std::size_t> bytes;  ///< of a value: its size; 0 if unknown
  std::vector<Index> carried;      ///< of a value: the value that becomes it in the next run, or none
  std::vector<char> portable;      ///< of a value: 1 if it may cross a boundary
  std::vector<Index> storage;      ///< of a value: equal for values that share memory
  detail::csr<Index, char> name;   ///< of a node: its characters; may be empty

  std::size_t nodes() const { return operands.rows(); }
  std::size_t values() const { return producer.size(); }

  /// Returns the label of a node in messages: its name and position, `conv1 (#4)`, or `#4`.
  std::string label(std::size_t n) const { return detail::label_of_row(name, n); }
};

using snapshot_arrays = basic_snapshot_arrays<std::uint32_t>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns true if `n` is copied to its users; false in a graph without replicable nodes.
template <std::unsigned_integral Index>
bool is_replicable(basic_snapshot_arrays<Index> const& g, std::size_t n) {
  return n < g.replicable.size() && g.replicable[n] != 0;
}

}  // namespace cleave::detail
