// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/cycle.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/delivery.hpp"
#include "cleave/schedule/model/list_runner.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_dependencies.hpp"
#include "cleave/schedule/verify/detail/rank_channels.hpp"
#include "cleave/schedule/verify/wait_report.hpp"

namespace cleave::inline v0_2::detail {

/// Returns the end (one past the last) of the group of actions that begin together with action `i` of a list.
/// For the head of a compound of messages, these are its parts. Precondition: `i` is not one of these parts.
/// O(actions of the group).
inline std::size_t group_end(std::span<action const> list, std::size_t i, message_groups groups) {
  auto const is_end = [&](std::size_t at) { return is_send(list[at].kind) || is_receive(list[at].kind); };
  auto const end_from = [&](std::size_t at) {  // returns 0 if no message begins here
    if (at == list.size()) return std::size_t{0};
    if (list[at].parts > 0 && at + 1 < list.size() && is_end(at + 1))
      return (std::min)(list.size(), at + 1 + list[at].parts);
    return is_end(at) ? at + 1 : 0;
  };
  auto end = (std::max)(i + 1, end_from(i));
  if (groups == message_groups::adjacent && end_from(i) > 0)
    for (auto next = end_from(end); next > 0; next = end_from(end)) end = next;
  return end;
}

/// The sequences of actions that run in order. This is one list per rank or, if messages have queues next to
/// the passes, the passes of each rank and each of its queues.
class order_lists {
 public:
  /// Keeps a reference to the schedule. O(1), or O(actions) with queues.
  order_lists(schedule const& s, delivery_rules const& rules)
      : schedule_(s),
        groups_(rules.groups),
        of_rank_(rules.delivery == delivery::one_queue    ? 2
                 : rules.delivery == delivery::two_queues ? 3
                                                          : 1) {
    if (of_rank_ > 1) divide();
  }

  bool has_queues() const { return of_rank_ > 1; }
  std::uint32_t count() const { return static_cast<std::uint32_t>(schedule_.ranks.size()) * of_rank_; }
  rank_id rank_of(std::uint32_t list) const { return rank_id{list / of_rank_}; }
  std::vector<std::size_t> lengths() const {
    std::vector<std::size_t> all;
    for (std::uint32_t l = 0; l < count(); ++l) all.push_back((*this)[l].size());
    return all;
  }
  /// Returns true if the list is a message queue.
  bool is_queue(std::uint32_t list) const { return queue_number(list) > 0; }
  /// Returns the number of the queue within its rank, from 1, or 0 for the list of passes.
  std::uint32_t queue_number(std::uint32_t list) const { return list % of_rank_; }
  /// Returns the list with the passes of a rank. Without queues it holds all its actions.
  std::uint32_t first_of(rank_id r) const { return index(r) * of_rank_; }

  std::span<action const> operator[](std::uint32_t list) const {
    return of_rank_ == 1 ? std::span(schedule_.ranks[list]) : std::span(parts_[list].actions);
  }
  /// Returns the end (one past the last) of the group of actions that begin together with action `i` of a
  /// list.
  std::size_t end_of_group(std::uint32_t list, std::size_t i) const {
    if (of_rank_ == 1) return group_end(schedule_.ranks[list], i, groups_);
    auto const& of = parts_[list].groups;
    auto const group = of[i];
    while (i < of.size() && of[i] == group) ++i;
    return i;
  }
  /// Returns the position of action `i` of a list in the list of the rank.
  std::size_t position(std::uint32_t list, std::size_t i) const {
    return of_rank_ == 1 ? i : parts_[list].positions[i];
  }

 private:
  struct part {
    std::vector<action> actions;
    std::vector<std::size_t> positions, groups;
  };

