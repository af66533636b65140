// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/run/model/edge_layout.hpp"
#include "cleave/run/model/tensor_view.hpp"

namespace cleave::inline v0_2::detail {

/// The reason why layouts do not fit a dataflow. `edge` is the first that is wrong.
struct edge_layout_fault {
  static constexpr char subject[] = "layouts: ";
  enum class kind : std::uint8_t {
    edge_count,        ///< `got` layouts for `allowed` edges
    too_large,         ///< too many elements to count, or a negative extent
    batch_axis,        ///< batch axis `got` of a shape with `allowed` axes
    integer_gradient,  ///< a gradient is wanted of a value that is not floating-point
    row_count,         ///< row counts of `got` microbatches instead of `allowed`
    rows,              ///< `got` rows in microbatch `microbatch`, but the shape has `allowed`
    shared_packed,     ///< another edge carries the same value, and one of their gradients is packed
    unequal_readers,   ///< another edge carries the same value with another type or shape
    unknown_layout,    ///< the dtype or shape is missing, or the dtype `name` is unknown
    unbound_symbol,    ///< an extent is the symbol `name`, which has no value
  };
  kind what;
  std::size_t edge = 0;
  std::int64_t got = 0, allowed = 0;
  std::size_t microbatch = 0;
  std::string name = {};

  bool operator==(edge_layout_fault const&) const = default;
};

/// Says what is wrong, where, and how to fix it.
inline std::string describe(edge_layout_fault const& f) {
  using enum edge_layout_fault::kind;
  auto const got = std::to_string(f.got), allowed = std::to_string(f.allowed);
  auto const edge = "edge #" + std::to_string(f.edge);
  switch (f.what) {
    case edge_count:
      return got + " layouts for " + allowed + " edges; give each edge one";
    case too_large:
      return edge + " has a shape whose elements cannot be counted";
    case batch_axis:
      return edge + " has batch axis " + got + " of " + allowed + " axes";
    case integer_gradient:
      return edge + " wants a gradient, but its elements are integers; set gradient_use::none";
    case row_count:
      return "rows of " + got + " microbatches, but there are " + allowed +
             "; give one row count per microbatch, or leave `rows` empty";
    case rows:
      return "microbatch " + std::to_string(f.microbatch) + " has " + got + " rows, but the shape of " +
             edge + " has " + allowed + "; row counts must be from 0 to the extent of the batch axis";
    case shared_packed:
      return edge +
             " carries a value that another edge carries, and one of their gradients is packed; packed "
             "gradients cannot be added";
    case unequal_readers:
      return edge + " carries a value that another edge carries with another type or shape";
    case unknown_layout:
      return f.name.empty()
                 ? edge + " has no layout; give its element type and shape"
                 : edge + " has elements of type " + quoted(f.name) + ", which is not a known element type";
    case unbound_symbol:
      return edge + " has the extent " + quoted(f.name) + "; give a number for this symbol";
  }
  return {};
}

using edge_layout_error = fault_error<edge_layout_fault>;

/// Returns the first fault of the layouts for a dataflow and a number of microbatches, or nothing. O(edges
/// log edges + edges * microbatches with rows). Precondition: the dataflow has no fault.
inline std::optional<edge_layout_fault> find_edge_layout_fault(dataflow const& t, run_layouts const& l,
                                                               std::uint32_t microbatches) {
  using enum edge_layout_fault::kind;
  auto const number = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  if (l.edges.size() != t.edges.size())
    return edge_layout_fault{edge_count, 0, number(l.edges.size()), number(t.edges.size())};
  if (!l.rows.empty() && l.rows.size() != microbatches)
    return edge_layout_fault{row_count, 0, number(l.rows.size()), microbatches};
  std::vector<std::size_t> order(t.edges.size());
  for (std::size_t e = 0; e < order.size(); ++e) {
    order[e] = e;
    auto const& edge = l.edges[e];
    auto const count = edge.shape.count();
    if (!count || *count > std::int64_t{1} << 48) return edge_layout_fault{too_large, e};
    if (edge.batch_axis && *edge.batch_axis >= edge.shape.axes)
      return edge_layout_fault{batch_axis, e, *edge.batch_axis, edge.shape.axes};
    if (edge.gradient == gradient_use::wanted && !is_floating(edge.type))
      return edge_layout_fault{integer_gradient, e};
    for (std::size_t m = 0; edge.batch_axis && m < l.rows.size(); ++m)
      if (auto const most = edge.shape.extents[*edge.batch_axis]; l.rows[m] < 0 || l.rows[m] > most)
        return edge_layout_fault{rows, e, l.rows[m], most, m};
  }
  auto const source = [&](std::size_t e) { return std::pair(t.edges[e].from, t.edges[e].output); };
  std::ranges::sort(order, {}, [&](std::size_t e) { return std::pair(source(e), e); });
  auto returned = gradient_use::none;  // of the earlier edges with the same value
  for (std::size_t i = 0; i < order.size(); ++i) {
    auto const& b = l.edges[order[i]];
    if (i == 0 || source(order[i - 1]) != source(order[i])) {
      returned = b.gradient;
      continue;
    }
    auto a = l.edges[order[i - 1]];
    a.gradient = b.gradient;
    if (a != b) return edge_layout_fault{unequal_readers, order[i]};
    if (b.gradient == gradient_use::none) continue;
    bool const is_packed = b.gradient == gradient_use::packed || returned == gradient_use::packed;
    if (returned != gradient_use::none && is_packed) return edge_layout_fault{shared_packed, order[i]};
    returned = b.gradient;
  }
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the layouts that a dataflow specifies. Gradients are wanted of all floating-point values between
/// stages. `extent_of(symbol)` returns the optional number that a symbolic extent stands for.
/// \throws edge_layout_error if a layout is missing, its type is unknown, or a symbol has no value
template <class F>
run_layouts layouts_of(dataflow const& t, F extent_of) {
  using enum detail::edge_layout_fault::kind;
  run_layouts made;
  for (std::size_t e = 0; e < t.edges.size(); ++e) {
    if (t.edges[e].layout >= t.layouts.size()) throw detail::edge_layout_error({unknown_layout, e});
    auto const& known = t.layouts[t.edges[e].layout];
    auto const type = detail::find_element_type(known.dtype);
    if (!type) throw detail::edge_layout_error({.what = unknown_layout, .edge = e, .name = known.dtype});
    if (known.shape.size() > detail::most_axes) throw detail::edge_layout_error({too_large, e});
    std::vector<std::int64_t> extents;
    for (auto const& x : known.shape) {
      auto const* symbol = std::get_if<std::string>(&x);
      std::optional<std::int64_t> const n = symbol ? extent_of(*symbol) : std::get<std::int64_t>(x);
      if (!n) throw detail::edge_layout_error({.what = unbound_symbol, .edge = e, .name = *symbol});
      extents.push_back(*n);
    }
    bool const inside = t.edges[e].from != the_caller && t.edges[e].to != the_caller;
    made.edges.push_back(
        {.type = *type,
         .shape = std::span<std::int64_t const>(extents),
         .gradient = inside && is_floating(*type) ? gradient_use::wanted : gradient_use::none});
  }
  return made;
}

}  // namespace cleave
