// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/dense.hpp"
#include "cleave/partition/balance_options.hpp"

/// Graphs with costs, as the benches of partition algorithms use them.
namespace bench {

/// What is to be balanced, and how.
struct instance {
  std::string name;
  cleave::dense graph;
  cleave::balance_options options;
  std::vector<std::size_t> position;  ///< of a node of the source: its position in the graph
};

/// Nodes in any order that make one result each.
struct node_list {
  struct edge {
    std::uint32_t from, to;
    double cost = 0;  ///< of this edge alone
  };
  std::vector<double> weight;
  std::vector<std::size_t> bytes;  ///< of a node's result
  std::vector<edge> edges;
};

/// Numbers the nodes topologically, the first of the list that is ready first, and makes them a graph.
inline cleave::dense dense_of(node_list const& list, std::vector<std::size_t>& position) {
  using index = std::uint32_t;
  auto const n = list.weight.size();
  auto edges = list.edges;
  auto const sort_unique = [&](auto less, auto equal) {
    std::sort(edges.begin(), edges.end(), less);
    edges.erase(std::unique(edges.begin(), edges.end(), equal), edges.end());
  };
  auto const same = [](auto const& a, auto const& b) { return a.from == b.from && a.to == b.to; };
  sort_unique([](auto const& a, auto const& b) { return std::pair(a.from, a.to) < std::pair(b.from, b.to); },
              same);
  std::vector<std::size_t> first(n + 1), missing(n);
  for (auto const& e : edges) ++first[e.from + std::size_t{1}], ++missing[e.to];
  for (std::size_t i = 0; i < n; ++i) first[i + 1] += first[i];
  std::priority_queue<index, std::vector<index>, std::greater<>> ready;
  for (index i = 0; i < n; ++i)
    if (missing[i] == 0) ready.push(i);
  std::vector<index> order;
  position.assign(n, n);
  while (!ready.empty()) {
    auto const i = ready.top();
    ready.pop();
    position[i] = order.size();
    order.push_back(i);
    for (auto e = first[i]; e < first[i + 1]; ++e)
      if (--missing[edges[e].to] == 0) ready.push(edges[e].to);
  }
  cleave::expects(order.size() == n, "a workload without cycles");

  cleave::dense g;
  for (auto& e : edges) e = {static_cast<index>(position[e.from]), static_cast<index>(position[e.to])};
  sort_unique([](auto const& a, auto const& b) { return std::pair(a.from, a.to) < std::pair(b.from, b.to); },
              same);
  for (index i = 0, e = 0; i < n; ++i, g.users.close())
    for (; e < edges.size() && edges[e].from == i; ++e) g.users.add(edges[e].to);
  sort_unique([](auto const& a, auto const& b) { return std::pair(a.to, a.from) < std::pair(b.to, b.from); },
              same);
  for (index i = 0, e = 0; i < n; ++i) {
    for (; e < edges.size() && edges[e].to == i; ++e) g.operands.add(edges[e].from);
    g.operands.close();
    g.results.add(i);
    g.results.close();
    g.producer.push_back(i);
    g.slot.push_back(i);
    g.latest.push_back(i);
    g.from.push_back(cleave::source::node);
    g.group.push_back(i);
    g.weight.push_back(list.weight[order[i]]);
    g.bytes.push_back(list.bytes[order[i]]);
  }
  g.replicable.assign(n, 0);
  return g;
}

}  // namespace bench