  void divide() {
    parts_.resize(count());
    for (std::uint32_t r = 0; r < schedule_.ranks.size(); ++r) {
      std::span<action const> const row = schedule_.ranks[r];
      for (std::size_t i = 0, group = 0; i < row.size(); ++group)
        for (auto const end = group_end(row, i, groups_); i < end; ++i) {
          auto& to = parts_[r * of_rank_ + queue_of(row[i])];
          to.actions.push_back(row[i]);
          to.positions.push_back(i);
          to.groups.push_back(group);
        }
    }
  }
  std::uint32_t queue_of(action const& a) const {
    if (!is_send(a.kind) && !is_receive(a.kind)) return 0;
    return of_rank_ == 3 && !is_activation_message(a.kind) ? 2 : 1;
  }

  schedule const& schedule_;
  message_groups groups_;
  std::uint32_t of_rank_;
  std::vector<part> parts_;
};

/// One stream for each pair of ranks with an edge between them. The message ends that a rank begins form
/// groups, which complete in order. A group completes when each of its ends has met its other end in the
/// oldest group of the other rank.
class pair_streams {
 public:
  pair_streams() = default;
  /// Event numbers of ends are below `ends`. O(edges log edges + ends).
  pair_streams(stage_placement const& p, std::size_t ends) : open_on_(ends) {
    std::vector<std::pair<rank_id, rank_id>> pairs;
    for (auto const& e : p.edges)
      pairs.push_back(std::minmax({p.rank_of[index(e.from)], p.rank_of[index(e.to)]}));
    auto all = pairs;
    std::ranges::sort(all);
    all.erase(std::ranges::unique(all).begin(), all.end());
    for (auto const& pair : pairs)
      of_edge_.push_back(static_cast<std::size_t>(std::ranges::lower_bound(all, pair) - all.begin()));
    for (auto const& pair : all) streams_.push_back({pair.first, {}});
  }

  /// Begins an end of a message along an edge on rank `r`. It joins the group of the previous end of that
  /// rank if `group` is equal. Groups are complete once the stream is settled.
  void begin(std::uint32_t edge, rank_id r, std::uint32_t end, std::uint64_t group) {
    auto& between = streams_[of_edge_[edge]];
    between.sides[r == between.first_rank ? 0 : 1].ends.push_back({end, group});
  }
  /// Calls `f(end)` for each end that completes. The numbers of the two ends of a message differ only in the
  /// last bit.
  template <class F>
  void settle(std::uint32_t edge, F f) {
    auto& sides = streams_[of_edge_[edge]].sides;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < 2; ++s) {
        auto& here = sides[s];
        if (here.left > 0) continue;
        for (; here.ended < here.opened; ++here.ended) f(here.ends[here.ended].end);
        if (here.opened == here.ends.size()) continue;
        open_group(sides, s);
        moved = true;
      }
    }
  }

 private:
  struct begun_end {
    std::uint32_t end;
    std::uint64_t group;
  };
  struct side {
    std::vector<begun_end> ends;
    /// The number of completed ends, and the number of ends up to and including the oldest group.
    std::size_t ended = 0, opened = 0;
    std::size_t left = 0;  ///< ends of the oldest group that have not met their other ends
  };
  struct stream {
    rank_id first_rank;
    std::array<side, 2> sides;
  };

  void open_group(std::array<side, 2>& sides, std::size_t s) {
    auto &here = sides[s], &there = sides[1 - s];
    auto const mark = [](std::size_t which) { return static_cast<char>(which + 1); };
    auto const group = here.ends[here.opened].group;
    for (; here.opened < here.ends.size() && here.ends[here.opened].group == group; ++here.opened) {
      auto const end = here.ends[here.opened].end;
      if (open_on_[end ^ 1] == mark(1 - s)) {
        open_on_[end ^ 1] = 0;
        --there.left;
      } else {
        open_on_[end] = mark(s);
        ++here.left;
      }
    }
  }

  std::vector<stream> streams_;
  std::vector<std::size_t> of_edge_;
  std::vector<char> open_on_;  // by end: the side, from 1, in whose oldest group it waits for its other end
};

