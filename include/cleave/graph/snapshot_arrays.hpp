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

namespace cleave {

/// Where a value comes from.
enum class source : std::uint8_t { node, input, state, constant };

}  // namespace cleave

namespace cleave::detail {

/// Returns whether values from this source are held by each stage that reads them and never sent: state and
/// constants.
constexpr bool is_held(source from) { return from == source::state || from == source::constant; }

}  // namespace cleave::detail

namespace cleave {

/// A graph as flat arrays: all that an algorithm sees. Nodes are numbered by their position in `nodes()`,
/// values as they first appear. A *value* is what a slot holds between two writes; a *slot* is a value's
/// handle, or memory that is written in place (then each write makes a new value in the same slot). An
/// ability that the graph lacks is an empty array; whoever has costs from elsewhere fills `weight` and
/// `bytes` by hand.
template <std::unsigned_integral Index>
struct basic_snapshot_arrays {
  using index_type = Index;

  detail::csr<Index> operands;    ///< of a node: values, in argument order, then what its bodies capture
  detail::csr<Index> results;     ///< of a node: values, in order, numbered consecutively
  detail::csr<Index> after;       ///< of a node: nodes that it must follow although no value says so
  detail::csr<Index> companions;  ///< of a value: values that a stage which is given it is given too
  detail::csr<Index> users;       ///< of a value: nodes that read it, each once, in order

  std::vector<Index> producer;                ///< of a value: its node, or none
  std::vector<Index> slot;                    ///< of a value
  std::vector<Index> latest;                  ///< of a slot: its last value
  std::vector<source> from;                   ///< of a value
  std::vector<Index> inputs, state, outputs;  ///< values, in the caller's order

  std::vector<Index> group;        ///< of a node: the first node of those that must share its stage
  std::vector<char> replicable;    ///< of a node: copied to its users, never sent
  std::vector<double> weight;      ///< of a node
  std::vector<std::size_t> bytes;  ///< of a value; 0 = unknown
  std::vector<char> portable;      ///< of a value: it may cross a boundary
  std::vector<Index> storage;      ///< of a value: equal where memory is shared
  detail::csr<Index, char> name;   ///< of a node; may be empty

  std::size_t nodes() const { return operands.rows(); }
  std::size_t values() const { return producer.size(); }

  /// What messages call a node: its name and position, `conv1 (#4)`, or `#4`.
  std::string label(std::size_t n) const {
    auto const text = name[n];
    return cleave::label(std::string_view(text.data(), text.size()), n);
  }
};

using snapshot_arrays = basic_snapshot_arrays<std::uint32_t>;

}  // namespace cleave

namespace cleave::detail {

/// Whether `n` is copied to its users; false in a graph that knows no such nodes.
template <std::unsigned_integral Index>
bool is_replicable(basic_snapshot_arrays<Index> const& g, std::size_t n) {
  return n < g.replicable.size() && g.replicable[n] != 0;
}

}  // namespace cleave::detail
