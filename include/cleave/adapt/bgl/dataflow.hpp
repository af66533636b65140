// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "cleave/adapt/bgl/property.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/order.hpp"

namespace cleave::inline v0_2 {

/// A directed Boost graph as a dataflow graph for `balance`, `split` and other functions. Each vertex is a
/// node and its own result. An edge u -> v means that v reads the result of u; parallel edges mean that v
/// reads it several times. The nodes are in topological order. The adapter refers to the Boost graph.
/// Expected O((V + E) log V).
/// \throws cycle_error with the cycle
template <class BoostGraph, class Weight = detail::unsaid, class Bytes = detail::unsaid,
          class Name = detail::unsaid>
class bgl_dataflow {
  static_assert(
      std::convertible_to<typename boost::graph_traits<BoostGraph>::directed_category, boost::directed_tag>,
      "bgl_dataflow reads edges as producer -> consumer: use boost::directedS or bidirectionalS");
  static_assert(handle<detail::bgl_vertex<BoostGraph>>,
                "bgl_dataflow hashes vertex descriptors: std::hash is missing");

 public:
  using vertex = detail::bgl_vertex<BoostGraph>;

  std::span<vertex const> nodes() const { return order_; }
  std::span<vertex const> operands(vertex v) const { return operands_[position_[v]]; }
  auto weight(vertex v) const { return detail::bgl_property(*g_, weight_, v); }
  std::size_t bytes(vertex v) const
    requires(!std::same_as<Bytes, detail::unsaid>)
  {
    return static_cast<std::size_t>(detail::bgl_property(*g_, bytes_, v));
  }
  std::size_t bytes(vertex) const
    requires std::same_as<Bytes, detail::unsaid>
  {
    return 0;  // unknown
  }
  auto name(vertex v) const
    requires(!std::same_as<Name, detail::unsaid>)
  {
    return detail::bgl_property(*g_, name_, v);
  }

  BoostGraph const& graph() const { return *g_; }

  explicit bgl_dataflow(BoostGraph const& g, Weight weight = {}, Bytes bytes = {}, Name name = {})
      : g_(&g), weight_(std::move(weight)), bytes_(std::move(bytes)), name_(std::move(name)), position_(g) {
    auto const [first, last] = vertices(g);
    order_.assign(first, last);
    auto& begin = operands_.first;
    begin.assign(order_.size() + 1, 0);
    detail::each_bgl_edge(g, [&](vertex const&, vertex const& v, auto const&) { ++begin[position_[v] + 1]; });
    for (std::size_t n = 0; n < order_.size(); ++n) begin[n + 1] += begin[n];
    operands_.item.resize(begin.back());
    detail::each_bgl_edge(g, [&, next = begin](vertex const& u, vertex const& v, auto const&) mutable {
      operands_.item[next[position_[v]]++] = u;
    });
    order_ = topological_order(*this);
  }
  explicit bgl_dataflow(BoostGraph const&& /* it is referred to: give it a name first */, Weight = {},
                        Bytes = {}, Name = {}) = delete;

 private:
  BoostGraph const* g_;
  Weight weight_;
  Bytes bytes_;
  Name name_;
  detail::bgl_positions<BoostGraph, std::size_t> position_;
  detail::csr<std::size_t, vertex> operands_;  // by position in vertices(g)
  std::vector<vertex> order_;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns a function that computes, for a vertex, the largest value of `property` on the edges that leave
/// it. Use it as `bytes` if edges have the bytes, because a value is sent once to each part that reads it.
template <class BoostGraph, class Property>
auto largest_out_edge(BoostGraph const& g, Property property) {
  return [&g, property](bgl_vertex<BoostGraph> const& v) {
    std::size_t most = 0;
    for (auto [e, end] = out_edges(v, g); e != end; ++e)
      most = (std::max)(most, static_cast<std::size_t>(bgl_property(g, property, *e)));
    return most;
  };
}

}  // namespace cleave::detail
