// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/one_or_each.hpp"
#include "cleave/core/step_index.hpp"
#include "cleave/schedule/memory/plan_memory.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_dependencies.hpp"
#include "cleave/schedule/verify/verify_passes.hpp"

namespace cleave::inline v0_2 {

/// The number of values that a rank can have received and not yet released. Each vector has one entry for
/// each rank, one for all, or none for no limit.
struct receive_slots {
  std::vector<std::uint32_t> activations = {}, gradients = {};
  input_use inputs =
      input_use::until_gradient;  ///< when an activation is released; a gradient is released by B or I

  /// Returns the number of slots of a rank for one flow; 2^32 - 1 if there is no limit.
  std::uint32_t of(edge_flow flow, std::uint32_t rank) const {
    return detail::one_or_each(flow == edge_flow::activations ? activations : gradients).of(rank, 0xffffffff);
  }
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A pass that needs more received values at once than its rank has slots.
struct slot_shortage {
  static constexpr char subject[] = "receive slots: ";
  rank_id rank{};
  action at = {};
  edge_flow what = edge_flow::activations;
  std::uint32_t needed = 0, given = 0;

  bool operator==(slot_shortage const&) const = default;
};

inline std::string describe(slot_shortage const& s) {
  return "rank " + std::to_string(index(s.rank)) + " needs " + std::to_string(s.needed) +
         (s.what == edge_flow::activations ? " slots for activations" : " slots for gradients") + " at '" +
         action_text(s.at) + "' but has " + std::to_string(s.given) +
         "; give it more slots, or keep fewer microbatches in flight";
}

using slot_shortage_error = fault_error<slot_shortage>;

/// The order in which ranks use received messages, and when each message is released.
class receive_uses {
 public:
  /// Keeps references to the schedule and its edges.
  receive_uses(schedule const& s, edge_numbers const& edges, input_use inputs)
      : place_(s.place),
        edges_(edges),
        numbers_(step_index_of(s)),
        release_at_(inputs == input_use::by_forward || passes_of(s) == expected_passes::forward_alone
                        ? action_kind::forward
                        : action_kind::backward) {}

  /// Returns the numbering of messages.
  step_index const& numbers() const { return numbers_; }

  /// Calls `f(edge, flow)` for each value from another rank that a pass waits for.
  template <class F>
  void each_received(action const& a, F f) const {
    if (a.kind == action_kind::forward) {
      for (auto const e : edges_.to(index(a.stage)))
        if (crosses(e)) f(e, edge_flow::activations);
    } else if (is_gradient(a.kind)) {
      for (auto e = edges_.begin_from(index(a.stage)); e < edges_.end_from(index(a.stage)); ++e)
        if (crosses(e)) f(e, edge_flow::gradients);
    }
  }

  /// Calls `f(flow)` for each received value that a pass releases.
  template <class F>
  void each_released(action const& a, F f) const {
    if (release_at_ == action_kind::forward ? a.kind == action_kind::forward : is_gradient(a.kind))
      for (auto const e : edges_.to(index(a.stage)))
        if (crosses(e)) f(edge_flow::activations);
    if (is_gradient(a.kind)) each_received(a, [&](std::uint32_t, edge_flow flow) { f(flow); });
  }

  bool crosses(std::uint32_t edge) const {
    auto const& e = place_.edges[edge];
    return place_.rank_of[index(e.from)] != place_.rank_of[index(e.to)];
  }

 private:
  static bool is_gradient(action_kind k) {
    return k == action_kind::backward || k == action_kind::input_gradient;
  }

  stage_placement const& place_;
  edge_numbers const& edges_;
  step_index numbers_;
  action_kind release_at_;
};

/// Returns the first pass for which a rank has too few slots, or nothing. Without a shortage, all values can
/// be received in the order in which they are used. A compound needs the inputs of all its parts at once.
/// Precondition: the schedule has no fault; `slots` has one entry for each rank, one for all, or none.
/// O(actions + edges).
inline std::optional<slot_shortage> find_slot_shortage(schedule const& s, receive_slots const& slots) {
  edge_numbers const edges(s.place);
  receive_uses const uses(s, edges, slots.inputs);
  for (std::uint32_t r = 0; r < s.ranks.size(); ++r) {
    std::array<std::uint32_t, 2> taken{};
    std::optional<slot_shortage> found;
    each_cell(std::span(s.ranks[r]), [&](action const& head, std::span<action const> parts) {
      auto const all = parts.empty() ? std::span(&head, 1) : parts;
      each_action(all, [&](action const& a) {
        uses.each_received(a, [&](std::uint32_t, edge_flow flow) {
          auto const needed = ++taken[static_cast<std::size_t>(flow)];
          if (needed > slots.of(flow, r) && !found)
            found = slot_shortage{rank_id{r}, a, flow, needed, slots.of(flow, r)};
        });
      });
      each_action(all, [&](action const& a) {
        uses.each_released(a, [&](edge_flow flow) { --taken[static_cast<std::size_t>(flow)]; });
      });
    });
    if (found) return found;
  }
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the fewest slots with which each rank can receive the values that it uses. Precondition and
/// complexity as for `find_slot_shortage`.
inline receive_slots fewest_receive_slots(schedule const& s, input_use inputs = input_use::until_gradient) {
  detail::edge_numbers const edges(s.place);
  detail::receive_uses const uses(s, edges, inputs);
  receive_slots fewest{{}, {}, inputs};
  for (auto const& row : s.ranks) {
    std::array<std::uint32_t, 2> taken{}, most{};
    each_cell(std::span(row), [&](action const& head, std::span<action const> parts) {
      auto const all = parts.empty() ? std::span(&head, 1) : parts;
      each_action(all, [&](action const& a) {
        uses.each_received(a, [&](std::uint32_t, edge_flow flow) {
          auto const f = static_cast<std::size_t>(flow);
          most[f] = (std::max)(most[f], ++taken[f]);
        });
      });
      each_action(all, [&](action const& a) {
        uses.each_released(a, [&](edge_flow flow) { --taken[static_cast<std::size_t>(flow)]; });
      });
    });
    fewest.activations.push_back(most[0]);
    fewest.gradients.push_back(most[1]);
  }
  return fewest;
}

}  // namespace cleave
