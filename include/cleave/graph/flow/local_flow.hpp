// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/fixed_point.hpp"
#include "cleave/graph/flow/residual_network.hpp"

namespace cleave::detail {

/// A maximum flow in a small network. Dinic, Soviet Math. Dokl. 11, 1970; without recursion.
class local_flow {
 public:
  explicit local_flow(std::size_t nodes) : net_(nodes) {}

  void arc(std::uint32_t from, std::uint32_t to, std::int64_t capacity) { net_.edge(from, to, capacity, 0); }

  /// The flow from `source` to `sink`, or what of it was found in about `steps` steps and `searches` of the
  /// whole network: both are below every cut. After all arcs; called again it goes on.
  std::int64_t most(std::uint32_t source, std::uint32_t sink, std::size_t steps,
                    std::size_t searches = static_cast<std::size_t>(-1)) {
    if (!std::exchange(built_, true)) net_.build();
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
  /// Sets the distances from `source` in the residual network.
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

  std::int64_t blocking_flow(std::uint32_t source, std::uint32_t sink) {
    std::int64_t flow = 0;
    std::vector<std::uint32_t> path;  // arcs from source on
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