/// Runs every list in order under the delivery rules, until it ends or blocks. Its events are those of
/// `schedule_dependencies`, the end of a message in a queue, and free room for a message between two ranks.
///
/// Two actions that can begin never prevent each other from beginning. The final state therefore does not
/// depend on the order in which lists are woken.
///
/// O(actions).
class order_walk {
 public:
  /// Keeps a reference to the schedule. \throws stage_placement_error, schedule_count_error
  order_walk(schedule const& s, delivery_rules const& rules)
      : place_(s.place), rules_(rules), dependencies_(s), lists_(s, rules), begun_(lists_.count()) {
    is_simple_ =
        rules.groups == message_groups::listed && !lists_.has_queues() && !has_limit() && !has_streams();
    if (has_limit()) channels_ = rank_channels(s.place);
    runner_ = list_runner(lists_.lengths(), number_events(s));
    on_their_way_.resize(channels_.count());
    if (has_streams()) streams_ = pair_streams(s.place, dependencies_.events());
  }

  /// Runs the lists. Returns true if all of them finish.
  bool run() {
    return runner_.run([this](std::uint32_t l) { return go_on(l); });
  }

  schedule_dependencies const& dependencies() const { return dependencies_; }
  order_lists const& lists() const { return lists_; }
  /// Returns the position of each list.
  list_runner const& progress() const { return runner_; }

  /// Calls `f(place in the list, event)` for each event that list `l` waits for, until a call returns false.
  /// Precondition: the list is not finished.
  template <class F>
  void each_unmet(std::uint32_t l, F f) const {
    bool const begins = begun_[l] == 0;
    for (auto i = runner_.position(l), end = lists_.end_of_group(l, i); i < end; ++i)
      if (!each_dependency(lists_[l][i], begins,
                           [&](std::uint32_t event) { return runner_.has_happened(event) || f(i, event); }))
        return;
  }

  /// Calls `f(event)` for each event that an action triggers.
  template <class F>
  void each_event(action const& a, F f) const {
    if (is_compute(a.kind)) {
      if (dependencies_.in_range(a)) dependencies_.each_effect(a, f);
      return;
    }
    if (!is_send(a.kind) && !is_receive(a.kind)) return;
    auto const end = dependencies_.message_end(a);
    if (end == schedule_dependencies::none) return;
    f(end);
    if (lists_.has_queues()) f(first_ended_ + end);
    // A receive makes room if its message is in flight.
    if (has_limit() && is_receive(a.kind) && runner_.has_happened(schedule_dependencies::other_end(end)))
      f(room_for(a));
  }

  /// Returns the action that triggers an event. For B and I the result is B. Precondition: the event is not
  /// `is_room`.
  action action_of(std::uint32_t event) const {
    return dependencies_.action_of(event < first_ended_ ? event : event - first_ended_);
  }
  bool is_room(std::uint32_t event) const { return event >= first_room_; }
  bool has_streams() const { return rules_.delivery == delivery::pair_stream; }
  rank_id rank_of(stage_id s) const { return place_.rank_of[index(s)]; }

 private:
  /// Numbers the events and returns their count.
  std::size_t number_events(schedule const& s) {
    std::uint64_t const all =
        std::uint64_t{dependencies_.events()} * (lists_.has_queues() ? 2 : 1) + channels_.count();
    if (all >= schedule_dependencies::none)
      throw schedule_count_error("schedule: " + std::to_string(s.place.stages()) + " stages and " +
                                     std::to_string(s.microbatches) + " microbatches are too many for queues",
                                 s.microbatches);
    first_ended_ = dependencies_.events();
    first_room_ = static_cast<std::uint32_t>(all) - channels_.count();
    return static_cast<std::size_t>(all);
  }

  bool has_limit() const { return rules_.delivery == delivery::buffered && rules_.buffers != any_number; }
  std::uint32_t room_for(action const& a) const {
    return first_room_ + channels_.of(dependencies_.edge_of(a), flow_of(a));
  }

