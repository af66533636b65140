// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/step_index.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule_dependencies.hpp"

namespace cleave::inline v0_2::detail {

/// Numbers the directed pairs of ranks with an edge between their stages.
class rank_channels {
 public:
  using channel = std::pair<rank_id, rank_id>;  ///< sender and receiver

  rank_channels() = default;
  /// Precondition: the placement is valid. O(edges log edges).
  explicit rank_channels(stage_placement const& p) {
    std::vector<channel> of_edge;
    for (auto const& e : p.edges) {
      auto const from = p.rank_of[index(e.from)], to = p.rank_of[index(e.to)];
      of_edge.push_back({from, to});
      of_edge.push_back({to, from});
    }
    channels_ = of_edge;
    std::ranges::sort(channels_);
    channels_.erase(std::ranges::unique(channels_).begin(), channels_.end());
    for (auto const& c : of_edge)
      of_.push_back(static_cast<std::uint32_t>(std::ranges::lower_bound(channels_, c) - channels_.begin()));
  }

  std::uint32_t count() const { return static_cast<std::uint32_t>(channels_.size()); }
  channel operator[](std::uint32_t c) const { return channels_[c]; }
  /// Returns the channel of the messages along an edge.
  std::uint32_t of(std::uint32_t edge, edge_flow flow) const { return of_[step_index::way(edge, flow)]; }

 private:
  std::vector<channel> channels_;
  std::vector<std::uint32_t> of_;  // by edge and flow
};

/// Returns the direction of a message along its edge.
constexpr edge_flow flow_of(action const& a) {
  return is_activation_message(a.kind) ? edge_flow::activations : edge_flow::gradients;
}

}  // namespace cleave::detail
