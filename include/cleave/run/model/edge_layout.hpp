// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/run/model/tensor_view.hpp"

namespace cleave::inline v0_2 {

/// Determines whether the gradient of a value is sent back. A packed gradient is bytes that only the two
/// stages understand, so no other edge may carry the same value: gradients of several edges would have to be
/// added.
enum class gradient_use : std::uint8_t { none, wanted, packed };

/// Determines whether a shape is known in advance. A dynamic shape is sent with the value; the declared shape
/// is then its upper bound.
enum class shape_kind : std::uint8_t { fixed, dynamic };

/// The memory layout of the value that an edge of a dataflow carries.
struct edge_layout {
  element_type type = element_type::f32;
  tensor_shape shape = {};  ///< of the largest microbatch
  /// Axis whose extent varies by microbatch, see `run_layouts::rows`.
  std::optional<std::uint32_t> batch_axis = {};
  gradient_use gradient = gradient_use::wanted;
  shape_kind extents = shape_kind::fixed;

  bool operator==(edge_layout const&) const = default;
};

/// The layout of each edge, and the number of rows of each microbatch along the batch axes. `rows` is empty
/// if all microbatches have the full shape.
struct run_layouts {
  std::vector<edge_layout> edges;
  std::vector<std::int64_t> rows = {};

  bool operator==(run_layouts const&) const = default;

  /// Returns the shape that edge `e` carries in microbatch `m`. Precondition: the layouts fit their dataflow.
  tensor_shape shape_of(std::uint32_t e, microbatch_id m) const {
    auto shape = edges[e].shape;
    if (edges[e].batch_axis && !rows.empty()) shape.extents[*edges[e].batch_axis] = rows[index(m)];
    return shape;
  }
};
}  // namespace cleave
