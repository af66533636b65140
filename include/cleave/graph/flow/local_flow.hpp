// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/fixed_point.hpp"
#include "cleave/graph/flow/residual_network.hpp"

namespace cleave::inline v0_2::detail {

/// Computes a maximum flow in a small network. Dinic, Soviet Math. Dokl. 11, 1970, without recursion.
class local_flow {
 public:
  explicit local_flow(std::size_t nodes) : net_(nodes) {}

  /// Adds an arc.
  void arc(std::uint32_t from, std::uint32_t to, std::int64_t capacity) { net_.edge(from, to, capacity, 0); }

  /// Returns the maximum flow from `source` to `sink`. Stops early after about `steps` steps or `searches`
  /// searches of the whole network, and then returns the flow found so far. The result never exceeds the
  /// capacity of a cut. Call it after all arcs are added; a further call continues.
  std::int64_t most(std::uint32_t source, std::uint32_t sink, std::size_t steps,
                    std::size_t searches = static_cast<std::size_t>(-1)) {
    if (!std::exchange(built_, true)) net_.build();
    std::int64_t flow = 0;
    for (steps_ = steps; steps_ > 0 && searches > 0 && reaches(source, sink); --searches)
      flow += blocking_flow(source, sink);
    return flow;
  }

  /// Returns true if the last search of `most` reached `node` from the source. If it did not reach the sink,
  /// the flow is maximum, and the reached nodes are the smallest source side of a minimum cut. Precondition:
  /// `most` was called with at least one step and one search.
  bool reached(std::uint32_t node) const { return distance_[node] != 0; }

 private:
  /// Computes the distances from `source` in the residual network. Returns true if the sink is reached.
  bool reaches(std::uint32_t source, std::uint32_t sink) {
    distance_.assign(net_.nodes(), 0);
    next_.resize(net_.nodes());
    for (std::uint32_t n = 0; n < next_.size(); ++n) next_[n] = net_.first(n);
    distance_[source] = 1;
    std::vector<std::uint32_t> queue{source};
    for (std::size_t i = 0; i < queue.size() && distance_[sink] == 0; ++i)
      for (auto const& a : net_.arcs_of(queue[i]))
        if (a.room > 0 && distance_[a.head] == 0) {
          distance_[a.head] = distance_[queue[i]] + 1;
          queue.push_back(a.head);
        }
    return distance_[sink] != 0;
  }

  /// Pushes a blocking flow along shortest paths, until the steps are used up, and returns its value.
  std::int64_t blocking_flow(std::uint32_t source, std::uint32_t sink) {
    std::int64_t flow = 0;
    std::vector<std::uint32_t> path;  // the arcs of the path, from the source on
    for (auto at = source; steps_ > 0; --steps_) {
      if (at == sink) {
        auto least = unreachable_load;
        for (auto const a : path) least = (std::min)(least, net_[a].room);
        for (auto const a : path) net_.push(a, least);
        flow += least;
        path.clear();
        at = source;
      } else if (next_[at] < net_.first(at + std::size_t{1})) {
        auto const a = next_[at];
        if (net_[a].room > 0 && distance_[net_[a].head] == distance_[at] + 1)
          path.push_back(a), at = net_[a].head;
        else
          ++next_[at];
      } else if (path.empty()) {
        break;
      } else {
        at = net_.tail(path.back());
        path.pop_back();
        ++next_[at];
      }
    }
    return flow;
  }

  residual_network net_;
  bool built_ = false;
  std::vector<std::uint32_t> distance_, next_;
  std::size_t steps_ = 0;
};

}  // namespace cleave::detail