  /// Calls `f(event)` for each event that an action waits for, until a call returns false. With `begins`,
  /// these are the events before it begins, and otherwise those before it ends.
  template <class F>
  bool each_dependency(action const& a, bool begins, F f) const {
    if (is_compute(a.kind)) return !dependencies_.in_range(a) || each_dependency_of_pass(a, f);
    if (!is_message(a.kind)) return true;
    auto const end = dependencies_.message_end(a);
    if (end == schedule_dependencies::none) return true;
    auto const other = schedule_dependencies::other_end(end);
    if (is_wait_send(a.kind)) {
      if (lists_.has_queues()) return f(first_ended_ + end);
      if (has_streams()) return f(end);
      return rules_.delivery <= delivery::rendezvous || f(other);
    }
    if (lists_.has_queues() && begins) return is_receive(a.kind) || f(dependencies_.pass_of(a));
    if (is_receive(a.kind) ? !receives_block() : !sends_block()) return true;
    if (is_send(a.kind) && has_limit())
      return on_their_way_[room_for(a) - first_room_] <= rules_.buffers || f(room_for(a));
    return f(other);
  }
  bool receives_block() const { return rules_.delivery <= delivery::rendezvous || lists_.has_queues(); }
  bool sends_block() const {
    return rules_.delivery == delivery::rendezvous || has_limit() || lists_.has_queues();
  }

  template <class F>
  bool each_dependency_of_pass(action const& a, F& f) const {
    if (!lists_.has_queues() && !has_streams()) return dependencies_.each_dependency(a, f);
    return dependencies_.each_dependency(a, [&](std::uint32_t event) {
      if (!dependencies_.is_end_of_message(event)) return f(event);
      if (event % 2 == 0) return true;  // a received message has also been sent
      return f(has_streams() ? event : first_ended_ + event);
    });
  }

  /// Does the next action of a list and the simple actions after it, or its group. Returns false if the list
  /// has to wait.
  bool go_on(std::uint32_t l) {
    auto const rest = lists_[l].subspan(runner_.position(l));
    if (!is_simple_ || rest[0].parts > 0) return do_group(l);
    std::size_t done = 0;
    bool goes_on = true;
    for (; goes_on && done < rest.size() && rest[done].parts == 0; done += goes_on)
      goes_on = do_alone(l, rest[done]);
    runner_.pass(l, done);
    return goes_on;
  }

  /// Does one action outside of groups: a fast path for the most frequent case. Returns true if it could be
  /// done.
  bool do_alone(std::uint32_t l, action const& a) {
    if (is_compute(a.kind)) {
      if (!dependencies_.in_range(a)) return true;
      bool const has_all =
          dependencies_.each_dependency(a, [&](std::uint32_t event) { return !runner_.waits_for(l, event); });
      if (has_all) dependencies_.each_effect(a, [&](std::uint32_t event) { runner_.happen(event); });
      return has_all;
    }
    if (!is_message(a.kind)) return true;
    auto const end = dependencies_.message_end(a);
    if (end == schedule_dependencies::none) return true;
    bool const waits_for_send = is_wait_send(a.kind);
    if (!waits_for_send && begun_[l] == 0) runner_.happen(end);
    auto const other = schedule_dependencies::other_end(end);
    bool const blocks = waits_for_send       ? rules_.delivery == delivery::async
                        : is_receive(a.kind) ? receives_block()
                                             : sends_block();
    bool const waits = blocks && runner_.waits_for(l, other);
    begun_[l] = waits && !waits_for_send;
    return !waits;
  }

  /// Does the next group of a list. Returns true if it could be done.
  bool do_group(std::uint32_t l) {
    if (begun_[l] == 0) {
      if (lists_.is_queue(l) && waits(l)) return false;
      begun_[l] = 1;
      begin(l);
    }
    if (waits(l)) return false;
    begun_[l] = 0;
    auto const first = runner_.position(l), last = lists_.end_of_group(l, first);
    for (auto i = first; i < last; ++i) finish(l, lists_[l][i]);
    runner_.pass(l, last - first);
    return true;
  }

