// SPDX-License-Identifier: MIT
#pragma once
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <boost/graph/stoer_wagner_min_cut.hpp>
#include <boost/property_map/property_map.hpp>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/fixed_point.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/graph/flow/residual_network.hpp"
#include "cleave/partition/model/partition.hpp"

/// Computes minimum cuts of undirected graphs with Boost.Graph: building blocks, and a baseline for
/// comparisons. Balance is ignored. Weights that are not integers are rounded to 2^-60 of their sum.
namespace cleave::inline v0_2 {

/// A partition into two parts, and the weight of the edges between them in the unit of the graph.
struct two_part_cut : partition {
  double cut = 0;
};

/// A maximum-flow algorithm of Boost.Graph.
enum class max_flow_method : std::uint8_t {
  boykov_kolmogorov,  ///< augments along two search trees; fast for many terminals and short paths. PAMI 2004
  push_relabel,       ///< O(n^3). Goldberg, Tarjan, JACM 1988
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown if the terminals define no cut: a node does not exist or is on both sides, or a side has no nodes.
/// The witness is the node, or the number of nodes.
using terminal_error = tagged_error<struct terminal_tag, std::size_t>;

/// Returns the unit in which edge weights are integers.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
fixed_point edge_unit(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g) {
  double total = 0;
  if constexpr (std::floating_point<EdgeWeight>)
    for (std::size_t arc = 0; arc < g.directed_edges(); ++arc)
      total += static_cast<double>(g.weight_of_edge(arc));
  return std::floating_point<EdgeWeight> ? fixed_point::for_total(total) : fixed_point{};
}

template <weight_number Weight>
std::int64_t whole_weight(Weight w, fixed_point unit) {
  if constexpr (std::floating_point<Weight>)
    return unit.of(static_cast<double>(w));
  else
    return static_cast<std::int64_t>(w);
}

/// An undirected graph as a flow network for Boost's algorithms. Each arc has a reverse arc. Two extra nodes
/// are connected to the terminals, with a capacity above the weight of all edges.
class bgl_flow_network {
 public:
  template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
  bgl_flow_network(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                   std::span<std::size_t const> first, std::span<std::size_t const> second,
                   max_flow_method method)
      : nodes_(g.nodes()), method_(method), net_(g.nodes() + 2) {
    unit_ = edge_unit(g);
    std::int64_t all = 1;
    for (std::size_t n = 0; n < nodes_; ++n)
      for (auto arc = static_cast<std::size_t>(g.offsets[n]);
           arc < static_cast<std::size_t>(g.offsets[n + 1]); ++arc)
        if (auto const to = static_cast<std::size_t>(g.targets[arc]); to > n) {
          auto const w = whole_weight(g.weight_of_edge(arc), unit_);
          all += w;
          if (method == max_flow_method::boykov_kolmogorov) {
            net_.edge(n, to, w, w);
          } else {  // push_relabel takes the residual capacity of a zero-capacity arc as the flow against it
            net_.edge(n, to, w, 0);
            net_.edge(to, n, w, 0);
          }
        }
    for (auto const n : first) net_.edge(source(), n, all, 0);
    for (auto const n : second) net_.edge(n, sink(), all, 0);
    net_.build();
    lay_out();
  }

  /// Returns the cut. Part 0 has the nodes that can be reached from the first terminals in the residual
  /// network of a maximum flow.
  two_part_cut cut() {
    run();
    std::vector<char> reached(nodes_ + 2, 0);
    std::vector<std::size_t> queue{source()};
    reached[source()] = 1;
    for (std::size_t i = 0; i < queue.size(); ++i)
      for (auto arc = net_.first(queue[i]); arc < net_.first(queue[i] + 1); ++arc)
        if (residual_[arc] > 0 && !reached[net_[arc].head]) {
          reached[net_[arc].head] = 1;
          queue.push_back(net_[arc].head);
        }
    two_part_cut result;
    result.parts = 2;
    for (std::size_t n = 0; n < nodes_; ++n) result.of.push_back(part_id{reached[n] ? 0u : 1u});
    std::int64_t weight = 0;
    for (std::size_t arc = 0; arc < net_.arcs(); ++arc)
      if (reached[net_.tail(arc)] && !reached[net_[arc].head]) weight += capacity_[arc];
    result.cut = unit_.value(weight);
    return result;
  }

 private:
  using network = boost::compressed_sparse_row_graph<boost::directedS>;

  std::size_t source() const { return nodes_; }
  std::size_t sink() const { return nodes_ + 1; }

