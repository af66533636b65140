// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
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
#include "cleave/core/nearest_names.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/check_graph_concepts.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/label.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::inline v0_2 {

/// A partition with a label per part.
template <class Label>
struct labelled_partition : partition {
  std::vector<Label> label;  ///< label of each part
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The type in which a label is stored: text by value, so that no label dangles.
template <class T>
using label_t =
    std::conditional_t<std::convertible_to<T, std::string_view>, std::string, std::remove_cvref_t<T>>;

/// Numbers labels by first appearance. Uses a hash table if labels have a hash, else linear search.
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

/// Returns the partition of `nodes` by their labels `label_of(n)`, called in order. The range may be a view
/// that cannot be iterated as a constant, such as `std::views::filter`.
template <class Nodes, class F>
auto assign_each(Nodes&& nodes, F& label_of) {
  using label = label_t<std::invoke_result_t<F&, std::ranges::range_value_t<Nodes>>>;
  label_numbering<label> known;
  labelled_partition<label> p;
  for (auto n : nodes) p.of.push_back(part_id{known.insert(label(label_of(n)))});
  p.label = std::move(known).labels();
  p.parts = static_cast<std::uint32_t>(p.label.size());
  return p;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Partitions nodes by label: nodes with equal labels `f(n)` share a part. Parts are numbered by first
/// appearance. `f` is called once per node, in order. A label is any comparable type: a number, an
/// enumerator, text. Expected O(V) if labels have a hash, else O(V parts).
template <dataflow_graph Graph, class F>
  requires std::invocable<F&, node_t<Graph>>
auto assign(Graph const& g, F f) {
  return detail::assign_each(g.nodes(), f);
}

template <detail::unfinished_graph Graph, class Labels>
detail::refused assign(Graph const&, Labels const&) {
  detail::refuse_graph<Graph>();
}

/// Partitions the nodes of a snapshot by label. `f` receives positions.
template <std::unsigned_integral Index, class F>
  requires std::invocable<F&, std::size_t>
auto assign(basic_snapshot_arrays<Index> const& g, F f) {
  return detail::assign_each(std::views::iota(std::size_t{}, g.nodes()), f);
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown for an array of the wrong size. The witness is the first position without an entry or without a
/// node.
using assignment_size_error = tagged_error<struct assignment_size_tag, std::size_t>;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Converts an array of part numbers, one per node, into a partition. The number of parts is the largest
/// entry plus 1.
/// \throws assignment_size_error if the array does not have one entry per node; the message names the first
/// node without.
template <dataflow_graph Graph>
partition assign(Graph const& g, std::vector<std::uint32_t> const& part_of) {
  partition p;
  for (auto n : g.nodes()) {
    auto const at = p.of.size();
    if (at >= part_of.size())
      detail::raise(detail::assignment_size_error("the assignment has " + std::to_string(part_of.size()) +
                                                      " entries, but none for node " + label(g, n, at),
                                                  at));
    p.of.push_back(part_id{part_of[at]});
    if (p.of[at] != no_part && part_of[at] >= p.parts) p.parts = part_of[at] + 1;
  }
  if (part_of.size() > p.of.size())
    detail::raise(detail::assignment_size_error("the assignment has " + std::to_string(part_of.size()) +
                                                    " entries, but the graph has " +
                                                    std::to_string(p.of.size()) + " nodes",
                                                p.of.size()));
  return p;
}

/// Cuts the list of nodes before each marker. A marker opens the next part and belongs to it. The first part
/// holds the nodes before the first marker, and is omitted if the first node is a marker. O(V).
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

namespace cleave::inline v0_2::detail {

/// Thrown for a module in the list of cuts that contains no node. The witness is its path.
using module_path_error = tagged_error<struct module_path_tag, std::string>;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Cuts a flat list of nodes after modules. A part ends with the last node inside a module of `cuts`, at any
/// depth; modules are given by paths of names joined by dots. Nodes after the last cut form one more part. If
/// modules have bodies, `split_hierarchy` cuts inside them. O(V depth + cuts).
/// \throws module_path_error if a module contains no node; the message suggests the nearest paths.
template <hierarchical_graph Graph>
partition assign_after_modules(Graph const& g, std::vector<std::string> const& cuts) {
  numbering<std::string, std::uint32_t> modules;
  std::vector<std::size_t> last;  // per module: the last node inside it
  std::size_t nodes = 0;
  for (auto n : g.nodes()) {
    std::string_view const path = g.path(n);
    for (auto end = path.find('.'); !path.empty(); end = path.find('.', end + 1)) {
      if (auto const m = modules.insert(std::string(path.substr(0, end))); m == last.size())
        last.push_back(nodes);
      else
        last[m] = nodes;
      if (end == path.npos) break;
    }
    ++nodes;
  }
  std::vector<char> ends(nodes);
  for (auto const& cut : cuts) {
    auto const m = modules.find(cut);
    if (m == none<std::uint32_t>)
      detail::raise(detail::module_path_error(
          "the graph has no node in module " + quoted(cut) + suggestion(near_names(cut, modules.handles())),
          cut));
    ends[last[m]] = 1;
  }
  partition p{{}, nodes == 0 ? 0u : 1u};
  for (std::size_t n = 0; n < nodes; ++n) {
    p.of.push_back(part_id{p.parts - 1});
    if (ends[n] && n + 1 < nodes) ++p.parts;
  }
  return p;
}

/// An assignment of a node, given by its name or by `#` and its position in `nodes()`, to a part.
struct named_part {
  std::string node, part;
};

/// Thrown for an invalid entry or a node without one. The witness is the entry, or the number of entries.
using assignment_error = tagged_error<struct assignment_tag, std::size_t>;

/// Partitions `g` by a list with one entry per node. Parts are numbered by their first node. A name that
/// several nodes share cannot be used. Replicable nodes need no entry; without one they have no part.
/// Expected O(V + entries), more if an entry is invalid.
/// \throws assignment_error for an unknown node (the message suggests the nearest names), an ambiguous name,
/// a node listed twice, a node without an entry, or a negative part.
template <named_graph Graph>
labelled_partition<std::string> assign_by_name(Graph const& g, std::vector<named_part> const& entries) {
  constexpr auto none_yet = static_cast<std::size_t>(-1);
  std::vector<std::string> names;
  for (auto n : g.nodes()) names.emplace_back(g.name(n));
  numbering<std::string, std::uint32_t> known;
  std::vector<std::size_t> first, count;  // per known name: its first node, and its number of nodes
  for (std::size_t n = 0; n < names.size(); ++n) {
    if (known.insert(names[n]) == first.size()) first.push_back(n), count.push_back(0);
    ++count[known.find(names[n])];
  }
  auto const refuse = [&](std::size_t entry, std::string const& why) {
    detail::raise(assignment_error("assignment: entry #" + std::to_string(entry) + " " + why, entry));
  };
  auto const position = [&](std::size_t entry) -> std::size_t {
    auto const& typed = entries[entry].node;
    if (auto const at = known.find(typed); at != none<std::uint32_t> && !typed.empty()) {
      if (count[at] > 1)
        refuse(entry, "names " + quoted(typed) + ", which is the name of " + std::to_string(count[at]) +
                          " nodes; write # and a position instead");
      return first[at];
    }
    std::size_t n = 0;
    bool digits = typed.size() > 1 && typed.size() < 12 && typed[0] == '#';
    for (std::size_t i = 1; i < typed.size() && digits; ++i) {
      digits = typed[i] >= '0' && typed[i] <= '9';
      n = 10 * n + static_cast<std::size_t>(typed[i] - '0');
    }
    if (digits && n < names.size()) return n;
    refuse(entry, "names " + quoted(typed) + ", but the graph has no such node" +
                      (digits ? "; it has " + std::to_string(names.size()) + " nodes"
                              : suggestion(nearest_names(typed, names))));
    return 0;
  };

  std::vector<std::size_t> entry_of(names.size(), none_yet);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    auto const n = position(i);
    if (entry_of[n] != none_yet)
      refuse(i, "names " + quoted(entries[i].node) + " again; entry #" + std::to_string(entry_of[n]) +
                    " already assigns it");
    auto const& part = entries[i].part;
    if (part.empty() || (part[0] == '-' && part.size() > 1 && part[1] >= '0' && part[1] <= '9'))
      refuse(i, "puts " + quoted(entries[i].node) + " into part " + quoted(part) +
                    "; a part must be a word or a number from 0 up");
    entry_of[n] = i;
  }
  std::size_t n = 0;
  detail::label_numbering<std::string> parts;
  labelled_partition<std::string> p;
  for (auto const node : g.nodes()) {
    bool needs_entry = true;
    if constexpr (replicating_graph<Graph>) needs_entry = !g.replicable(node);
    if (entry_of[n] == none_yet && needs_entry)
      detail::raise(
          assignment_error("assignment: there is no entry for node " + label(g, node, n), entries.size()));
    p.of.push_back(entry_of[n] == none_yet ? no_part : part_id{parts.insert(entries[entry_of[n]].part)});
    ++n;
  }
  p.label = std::move(parts).labels();
  p.parts = static_cast<std::uint32_t>(p.label.size());
  return p;
}
}  // namespace cleave
