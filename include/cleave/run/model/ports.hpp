// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/core/ids.hpp"

namespace cleave::detail {

/// A transport as one stage sees it; edges by their position.
struct stage_ports {
  struct departure {
    std::uint32_t output, edge;

    auto operator<=>(departure const&) const = default;
  };
  std::vector<std::uint32_t> arriving;  ///< the edge that brings each input
  std::vector<departure> departing;     ///< the edges on which results leave, by result
  std::uint32_t outputs = 0;            ///< how many results are read

  bool operator==(stage_ports const&) const = default;
};

/// The ports of each stage. Precondition: the transport has no fault. O(stages + edges log edges).
inline std::vector<stage_ports> ports(dataflow const& t) {
  std::vector<stage_ports> all(t.stages);
  for (std::uint32_t i = 0; i < t.edges.size(); ++i) {
    auto const& e = t.edges[i];
    if (e.to != the_caller) {
      auto& arriving = all[index(e.to)].arriving;
      arriving.resize(std::max<std::size_t>(arriving.size(), std::size_t{e.input} + 1));
      arriving[e.input] = i;
    }
    if (e.from != the_caller) {
      auto& from = all[index(e.from)];
      from.departing.push_back({e.output, i});
      from.outputs = (std::max)(from.outputs, e.output + 1);
    }
  }
  for (auto& p : all) std::ranges::sort(p.departing);
  return all;
}

/// Whether other edges carry the same value, for each edge. O(edges log edges).
inline std::vector<char> shared_edges(dataflow const& t) {
  std::vector<std::size_t> order(t.edges.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  auto const source = [&](std::size_t i) { return std::pair{t.edges[i].from, t.edges[i].output}; };
  std::ranges::sort(order, {}, source);
  std::vector<char> shared(t.edges.size());
  for (std::size_t i = 1; i < order.size(); ++i)
    if (source(order[i - 1]) == source(order[i])) shared[order[i - 1]] = shared[order[i]] = true;
  return shared;
}

/// The first edge whose value other edges carry too, or nothing: what a value that cannot be copied must not
/// meet. O(edges log edges).
inline std::optional<std::size_t> find_shared_edge(dataflow const& t) {
  auto const shared = shared_edges(t);
  auto const first = std::ranges::find(shared, char{true});
  return first == shared.end() ? std::nullopt
                               : std::optional(static_cast<std::size_t>(first - shared.begin()));
}

}  // namespace cleave::detail
