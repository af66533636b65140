// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/memory/receive_slots.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/edge_numbers.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::detail {

/// Which passes have been done on each rank, and so which can be done next, once what comes from other ranks
/// has arrived.
class local_passes {
 public:
  /// Refers to all of them. O(stages * microbatches).
  local_passes(schedule const& s, edge_numbers const& edges, receive_uses const& uses)
      : place_(s.place),
        edges_(edges),
        uses_(uses),
        microbatches_(s.microbatches),
        done_(std::size_t{s.place.stages()} * s.microbatches) {}

  void mark(action const& a) {
    using enum action_kind;
    int const marks = a.kind == forward          ? forward_mark
                      : a.kind == backward       ? gradient_mark
                      : a.kind == input_gradient ? gradient_mark | half_mark
                                                 : 0;
    if (marks != 0) of(a.stage, a.microbatch) |= static_cast<std::uint8_t>(marks);
  }

  /// How many of some actions can be done one after the other. `arrival(message)` is when a message has
  /// arrived, below 0 where it has not; `begin` moves to when all have that are needed.
  template <class F>
  std::size_t count_ready(std::span<action const> actions, F arrival, double& begin) {
    std::size_t ready = 0;
    tried_.clear();
    while (ready < actions.size() && is_ready(actions[ready], arrival, begin)) {
      action const& a = actions[ready++];
      if (ready == actions.size() || !is_compute(a.kind)) continue;
      auto& marks = of(a.stage, a.microbatch);
      tried_.push_back({&marks, marks});
      mark(a);
    }
    for (; !tried_.empty(); tried_.pop_back()) *tried_.back().first = tried_.back().second;
    return ready;
  }

 private:
  static constexpr std::uint8_t forward_mark = 1, gradient_mark = 2, half_mark = 4;

  std::uint8_t& of(stage_id s, microbatch_id m) {
    return done_[std::size_t{index(s)} * microbatches_ + index(m)];
  }

  template <class F>
  bool is_ready(action const& a, F& arrival, double& begin) {
    using enum action_kind;
    if (!is_compute(a.kind)) return true;
    if (a.kind == weight_gradient) return (of(a.stage, a.microbatch) & half_mark) != 0;
    auto const s = index(a.stage);
    auto const has = [&](stage_id stage, std::uint8_t what) { return (of(stage, a.microbatch) & what) != 0; };
    bool ready = a.kind == forward || has(a.stage, forward_mark);
    uses_.each_received(a, [&](std::uint32_t edge, edge_flow flow) {
      auto const at = arrival(uses_.message(edge, flow, a.microbatch));
      ready = ready && at >= 0;
      begin = (std::max)(begin, at);
    });
    if (a.kind == forward)
      for (auto const e : edges_.to(s))
        ready = ready && (uses_.crosses(e) || has(place_.edges[e].from, forward_mark));
    else
      for (auto e = edges_.begin_from(s); e < edges_.end_from(s); ++e)
        ready = ready && (uses_.crosses(e) || has(place_.edges[e].to, gradient_mark));
    return ready;
  }

  placement const& place_;
  edge_numbers const& edges_;
  receive_uses const& uses_;
  std::size_t microbatches_;
  std::vector<std::uint8_t> done_;                             ///< by stage and microbatch
  std::vector<std::pair<std::uint8_t*, std::uint8_t>> tried_;  ///< what was marked before
};

}  // namespace cleave::detail
