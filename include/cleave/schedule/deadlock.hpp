// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/action.hpp"
#include "cleave/schedule/action_text.hpp"
#include "cleave/schedule/order_walk.hpp"
#include "cleave/schedule/schedule.hpp"
#include "cleave/schedule/shortest_circle.hpp"

namespace cleave {

/// An action that cannot begin, and what it waits for.
struct waiting_action {
  rank_id rank;
  std::size_t position;  ///< in the list of the rank
  action at;
  rank_id for_rank;  ///< which would have to do `for_what`
  action for_what;

  bool operator==(waiting_action const&) const = default;
};

/// Why a schedule does not come to its end.
struct deadlock {
  std::vector<waiting_action> waiting;  ///< the next action of each rank that does not end, ascending
  /// Each waits for the next, the last for the first; no circle is shorter. Empty where all wait, in the end,
  /// for what is never done.
  std::vector<waiting_action> circle;

  bool operator==(deadlock const&) const = default;
};

/// `rank 0 at 0SEND_F1, rank 1 at 2SEND_F0`.
inline std::string describe(deadlock const& d) {
  std::string text;
  for (auto const& w : d.waiting) {
    if (!text.empty()) text += ", ";
    text += "rank " + std::to_string(index(w.rank)) + " at " + action_text(w.at);
  }
  return text;
}

/// Finds who waits for whom, once nothing moves.
class wait_survey {
 public:
  wait_survey(schedule const& s, order_walk const& walk, delivery d)
      : schedule_(s), walk_(walk), delivery_(d) {}

  deadlock found() {
    list_waits();
    mark_never_done();
    deadlock d;
    std::vector<circle_edge> edges;
    std::vector<std::uint32_t> edge_wait;
    for (std::uint32_t i = 0; i < waits_.size(); ++i) {
      auto const& w = waits_[i];
      if (d.waiting.empty() || d.waiting.back().rank != w.wait.rank) d.waiting.push_back(w.wait);
      auto const owner = index(w.wait.for_rank);
      if (w.never_done || owner >= schedule_.ranks.size() || walk_.is_finished(owner)) continue;
      edges.push_back({index(w.wait.rank), owner});
      edge_wait.push_back(i);
    }
    for (auto const e : shortest_circle(static_cast<std::uint32_t>(schedule_.ranks.size()), edges))
      d.circle.push_back(waits_[edge_wait[e]].wait);
    return d;
  }

 private:
  struct wait {
    waiting_action wait;
    std::uint32_t event;
    bool never_done = true;
  };

  void list_waits() {
    auto const& needs = walk_.needs();
    for (std::uint32_t r = 0; r < schedule_.ranks.size(); ++r) {
      if (walk_.is_finished(r)) continue;
      auto const at = walk_.position(r);
      walk_.each_unmet(r, [&](std::uint32_t event) {
        action const what = needs.action_of(event);
        auto const owner = schedule_.place.rank_of[index(what.stage)];
        waits_.push_back({{rank_id{r}, at, schedule_.ranks[r][at], owner, what}, event});
        return true;
      });
    }
  }

  /// What is awaited may still come, from a rank that waits too. A message of an ordered stream that was
  /// posted comes when its rank goes on.
  void mark_never_done() {
    std::vector<std::uint32_t> order(waits_.size());
    for (std::uint32_t i = 0; i < waits_.size(); ++i) order[i] = i;
    std::ranges::sort(order, {}, [&](std::uint32_t i) { return waits_[i].event; });
    for (std::uint32_t r = 0; r < schedule_.ranks.size(); ++r) {
      auto const& row = schedule_.ranks[r];
      auto const mark = [&](std::uint32_t event, action const& a) {
        auto at =
            std::ranges::lower_bound(order, event, {}, [&](std::uint32_t i) { return waits_[i].event; });
        for (; at != order.end() && waits_[*at].event == event; ++at) {
          if (!std::exchange(waits_[*at].never_done, false)) continue;
          waits_[*at].wait.for_rank = rank_id{r};
          waits_[*at].wait.for_what = a;
        }
      };
      for (std::size_t i = walk_.position(r); i < row.size(); ++i)
        walk_.each_event(row[i], [&](std::uint32_t event) { mark(event, row[i]); });
    }
    if (delivery_ != delivery::pair_stream) return;
    for (auto& w : waits_)
      if (w.never_done && walk_.needs().is_end_of_message(w.event))
        w.never_done = w.wait.for_rank == w.wait.rank;
  }

  schedule const& schedule_;
  order_walk const& walk_;
  delivery delivery_;
  std::vector<wait> waits_;
};

/// Where a schedule gets stuck if every rank does its list in order and messages are delivered so; nothing if
/// all ranks come to their ends. Where nothing is sent, a pass waits for the passes it needs, on any rank. A
/// compound is its parts one after the other. What no stage, microbatch or edge is known for never waits, as
/// `schedule_faults` reports it. O(actions), and for the shortest circle O(ranks²) where it is stuck.
/// \throws placement_error, schedule_count_error
inline std::optional<deadlock> find_deadlock(schedule const& s, delivery d = delivery::buffered) {
  order_walk walk(s, d);
  if (walk.run()) return std::nullopt;
  return wait_survey(s, walk, d).found();
}

/// `finishes`, or `deadlock: rank 0 at 0SEND_F1, …`. \throws as `find_deadlock`
inline std::string transport_verdict(schedule const& s, delivery d) {
  auto const found = find_deadlock(s, d);
  return found ? "deadlock: " + describe(*found) : "finishes";
}

}  // namespace cleave
