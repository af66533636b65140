// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/action_text.hpp"
#include "cleave/schedule/model/delivery.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/verify/order_lists.hpp"
#include "cleave/schedule/verify/order_walk.hpp"
#include "cleave/schedule/verify/shortest_circle.hpp"

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
  /// The next action of each rank that does not end, ascending; where messages have queues beside the passes,
  /// of each queue too.
  std::vector<waiting_action> waiting;
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

}  // namespace cleave

namespace cleave::detail {

/// Finds who waits for whom, once nothing moves.
class wait_survey {
 public:
  explicit wait_survey(order_walk const& walk) : walk_(walk), lists_(walk.lists()) {}

  deadlock found() {
    list_waits();
    mark_never_done();
    deadlock d;
    std::vector<circle_edge> edges;
    std::vector<std::uint32_t> edge_wait;
    for (std::uint32_t i = 0; i < waits_.size(); ++i) {
      auto const& w = waits_[i];
      if (i == 0 || waits_[i - 1].list != w.list) d.waiting.push_back(w.wait);
      if (w.for_list == nobody || walk_.is_finished(w.for_list)) continue;
      edges.push_back({w.list, w.for_list});
      edge_wait.push_back(i);
    }
    for (auto const e : shortest_circle(lists_.count(), edges)) d.circle.push_back(waits_[edge_wait[e]].wait);
    return d;
  }

 private:
  static constexpr std::uint32_t nobody = 0xffffffff;
  struct wait {
    waiting_action wait;
    std::uint32_t event;
    std::uint32_t list;
    std::uint32_t for_list = nobody;  ///< in which `for_what` may still come
  };

  void list_waits() {
    auto const begun = begun_ends();
    for (std::uint32_t l = 0; l < lists_.count(); ++l) {
      if (walk_.is_finished(l)) continue;
      walk_.each_unmet(l, [&](std::size_t i, std::uint32_t event) {
        // In a stream: what its other end, or the rank of that, keeps from ending.
        if (event < begun.size() && begun[event]) event = schedule_needs::other_end(event);
        action const at = lists_[l][i];
        action const what = walk_.is_room(event) ? received(at) : walk_.action_of(event);
        auto const owner = walk_.rank_of(what.stage);
        waits_.push_back({{lists_.rank_of(l), lists_.position(l, i), at, owner, what}, event, l});
        return true;
      });
    }
  }

  /// By event: whether it is an end of a message that has begun in a stream.
  std::vector<char> begun_ends() const {
    if (!walk_.has_streams()) return {};
    std::vector<char> begun(walk_.needs().events());
    for (std::uint32_t l = 0; l < lists_.count(); ++l)
      for (action const& a : lists_[l].first(walk_.position(l)))
        if (!is_compute(a.kind)) walk_.each_event(a, [&](std::uint32_t end) { begun[end] = 1; });
    return begun;
  }

  /// The receive of what is sent.
  static action received(action const& send) {
    return {
        is_activation_message(send.kind) ? action_kind::receive_activation : action_kind::receive_gradient, 0,
        send.peer, send.microbatch, send.stage};
  }

  /// What is awaited may still come, in a list that waits too. What has begun in a stream comes when its rank
  /// goes on.
  void mark_never_done() {
    std::vector<std::uint32_t> order(waits_.size());
    for (std::uint32_t i = 0; i < waits_.size(); ++i) order[i] = i;
    std::ranges::sort(order, {}, [&](std::uint32_t i) { return waits_[i].event; });
    for (std::uint32_t l = 0; l < lists_.count(); ++l) {
      auto const list = lists_[l];
      auto const mark = [&](std::uint32_t event, action const& a) {
        auto at =
            std::ranges::lower_bound(order, event, {}, [&](std::uint32_t i) { return waits_[i].event; });
        for (; at != order.end() && waits_[*at].event == event; ++at) {
          auto& w = waits_[*at];
          if (w.for_list != nobody) continue;
          w.for_list = l;
          w.wait.for_rank = lists_.rank_of(l);
          w.wait.for_what = a;
        }
      };
      for (std::size_t i = walk_.position(l); i < list.size(); ++i)
        walk_.each_event(list[i], [&](std::uint32_t event) { mark(event, list[i]); });
    }
    if (!walk_.has_streams()) return;
    for (auto& w : waits_)
      if (w.for_list == nobody && walk_.needs().is_end_of_message(w.event) && w.wait.for_rank != w.wait.rank)
        w.for_list = lists_.first_of(w.wait.for_rank);
  }

  order_walk const& walk_;
  order_lists const& lists_;
  std::vector<wait> waits_;
};

}  // namespace cleave::detail

namespace cleave {

/// Where a schedule gets stuck if every rank does its list in order and messages are delivered by these
/// rules; nothing if all ranks come to their ends. Where nothing is sent, a pass waits for the passes it
/// needs, on any rank. A compound is its parts one after the other. What no stage, microbatch or edge is
/// known for never waits, as `schedule_faults` reports it. O(actions), and for the shortest circle O(ranks²)
/// where it is stuck.
/// \throws placement_error, schedule_count_error
inline std::optional<deadlock> find_deadlock(schedule const& s, delivery_rules const& rules) {
  detail::order_walk walk(s, rules);
  if (walk.run()) return std::nullopt;
  return detail::wait_survey(walk).found();
}
inline std::optional<deadlock> find_deadlock(schedule const& s, delivery d = delivery::buffered) {
  return find_deadlock(s, delivery_rules{.delivery = d});
}

/// `finishes`, or `deadlock: rank 0 at 0SEND_F1, …`. \throws as `find_deadlock`
inline std::string transport_verdict(schedule const& s, delivery_rules const& rules) {
  auto const found = find_deadlock(s, rules);
  return found ? "deadlock: " + describe(*found) : "finishes";
}
inline std::string transport_verdict(schedule const& s, delivery d) {
  return transport_verdict(s, delivery_rules{.delivery = d});
}

}  // namespace cleave
