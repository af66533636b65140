// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/check_rungs.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/graph/label.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave {

/// A partition and what its parts are called.
template <class Label>
struct labelled_partition : partition {
  std::vector<Label> label;  ///< of a part
};

}  // namespace cleave

namespace cleave::detail {

/// How a label is kept: text by value, so that no label dangles.
template <class T>
using label_t =
    std::conditional_t<std::convertible_to<T, std::string_view>, std::string, std::remove_cvref_t<T>>;

/// Numbers labels by first appearance: in a table where they have a hash, else by comparison with all known.
template <class Label>
class label_numbering {
 public:
  std::uint32_t insert(Label label) {
    if constexpr (handle<Label>) {
      return known_.insert(label);
    } else {
      std::uint32_t i = 0;
      while (i < known_.size() && !(known_[i] == label)) ++i;
      if (i == known_.size()) known_.push_back(std::move(label));
      return i;
    }
  }
  std::vector<Label> labels() && {
    if constexpr (handle<Label>)
      return known_.handles();
    else
      return std::move(known_);
  }

 private:
  std::conditional_t<handle<Label>, numbering<Label, std::uint32_t>, std::vector<Label>> known_;
};

/// `label_of` of each of `nodes`, in order, as parts.
template <class Nodes, class F>
auto assign_each(Nodes const& nodes, F& label_of) {
  using label = label_t<std::invoke_result_t<F&, std::ranges::range_value_t<Nodes>>>;
  label_numbering<label> known;
  labelled_partition<label> p;
  for (auto n : nodes) p.of.push_back(part_id{known.insert(label(label_of(n)))});
  p.label = std::move(known).labels();
  p.parts = static_cast<std::uint32_t>(p.label.size());
  return p;
}

}  // namespace cleave::detail

namespace cleave {

/// Puts nodes with equal labels `f(n)` into one part; parts are numbered by first appearance. `f` is called
/// once for each node, in order. A label is anything that compares: a number, an enumerator, text. Expected
/// O(V) where labels have a hash, else O(V parts).
template <dataflow_graph Graph, class F>
  requires std::invocable<F&, node_t<Graph>>
auto assign(Graph const& g, F f) {
  return detail::assign_each(g.nodes(), f);
}

template <detail::unfinished_graph Graph, class Labels>
detail::refused assign(Graph const&, Labels const&) {
  detail::refuse_graph<Graph>();
}

/// The same by position, on a snapshot.
template <std::unsigned_integral Index, class F>
  requires std::invocable<F&, std::size_t>
auto assign(basic_dense<Index> const& g, F f) {
  return detail::assign_each(std::views::iota(std::size_t{}, g.nodes()), f);
}

}  // namespace cleave

namespace cleave::detail {

/// An array that has not one entry a node. The witness: the position from which entries or nodes are missing.
class assignment_size_error : public witness_error<std::size_t> {
 public:
  using witness_error::witness_error;
};

}  // namespace cleave::detail

namespace cleave {

/// The parts as they are given, one number a node; parts are numbered as the array does, up to its largest.
/// \throws assignment_size_error where the array has not one entry a node, naming the first node without.
template <dataflow_graph Graph>
partition assign(Graph const& g, std::vector<std::uint32_t> const& part_of) {
  partition p;
  for (auto n : g.nodes()) {
    auto const at = p.of.size();
    if (at >= part_of.size())
      throw detail::assignment_size_error("the assignment has " + std::to_string(part_of.size()) +
                                      " entries: none for node " + label(g, n, at),
                                  at);
    p.of.push_back(part_id{part_of[at]});
    if (p.of[at] != no_part && part_of[at] >= p.parts) p.parts = part_of[at] + 1;
  }
  if (part_of.size() > p.of.size())
    throw detail::assignment_size_error("the assignment has " + std::to_string(part_of.size()) +
                                    " entries, the graph " + std::to_string(p.of.size()) + " nodes",
                                p.of.size());
  return p;
}

/// Cuts the list of nodes before each marker: a marker opens the next part and belongs to it. The first part
/// holds what comes before the first marker; it does not exist where the first node is one. O(V).
template <dataflow_graph Graph, class F>
  requires std::predicate<F&, node_t<Graph>>
partition assign_at_markers(Graph const& g, F is_marker) {
  partition p;
  for (auto n : g.nodes()) {
    bool const opens = is_marker(n);
    if (opens || p.parts == 0) ++p.parts;
    p.of.push_back(part_id{p.parts - 1});
  }
  return p;
}

}  // namespace cleave
