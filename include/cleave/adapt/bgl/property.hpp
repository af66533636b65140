// SPDX-License-Identifier: MIT
#pragma once
#include <boost/graph/graph_traits.hpp>
#include <boost/graph/properties.hpp>
#include <boost/property_map/property_map.hpp>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cleave/graph/concepts.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/numbering.hpp"

namespace cleave::inline v0_2::detail {

/// Stands for a property that is not given: each vertex or edge weighs 1, and vertices have no names.
struct unsaid {};

template <class BoostGraph>
using bgl_vertex = typename boost::graph_traits<BoostGraph>::vertex_descriptor;

/// Returns the value of `property` for `d`, a vertex or an edge of `g`. A property is a tag or a member of
/// the graph's own properties (`boost::edge_weight`, `&road::length`), a property map, a function of `d`, or
/// `unsaid`.
template <class BoostGraph, class Property, class Descriptor>
auto bgl_property(BoostGraph const& g, Property const& property, Descriptor const& d) {
  using boost::get;
  if constexpr (std::same_as<Property, unsaid>)
    return std::int64_t{1};
  else if constexpr (std::invocable<Property const&, Descriptor const&>)
    return property(d);
  else if constexpr (std::is_pointer_v<Property> && std::integral<Descriptor>)
    return property[d];  // like Boost's get, but without its change of sign
  else if constexpr (requires { get(property, d); })
    return get(property, d);
  else
    return get(property, g, d);
}

/// The place of each vertex in `vertices(g)`. Expected O(V). A descriptor without `std::hash` is looked up by
/// its `vertex_index`.
template <class BoostGraph, std::unsigned_integral Index = std::uint32_t>
class bgl_positions {
 public:
  explicit bgl_positions(BoostGraph const& g) : g_(&g) {
    auto [v, end] = vertices(g);
    for (; v != end; ++v) at_.insert(key(*v));
  }
  std::size_t size() const { return at_.size(); }
  Index operator[](bgl_vertex<BoostGraph> const& v) const { return at_.find(key(v)); }

 private:
  using vertex = bgl_vertex<BoostGraph>;
  using key_type = std::conditional_t<handle<vertex>, vertex, std::size_t>;

  key_type key(vertex const& v) const {
    if constexpr (handle<vertex>)
      return v;
    else
      return static_cast<std::size_t>(get(boost::vertex_index, *g_, v));
  }

  BoostGraph const* g_;
  numbering<key_type, Index> at_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Deleted functions. With them in scope, Boost's functions of the same names are found by their arguments,
/// although `cleave::source` is a type.
namespace edge_ends {
void source() = delete;
void target() = delete;
}  // namespace edge_ends

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Calls `f(source, target, edge)` once for each edge of `g`.
template <class BoostGraph, class F>
void each_bgl_edge(BoostGraph const& g, F f) {
  using edge_ends::source;
  using edge_ends::target;
  using category = typename boost::graph_traits<BoostGraph>::traversal_category;
  if constexpr (std::convertible_to<category, boost::edge_list_graph_tag>) {
    for (auto [e, end] = edges(g); e != end; ++e) f(source(*e, g), target(*e, g), *e);
  } else {
    static_assert(
        std::convertible_to<typename boost::graph_traits<BoostGraph>::directed_category, boost::directed_tag>,
        "an undirected Boost graph is read by edges(g)");
    for (auto [v, last] = vertices(g); v != last; ++v)
      for (auto [e, end] = out_edges(*v, g); e != end; ++e) f(*v, target(*e, g), *e);
  }
}

}  // namespace cleave::detail
