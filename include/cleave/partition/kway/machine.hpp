// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::inline v0_2::detail {

/// Thrown if a description of a machine makes no sense.
class machine_error : public error {
 public:
  using error::error;
};

inline constexpr std::size_t most_places = 65'536;
inline constexpr std::size_t most_table_places = 8'192;  ///< of machines whose distances are a table
inline constexpr std::int64_t longest_distance = std::int64_t{1} << 30;

inline void check_distance(std::int64_t d, std::string const& which) {
  if (d < 0 || d > longest_distance)
    throw machine_error("machine: " + which + " is " + std::to_string(d) + ": expected 0 to 2^30");
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The places of a machine, to which parts are mapped, and the distances between them. A distance is the cost
/// of sending one unit of weight.
class machine {
 public:
  /// Makes a machine of nested groups: `sizes[0]` places form a group, `sizes[1]` such groups a larger one,
  /// and so on. `distances[i]` is the distance of two places whose smallest common group is of level i. For
  /// `{4, 8}` and `{1, 10}`, 8 boards have 4 places each; the distance is 1 on a board, and 10 between
  /// boards.
  /// \throws machine_error
  static machine hierarchy(std::vector<std::uint32_t> sizes, std::vector<std::int64_t> distances) {
    if (sizes.size() != distances.size() || sizes.empty())
      throw detail::machine_error("machine: there are " + std::to_string(sizes.size()) +
                                  " sizes of groups and " + std::to_string(distances.size()) +
                                  " distances: give one distance for each size, and at least one");
    machine made;
    std::size_t places = 1;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] == 0) throw detail::machine_error("machine: size " + std::to_string(i) + " is 0");
      detail::check_distance(distances[i], "distance " + std::to_string(i));
      places *= (std::min)(std::size_t{sizes[i]}, detail::most_places + 1);
      if (places > detail::most_places)
        throw detail::machine_error("machine: it has more than 65,536 places");
      made.group_.push_back(static_cast<std::uint32_t>(places));
    }
    made.places_ = static_cast<std::uint32_t>(places);
    made.sizes_ = std::move(sizes);
    made.distances_ = std::move(distances);
    return made;
  }

  /// Makes a machine of a table with `places` rows of distances.
  /// \throws machine_error if the table has another size, is not symmetric, or its diagonal is not 0
  static machine of_distances(std::uint32_t places, std::vector<std::int64_t> table) {
    check_table_size(places);
    if (table.size() != std::size_t{places} * places)
      throw detail::machine_error("machine: the table of distances has " + std::to_string(table.size()) +
                                  " entries, but " + std::to_string(places) + " places need " +
                                  std::to_string(std::size_t{places} * places));
    machine made;
    made.places_ = places;
    made.table_ = std::move(table);
    for (std::uint32_t a = 0; a < places; ++a)
      for (std::uint32_t b = 0; b <= a; ++b) {
        auto const name = "distance of places " + std::to_string(a) + " and " + std::to_string(b);
        detail::check_distance(made.distance(a, b), "the " + name);
        if (made.distance(a, b) != made.distance(b, a))
          throw detail::machine_error("machine: the " + name + " is not the same in both directions");
        if (a == b && made.distance(a, b) != 0)
          throw detail::machine_error("machine: place " + std::to_string(a) + " has a distance to itself");
      }
    return made;
  }

  /// Makes a machine of a connected graph whose nodes are the places. The distance of two places is the
  /// length of the shortest path between them; weights of edges are lengths.
  /// \throws machine_error if the graph is not connected; adjacency_error
  template <std::integral Index, weight_number NodeWeight, std::integral Length, std::integral Offset>
  static machine network(adjacency_view<Index, NodeWeight, Length, Offset> g) {
    check_adjacency(g);
    check_table_size(g.nodes());
    auto const places = static_cast<std::uint32_t>(g.nodes());
    std::vector<std::int64_t> table;
    table.reserve(std::size_t{places} * places);
    for (std::uint32_t from = 0; from < places; ++from) {
      auto const length = shortest_paths(g, from);
      for (std::uint32_t to = 0; to < places; ++to)
        if (length[to] == unreachable)
          throw detail::machine_error("machine: no path leads from place " + std::to_string(from) +
                                      " to place " + std::to_string(to));
      table.insert(table.end(), length.begin(), length.end());
    }
    return of_distances(places, std::move(table));
  }

  std::uint32_t places() const { return places_; }
  /// Returns the distance of two places. O(levels).
  std::int64_t distance(std::uint32_t a, std::uint32_t b) const {
    if (!table_.empty()) return table_[std::size_t{a} * places_ + b];
    if (a == b) return 0;
    std::size_t level = 0;
    while (a / group_[level] != b / group_[level]) ++level;
    return distances_[level];
  }
  /// Returns the sizes of the nested groups, the smallest first. Empty if the machine has no groups.
  std::vector<std::uint32_t> const& sizes() const { return sizes_; }
  /// Returns the longest distance.
  std::int64_t diameter() const {
    auto const& all = table_.empty() ? distances_ : table_;
    return all.empty() ? 0 : *std::max_element(all.begin(), all.end());
  }

 private:
  static constexpr std::int64_t unreachable = (std::numeric_limits<std::int64_t>::max)();

  machine() = default;

  static void check_table_size(std::size_t places) {
    if (places == 0 || places > detail::most_table_places)
      throw detail::machine_error("machine: there are " + std::to_string(places) +
                                  " places: expected 1 to 8,192; a hierarchy may have 65,536");
  }

  template <class Graph>
  static std::vector<std::int64_t> shortest_paths(Graph const& g, std::uint32_t from) {
    std::vector<std::int64_t> length(g.nodes(), unreachable);
    struct step {
      std::int64_t length;
      std::uint32_t place;
      bool operator<(step const& other) const { return length > other.length; }  // the shortest on top
    };
    std::priority_queue<step> open;
    open.push({length[from] = 0, from});
    while (!open.empty()) {
      auto const [so_far, at] = open.top();
      open.pop();
      if (so_far > length[at]) continue;
      for (auto e = static_cast<std::size_t>(g.offsets[at]); e < static_cast<std::size_t>(g.offsets[at + 1]);
           ++e) {
        auto const to = static_cast<std::uint32_t>(g.targets[e]);
        auto const through = so_far + static_cast<std::int64_t>(g.weight_of_edge(e));
        if (through < length[to]) open.push({length[to] = through, to});
      }
    }
    return length;
  }

  std::uint32_t places_ = 0;
  std::vector<std::uint32_t> sizes_, group_;  // sizes of groups, in groups of the level below and in places
  std::vector<std::int64_t> distances_;       // by level
  std::vector<std::int64_t> table_;           // row by row, if there are no groups
};

/// Returns the cost of communication if the nodes are at the places `p`: for each edge its weight, times the
/// distance of its ends. O(n + m).
/// \pre Every node has a place of the machine.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
weight_total<EdgeWeight> communication_cost(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                            partition const& p, machine const& m) {
  weight_total<EdgeWeight> cost = 0;
  for (std::size_t n = 0; n < g.nodes(); ++n)
    for (auto e = static_cast<std::size_t>(g.offsets[n]); e < static_cast<std::size_t>(g.offsets[n + 1]); ++e)
      if (auto const to = static_cast<std::size_t>(g.targets[e]); to > n && p.of[to] != p.of[n])
        cost += static_cast<weight_total<EdgeWeight>>(g.weight_of_edge(e)) *
                static_cast<weight_total<EdgeWeight>>(m.distance(index(p.of[n]), index(p.of[to])));
  return cost;
}

}  // namespace cleave
