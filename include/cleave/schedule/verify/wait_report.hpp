// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/cycle.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/list_runner.hpp"

namespace cleave::inline v0_2 {

/// An action that cannot begin, and the action it waits for.
struct waiting_action {
  rank_id rank;
  std::size_t position;  ///< index in the list of the rank
  action at;
  rank_id for_rank;  ///< the rank that must do `for_what`
  action for_what;

  bool operator==(waiting_action const&) const = default;
};

/// The state of a schedule that cannot finish.
struct deadlock {
  /// The next action of each rank that does not finish, ascending. If messages have queues next to the
  /// passes, also that of each queue.
  std::vector<waiting_action> waiting;
  /// A shortest cycle: each action waits for the next one, and the last for the first. It is empty if all
  /// ranks wait, in the end, for actions that are never done.
  std::vector<waiting_action> cycle;

  bool operator==(deadlock const&) const = default;
};

/// Returns the deadlock as text, such as `rank 0 at 0SEND_F1, rank 1 at 2SEND_F0`.
inline std::string describe(deadlock const& d) {
  std::string text;
  for (auto const& w : d.waiting) {
    if (!text.empty()) text += ", ";
    text += "rank " + std::to_string(index(w.rank)) + " at " + action_text(w.at);
  }
  return text;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A wait of a list, and the list that must still do the awaited action.
struct list_wait {
  static constexpr std::uint32_t no_list = 0xffffffff;

  waiting_action wait;
  std::uint32_t list;
  std::uint32_t for_list = no_list;
};

/// Returns the waits between ranks and a shortest cycle of them, once no list can continue. It reports the
/// first wait of each list, but any wait may be part of the cycle. Precondition: `waits` are in the order of
/// their lists. O(waits), and O(lists · (lists + waits)) for the cycle.
inline deadlock report_waits(std::span<list_wait const> waits, list_runner const& lists) {
  deadlock d;
  std::vector<directed_arc> edges;
  std::vector<std::size_t> edge_wait;
  for (std::size_t i = 0; i < waits.size(); ++i) {
    auto const& w = waits[i];
    if (i == 0 || waits[i - 1].list != w.list) d.waiting.push_back(w.wait);
    if (w.for_list == list_wait::no_list || lists.is_finished(w.for_list)) continue;
    edges.push_back({w.list, w.for_list});
    edge_wait.push_back(i);
  }
  for (auto const e : shortest_cycle(lists.lists(), edges)) d.cycle.push_back(waits[edge_wait[e]].wait);
  return d;
}

}  // namespace cleave::detail
