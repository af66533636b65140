// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/transport.hpp"
#include "cleave/run/model/edge_layout.hpp"
#include "cleave/schedule/model/placement.hpp"

namespace cleave::detail {

/// Where a value lies in a message.
struct block_value {
  std::uint32_t edge;                          ///< of the transport
  std::uint64_t at;                            ///< in bytes, aligned to 64
  std::uint64_t shape_at = ~std::uint64_t{0};  ///< where its shape is, if that travels with it

  bool has_shape() const { return shape_at != ~std::uint64_t{0}; }
  bool operator==(block_value const&) const = default;
};

/// One message: all that a stage makes for another in one microbatch, or the gradients of that.
struct message_block {
  std::vector<block_value> values;  ///< by number of the edge
  std::uint64_t bytes = 0;

  bool operator==(message_block const&) const = default;
};

/// What goes along an edge of a placement, there and back.
struct edge_blocks {
  message_block activations, gradients;

  bool operator==(edge_blocks const&) const = default;
};

/// Adds a value behind what is there, and its shape before it where that travels with it.
inline void append(message_block& b, std::uint32_t edge, edge_layout const& l, bool with_shape) {
  constexpr std::uint64_t alignment = 64;
  auto const aligned = [](std::uint64_t n) { return (n + alignment - 1) / alignment * alignment; };
  block_value v{edge, aligned(b.bytes)};
  if (with_shape) {
    v.shape_at = v.at;
    v.at += aligned(sizeof(tensor_shape));
  }
  b.bytes = v.at + static_cast<std::uint64_t>(*l.shape.count()) * size_of(l.type);
  b.values.push_back(v);
}

/// The messages of each edge of `p`, in its order, out of what the edges of `t` bring from its one stage to
/// its other. A message may be empty: it then only says that a pass is done.
/// Precondition: no fault in any of them; `p` has an edge for every pair of stages of `t`. O(edges log
/// edges).
inline std::vector<edge_blocks> blocks_of(placement const& p, transport const& t, run_layouts const& l) {
  std::vector<edge_blocks> blocks(p.edges.size());
  for (std::uint32_t e = 0; e < t.edges.size(); ++e) {
    auto const& edge = t.edges[e];
    if (edge.from == the_caller || edge.to == the_caller) continue;
    auto const at = std::ranges::lower_bound(p.edges, stage_edge{edge.from, edge.to});
    auto& b = blocks[static_cast<std::size_t>(at - p.edges.begin())];
    append(b.activations, e, l.edges[e], l.edges[e].extents == shape_kind::dynamic);
    if (l.edges[e].gradient == gradient_use::wanted) append(b.gradients, e, l.edges[e], false);
  }
  return blocks;
}

}  // namespace cleave::detail
