// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/fixed_point.hpp"

namespace cleave::detail {

/// A maximum flow in a small network. Dinic, Soviet Math. Dokl. 11, 1970; without recursion.
class local_flow {
 public:
  explicit local_flow(std::size_t nodes) : arcs_of_(nodes) {}

  void arc(std::uint32_t from, std::uint32_t to, std::int64_t capacity) {
    arcs_of_[from].push_back(static_cast<std::uint32_t>(arcs_.size()));
    arcs_of_[to].push_back(static_cast<std::uint32_t>(arcs_.size() + 1));
    arcs_.push_back({to, capacity});
    arcs_.push_back({from, 0});
  }

  /// The flow from `source` to `sink`, or what of it was found in about `steps` steps and `searches` of the
  /// whole network: both are below every cut.
  std::int64_t most(std::uint32_t source, std::uint32_t sink, std::size_t steps,
                    std::size_t searches = static_cast<std::size_t>(-1)) {
    std::int64_t flow = 0;
    for (steps_ = steps; steps_ > 0 && searches > 0 && reaches(source, sink); --searches)
      flow += blocking_flow(source, sink);
    return flow;
  }

  /// After `most` with steps and searches: whether a flow can still grow from its source to `node`. If not to
  /// its sink, all of the flow was found, and the nodes that are reached are the smallest source side of a
  /// least cut.
  bool reached(std::uint32_t node) const { return distance_[node] != 0; }

 private:
  struct arc_end {
    std::uint32_t to;
    std::int64_t capacity;
  };

  /// Sets the distances from `source` in the residual network.
  bool reaches(std::uint32_t source, std::uint32_t sink) {
    distance_.assign(arcs_of_.size(), 0);
    next_.assign(arcs_of_.size(), 0);
    distance_[source] = 1;
    std::vector<std::uint32_t> queue{source};
    for (std::size_t i = 0; i < queue.size() && distance_[sink] == 0; ++i)
      for (auto const a : arcs_of_[queue[i]])
        if (auto const& [to, capacity] = arcs_[a]; capacity > 0 && distance_[to] == 0) {
          distance_[to] = distance_[queue[i]] + 1;
          queue.push_back(to);
        }
    return distance_[sink] != 0;
  }

  std::int64_t blocking_flow(std::uint32_t source, std::uint32_t sink) {
    std::int64_t flow = 0;
    std::vector<std::uint32_t> path;  // arcs from source on
    for (auto at = source; steps_ > 0; --steps_) {
      if (at == sink) {
        auto least = unreachable_load;
        for (auto const a : path) least = (std::min)(least, arcs_[a].capacity);
        for (auto const a : path) arcs_[a].capacity -= least, arcs_[a ^ 1].capacity += least;
        flow += least;
        path.clear();
        at = source;
      } else if (next_[at] < arcs_of_[at].size()) {
        auto const a = arcs_of_[at][next_[at]];
        if (arcs_[a].capacity > 0 && distance_[arcs_[a].to] == distance_[at] + 1)
          path.push_back(a), at = arcs_[a].to;
        else
          ++next_[at];
      } else if (path.empty()) {
        break;
      } else {
        at = arcs_[path.back() ^ 1].to;
        path.pop_back();
        ++next_[at];
      }
    }
    return flow;
  }

  std::vector<arc_end> arcs_;  // each beside its reverse
  std::vector<std::vector<std::uint32_t>> arcs_of_;
  std::vector<std::uint32_t> distance_, next_;
  std::size_t steps_ = 0;
};

}  // namespace cleave::detail
