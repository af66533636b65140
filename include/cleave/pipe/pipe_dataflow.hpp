// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "cleave/pipe/pipe_plan.hpp"
#include "cleave/split/dataflow.hpp"

namespace cleave::inline v0_2 {

/// The layouts that a pipe dataflow must have. With `between_stages`, every value sent between stages must
/// have a known layout. With `known_ones`, unknown layouts are left out.
enum class layout_need : std::uint8_t { known_ones, between_stages };

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown if the shape of a value sent between stages is unknown. The witness is the edge.
using layout_error = witness_error<dataflow::edge>;

/// Returns the first edge between two stages whose layout is unknown, if any. O(edges).
inline std::optional<dataflow::edge> find_unknown_layout(dataflow const& t) {
  for (auto const& e : t.edges)
    if (e.from != the_caller && e.to != the_caller && e.layout >= t.layouts.size()) return e;
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the dataflow of a pipe as plain data. For each value and reader it has the sending stage, the
/// output and input positions, the bytes, and the layout (dtype and shape).
///
/// \param layout_of `layout_of(v)` returns the optional `value_layout` of the value at position `v`; it is
/// called once for each value that is sent
/// \throws layout_error if `need` is `between_stages` and a layout is unknown
///
/// O(size of the plan).
template <std::unsigned_integral Index, class F>
dataflow pipe_dataflow_of(basic_snapshot_arrays<Index> const& s, basic_pipe_plan<Index> const& p, F layout_of,
                          layout_need need = layout_need::known_ones) {
  auto t = dataflow_of(s, p.plan);
  constexpr std::uint32_t not_asked = 0xfffffffe, unknown = 0xffffffff;
  std::vector<std::uint32_t> layout(s.values(), not_asked);
  for (auto& e : t.edges) {
    auto& known = layout[e.value];
    if (known == not_asked) {
      known = unknown;
      if (std::optional<value_layout> l = layout_of(static_cast<Index>(e.value))) {
        known = static_cast<std::uint32_t>(t.layouts.size());
        t.layouts.push_back(std::move(*l));
      }
    }
    e.layout = known;
  }
  if (need == layout_need::between_stages)
    if (auto const e = detail::find_unknown_layout(t)) {
      Index const m = s.producer[e->value];
      auto const value = m == none<Index> ? "value #" + std::to_string(e->value) + ", state,"
                                          : "the value of node " + s.label(m);
      throw detail::layout_error(value + " goes from " + stage_text(e->from) + " to " + stage_text(e->to) +
                                     " but its shape is unknown; the receiver must know its size: record "
                                     "shapes, or use layout_need::known_ones",
                                 *e);
    }
  return t;
}

/// Returns the layout of the result of `n`: its shape, and its metadata `dtype`. Returns nothing if the shape
/// is unknown.
inline std::optional<value_layout> layout_of(module_node const& n) {
  if (!n.shape) return std::nullopt;
  value_layout known{{}, *n.shape};
  for (auto const& [key, value] : n.metadata)
    if (key == "dtype" && !value.empty())
      if (auto const* text = std::get_if<std::string>(&value.front())) known.dtype = *text;
  return known;
}

/// Returns the dataflow of a module_graph's pipe, with layouts from the shapes and the metadata `dtype` of
/// its nodes.
/// \throws layout_error
inline dataflow pipe_dataflow_of(module_pipe const& p, layout_need need = layout_need::known_ones) {
  auto const& s = p.program.s;
  basic_snapshot_arrays<std::uint32_t> const& flat = s;
  return pipe_dataflow_of(
      flat, p.plan, [&](std::uint32_t v) { return layout_of(p.program.whole()[s.value[v]]); }, need);
}

}  // namespace cleave