  /// Makes the list wait for its first missing event. Returns false if no event is missing.
  bool waits(std::uint32_t l) {
    std::uint32_t unmet = schedule_dependencies::none;
    each_unmet(l, [&](std::size_t, std::uint32_t event) {
      unmet = event;
      return false;
    });
    return unmet != schedule_dependencies::none && runner_.waits_for(l, unmet);
  }

  /// Makes the sends and receives of a group visible to the other rank, or puts them into the stream.
  void begin(std::uint32_t l) {
    auto const list = lists_[l];
    auto const first = runner_.position(l), last = lists_.end_of_group(l, first);
    for (auto i = first; i < last; ++i)
      if (auto const end = end_of(list[i]); end != schedule_dependencies::none) {
        if (has_streams())
          streams_.begin(dependencies_.edge_of(list[i]), lists_.rank_of(l), end, first);
        else
          begin_end(list[i], end);
      }
    if (!has_streams()) return;
    for (auto i = first; i < last; ++i)
      if (end_of(list[i]) != schedule_dependencies::none)
        streams_.settle(dependencies_.edge_of(list[i]), [&](std::uint32_t end) { runner_.happen(end); });
  }
  std::uint32_t end_of(action const& a) const {
    return is_send(a.kind) || is_receive(a.kind) ? dependencies_.message_end(a) : schedule_dependencies::none;
  }

  void begin_end(action const& a, std::uint32_t end) {
    bool const again = runner_.has_happened(end);
    bool const both = runner_.has_happened(schedule_dependencies::other_end(end));
    runner_.happen(end);
    if (!has_limit() || again) return;
    auto& on_their_way = on_their_way_[room_for(a) - first_room_];
    if (is_send(a.kind)) ++on_their_way;
    if (!both) return;
    --on_their_way;
    runner_.wake(room_for(a));
  }

  /// Triggers the events at the end of an action, or of its group.
  void finish(std::uint32_t l, action const& a) {
    if (is_compute(a.kind)) {
      each_event(a, [&](std::uint32_t event) { runner_.happen(event); });
    } else if (lists_.is_queue(l)) {
      if (auto const end = dependencies_.message_end(a); end != schedule_dependencies::none)
        runner_.happen(first_ended_ + end);
    }
  }

  stage_placement const& place_;
  delivery_rules rules_;
  schedule_dependencies dependencies_;
  order_lists lists_;
  bool is_simple_ = false;  ///< messages wait only for their other ends, and are not grouped
  pair_streams streams_;
  rank_channels channels_;
  std::uint32_t first_ended_ = 0, first_room_ = 0;
  std::vector<std::uint32_t> on_their_way_;  // by channel: messages sent and not received
  std::vector<char> begun_;                  // by list: true if the next action has begun
  list_runner runner_;
};

/// Finds the actions that wait for each other once no list can advance.
class wait_analysis {
 public:
  explicit wait_analysis(order_walk const& walk) : walk_(walk), lists_(walk.lists()) {}

  deadlock found() {
    list_waits();
    find_who_does();
    return report_waits(waits_, walk_.progress());
  }

 private:
  static constexpr std::uint32_t no_list = list_wait::no_list;

  void list_waits() {
    auto const begun = begun_ends();
    for (std::uint32_t l = 0; l < lists_.count(); ++l) {
      if (walk_.progress().is_finished(l)) continue;
      walk_.each_unmet(l, [&](std::size_t i, std::uint32_t event) {
        // An end that has begun in a stream waits for its other end or for the rank of that end.
        if (event < begun.size() && begun[event]) event = schedule_dependencies::other_end(event);
        action const at = lists_[l][i];
        action const what = walk_.is_room(event) ? received(at) : walk_.action_of(event);
        auto const owner = walk_.rank_of(what.stage);
        waits_.push_back({{lists_.rank_of(l), lists_.position(l, i), at, owner, what}, l});
        events_.push_back(event);
        return true;
      });
    }
  }

