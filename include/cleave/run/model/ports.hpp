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

namespace cleave::inline v0_2::detail {

/// The edges of a dataflow that enter and leave one stage, by their positions.
struct stage_ports {
  struct departure {
    std::uint32_t output, edge;

    auto operator<=>(departure const&) const = default;
  };
  std::vector<std::uint32_t> arriving;  ///< by input: the edge that carries it
  std::vector<departure> departing;     ///< edges that carry results, sorted by result
  std::uint32_t outputs = 0;            ///< number of results that are read

  bool operator==(stage_ports const&) const = default;
};

/// Returns the ports of each stage. Precondition: the dataflow has no fault. O(stages + edges log edges).
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

/// Marks each edge whose value other edges carry too. O(edges log edges).
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

/// Returns the first edge whose value other edges carry too, or nothing. Values that cannot be copied do not
/// allow such edges. O(edges log edges).
inline std::optional<std::size_t> find_shared_edge(dataflow const& t) {
  auto const shared = shared_edges(t);
  auto const first = std::ranges::find(shared, char{true});
  return first == shared.end() ? std::nullopt
                               : std::optional(static_cast<std::size_t>(first - shared.begin()));
}

}  // namespace cleave::detail