  void lay_out() {
    std::vector<std::pair<std::size_t, std::size_t>> ends;
    for (std::size_t arc = 0; arc < net_.arcs(); ++arc) {
      capacity_.push_back(net_[arc].room);
      ends.emplace_back(net_.tail(arc), net_[arc].head);
    }
    residual_ = capacity_;
    graph_ = network(boost::edges_are_sorted, ends.begin(), ends.end(), nodes_ + 2);
    edge_of_.resize(net_.arcs());
    for (auto [e, end] = edges(graph_); e != end; ++e) edge_of_[get(boost::edge_index, graph_, *e)] = *e;
    for (std::size_t arc = 0; arc < net_.arcs(); ++arc) reverse_.push_back(edge_of_[net_[arc].twin]);
  }

  void run() {
    auto const edge_number = get(boost::edge_index, graph_);
    auto const vertex_number = get(boost::vertex_index, graph_);
    auto const of_edge = [&](auto& list) {
      return boost::make_iterator_property_map(list.begin(), edge_number);
    };
    auto const of_vertex = [&](auto& list) {
      return boost::make_iterator_property_map(list.begin(), vertex_number);
    };
    if (method_ == max_flow_method::push_relabel) {
      boost::push_relabel_max_flow(graph_, source(), sink(), of_edge(capacity_), of_edge(residual_),
                                   of_edge(reverse_), vertex_number);
      return;
    }
    std::vector<network::edge_descriptor> before(nodes_ + 2);
    std::vector<boost::default_color_type> color(nodes_ + 2);
    std::vector<std::int64_t> distance(nodes_ + 2);
    boost::boykov_kolmogorov_max_flow(graph_, of_edge(capacity_), of_edge(residual_), of_edge(reverse_),
                                      of_vertex(before), of_vertex(color), of_vertex(distance), vertex_number,
                                      source(), sink());
  }

  std::size_t nodes_;
  max_flow_method method_;
  fixed_point unit_;
  basic_residual_network<std::size_t> net_;
  std::vector<std::int64_t> capacity_, residual_;
  network graph_;
  std::vector<network::edge_descriptor> edge_of_, reverse_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Computes a minimum cut that separates all nodes of `first`, in part 0, from all nodes of `second`, in part
/// 1. Of several minimum cuts, returns the one with the smallest part 0.
/// \throws adjacency_error if the arrays of `g` are not valid
/// \throws terminal_error if a side has no node, or a node does not exist or is on both sides
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
two_part_cut min_cut_between(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                             std::span<std::size_t const> first, std::span<std::size_t const> second,
                             max_flow_method method = max_flow_method::boykov_kolmogorov) {
  check_adjacency(g);
  if (first.empty() || second.empty())
    throw detail::terminal_error("min cut: give at least one node for each side", g.nodes());
  std::vector<char> side(g.nodes(), 0);
  auto const claim = [&](std::size_t n, char own) {
    auto const node = "min cut: node #" + std::to_string(n);
    if (n >= g.nodes())
      throw detail::terminal_error(
          node + " does not exist; the number of nodes is " + std::to_string(g.nodes()), n);
    if (side[n] != 0 && side[n] != own) throw detail::terminal_error(node + " is given for both sides", n);
    side[n] = own;
  };
  for (auto const n : first) claim(n, 1);
  for (auto const n : second) claim(n, 2);
  return detail::bgl_flow_network(g, first, second, method).cut();
}

/// Computes a minimum cut into two parts that are not empty; node 0 is in part 0. O(n m + n^2 log n). Stoer,
/// Wagner, JACM 44(4), 1997.
/// \throws adjacency_error if the arrays of `g` are not valid
/// \throws terminal_error if the graph has fewer than two nodes
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
two_part_cut global_min_cut(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g) {
  check_adjacency(g);
  auto const n = g.nodes();
  if (n < 2)
    throw detail::terminal_error(
        "min cut: a cut needs at least two nodes; the number of nodes is " + std::to_string(n), n);
  using network = boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS, boost::no_property,
                                        boost::property<boost::edge_weight_t, std::int64_t>>;
  auto const unit = detail::edge_unit(g);
  network net(n);
  for (std::size_t from = 0; from < n; ++from)
    for (auto arc = static_cast<std::size_t>(g.offsets[from]);
         arc < static_cast<std::size_t>(g.offsets[from + 1]); ++arc)
      if (auto const to = static_cast<std::size_t>(g.targets[arc]); to > from)
        add_edge(from, to, detail::whole_weight(g.weight_of_edge(arc), unit), net);
  std::vector<char> side(n, 0);
  auto const sides = boost::make_iterator_property_map(side.begin(), get(boost::vertex_index, net));
  two_part_cut result;
  result.cut =
      unit.value(boost::stoer_wagner_min_cut(net, get(boost::edge_weight, net), boost::parity_map(sides)));
  result.parts = 2;
  for (std::size_t i = 0; i < n; ++i) result.of.push_back(part_id{side[i] != side[0] ? 1u : 0u});
  return result;
}

}  // namespace cleave
