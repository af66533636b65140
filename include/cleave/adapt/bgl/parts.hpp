// SPDX-License-Identifier: MIT
#pragma once
#include <boost/property_map/property_map.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "cleave/adapt/bgl/dataflow.hpp"
#include "cleave/adapt/bgl/property.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::inline v0_2::detail {

/// Calls `f(vertex, part)` for each vertex that has a part, in the order of the partition. This is the order
/// of `vertices(g)` for a Boost graph, and of `g.nodes()` for a `bgl_dataflow`.
template <class BoostGraph, class F>
void each_vertex_with_part(partition const& p, BoostGraph const& g, F f) {
  std::size_t at = 0;
  auto const next = [&](auto const& v) {
    expects(at < p.of.size(), "a partition of this graph, not of a smaller one");
    if (auto const part = p.of[at++]; part != no_part) f(v, part);
  };
  if constexpr (requires { g.nodes(); }) {
    for (auto const& v : g.nodes()) next(v);
  } else {
    for (auto [v, end] = vertices(g); v != end; ++v) next(*v);
  }
  expects(at == p.of.size(), "a partition of this graph, not of a larger one");
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Writes the number of each vertex's part into a writable property map, such as `get(&town::part, g)`.
/// Vertices without a part are not written. `g` is the graph that was partitioned: the graph of a
/// `bgl_adjacency`, or a `bgl_dataflow`.
template <class BoostGraph, class PartMap>
void put_parts(partition const& p, BoostGraph const& g, PartMap map) {
  using number = typename boost::property_traits<PartMap>::value_type;
  detail::each_vertex_with_part(p, g, [&](auto const& v, part_id part) {
    using boost::put;
    put(map, v, static_cast<number>(index(part)));
  });
}

/// A partition as a readable property map: `get(map, v)` returns the number of the part of `v`, or that of
/// `no_part`. The map is cheap to copy. Its construction takes expected O(V), and it is then independent of
/// the partition. It refers to the `BoostGraph` if vertices have no `std::hash`.
template <class BoostGraph>
class bgl_part_map {
 public:
  using key_type = detail::bgl_vertex<BoostGraph>;
  using value_type = std::uint32_t;
  using reference = std::uint32_t;
  using category = boost::readable_property_map_tag;

  bgl_part_map(partition const& p, BoostGraph const& g) : bgl_part_map(p, g, g) {}
  template <class... Properties>
  bgl_part_map(partition const& p, bgl_dataflow<BoostGraph, Properties...> const& g)
      : bgl_part_map(p, g, g.graph()) {}

  friend std::uint32_t get(bgl_part_map const& map, key_type const& v) {
    return index(map.data_->parts.of[map.data_->position[v]]);
  }
  std::uint32_t operator[](key_type const& v) const { return get(*this, v); }

 private:
  struct tables {
    detail::bgl_positions<BoostGraph, std::size_t> position;
    partition parts;
  };
  template <class Ordered>
  bgl_part_map(partition const& p, Ordered const& ordered, BoostGraph const& g) {
    tables t{detail::bgl_positions<BoostGraph, std::size_t>(g), partition{{}, p.parts}};
    t.parts.of.assign(t.position.size(), no_part);
    detail::each_vertex_with_part(p, ordered,
                                  [&](key_type const& v, part_id part) { t.parts.of[t.position[v]] = part; });
    data_ = std::make_shared<tables const>(std::move(t));
  }

  std::shared_ptr<tables const> data_;
};
template <class BoostGraph, class... Properties>
bgl_part_map(partition const&, bgl_dataflow<BoostGraph, Properties...> const&) -> bgl_part_map<BoostGraph>;

}  // namespace cleave