  /// Returns, by event, true for each message end that has begun in a stream.
  std::vector<char> begun_ends() const {
    if (!walk_.has_streams()) return {};
    std::vector<char> begun(walk_.dependencies().events());
    for (std::uint32_t l = 0; l < lists_.count(); ++l)
      for (action const& a : lists_[l].first(walk_.progress().position(l)))
        if (!is_compute(a.kind)) walk_.each_event(a, [&](std::uint32_t end) { begun[end] = 1; });
    return begun;
  }

  /// Returns the receive of a send.
  static action received(action const& send) {
    return {
        is_activation_message(send.kind) ? action_kind::receive_activation : action_kind::receive_gradient, 0,
        send.peer, send.microbatch, send.stage};
  }

  /// Finds the list that would trigger each missing event. That list may wait too. An end that has begun in a
  /// stream completes when the other rank advances.
  void find_who_does() {
    std::vector<std::uint32_t> order(waits_.size());
    for (std::uint32_t i = 0; i < waits_.size(); ++i) order[i] = i;
    std::ranges::sort(order, {}, [&](std::uint32_t i) { return events_[i]; });
    for (std::uint32_t l = 0; l < lists_.count(); ++l) {
      auto const list = lists_[l];
      auto const mark = [&](std::uint32_t event, action const& a) {
        auto at = std::ranges::lower_bound(order, event, {}, [&](std::uint32_t i) { return events_[i]; });
        for (; at != order.end() && events_[*at] == event; ++at) {
          auto& w = waits_[*at];
          if (w.for_list != no_list) continue;
          w.for_list = l;
          w.wait.for_rank = lists_.rank_of(l);
          w.wait.for_what = a;
        }
      };
      for (std::size_t i = walk_.progress().position(l); i < list.size(); ++i)
        walk_.each_event(list[i], [&](std::uint32_t event) { mark(event, list[i]); });
    }
    if (!walk_.has_streams()) return;
    for (std::size_t i = 0; i < waits_.size(); ++i)
      if (auto& w = waits_[i]; w.for_list == no_list && walk_.dependencies().is_end_of_message(events_[i]) &&
                               w.wait.for_rank != w.wait.rank)
        w.for_list = lists_.first_of(w.wait.for_rank);
  }

  order_walk const& walk_;
  order_lists const& lists_;
  std::vector<list_wait> waits_;
  std::vector<std::uint32_t> events_;  // by wait: the event it waits for
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns where a schedule deadlocks if every rank runs its list in order under the given delivery rules.
/// Returns nothing if all ranks finish.
///
/// In a schedule without messages, a pass waits for the passes on which it depends, on any rank. The parts of
/// a compound run in order. An action whose stage, microbatch or edge does not exist never waits;
/// `schedule_faults` reports it. O(actions), and O(ranks²) for the shortest cycle of a deadlock.
/// \throws stage_placement_error, schedule_count_error
inline std::optional<deadlock> find_deadlock(schedule const& s, delivery_rules const& rules) {
  detail::order_walk walk(s, rules);
  if (walk.run()) return std::nullopt;
  return detail::wait_analysis(walk).found();
}
/// Uses the default `delivery_rules` with this delivery.
inline std::optional<deadlock> find_deadlock(schedule const& s, delivery d = delivery::buffered) {
  return find_deadlock(s, delivery_rules{.delivery = d});
}

/// Returns `finishes`, or the deadlock as text, such as `deadlock: rank 0 at 0SEND_F1`.
/// \throws as `find_deadlock`
inline std::string deadlock_verdict(schedule const& s, delivery_rules const& rules) {
  auto const found = find_deadlock(s, rules);
  return found ? "deadlock: " + describe(*found) : "finishes";
}
/// Uses the default `delivery_rules` with this delivery.
inline std::string deadlock_verdict(schedule const& s, delivery d) {
  return deadlock_verdict(s, delivery_rules{.delivery = d});
}

}  // namespace cleave
