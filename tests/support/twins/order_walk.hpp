// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/schedule/verify/deadlock.hpp"

/// How deadlocks were found before `list_runner`: a machine of its own, to compare with.
namespace cleave::testing::twins {

using namespace detail;

/// Runs every list in order as far as it goes. Each list that waits is at one event, which wakes it. Beside
/// the events of `schedule_needs`, a message in a queue ends, and a pair of ranks has room for a message.
///
/// Two actions that can begin never keep each other from it: so whatever the order in which lists are woken,
/// the same actions are done in the end.
///
/// O(actions).
class order_walk {
 public:
  /// Refers to the schedule. \throws placement_error, schedule_count_error
  order_walk(schedule const& s, delivery_rules const& rules)
      : place_(s.place),
        rules_(rules),
        needs_(s),
        lists_(s, rules),
        position_(lists_.count()),
        next_waiter_(lists_.count()),
        begun_(lists_.count()) {
    is_simple_ =
        rules.groups == message_groups::listed && !lists_.has_queues() && !has_limit() && !has_streams();
    if (has_limit()) channels_ = rank_channels(s.place);
    number_events(s);
    on_their_way_.resize(channels_.count());
    if (has_streams()) streams_ = pair_streams(s.place, needs_.events());
  }

  /// Whether all lists come to their ends.
  bool run() {
    for (auto l = lists_.count(); l-- > 0;) awake_.push_back(l);
    while (!awake_.empty()) {
      auto const l = awake_.back();
      awake_.pop_back();
      advance(l);
    }
    for (std::uint32_t l = 0; l < lists_.count(); ++l)
      if (!is_finished(l)) return false;
    return true;
  }

  schedule_needs const& needs() const { return needs_; }
  order_lists const& lists() const { return lists_; }
  bool is_finished(std::uint32_t l) const { return position_[l] == lists_[l].size(); }
  /// In its list, where list `l` waits.
  std::size_t position(std::uint32_t l) const { return position_[l]; }

  /// `f(place in the list, event)` for what list `l` waits for, until one returns false. Precondition: it is
  /// not finished.
  template <class F>
  void each_unmet(std::uint32_t l, F f) const {
    bool const begins = begun_[l] == 0;
    for (auto i = position_[l], end = lists_.end_of_group(l, i); i < end; ++i)
      if (!each_need(lists_[l][i], begins,
                     [&](std::uint32_t event) { return state_[event] == done || f(i, event); }))
        return;
  }

  /// `f(event)` for what an action brings about.
  template <class F>
  void each_event(action const& a, F f) const {
    if (is_compute(a.kind)) {
      if (needs_.in_range(a)) needs_.each_effect(a, f);
      return;
    }
    if (!is_send(a.kind) && !is_receive(a.kind)) return;
    auto const end = needs_.message_end(a);
    if (end == schedule_needs::none) return;
    f(end);
    if (lists_.has_queues()) f(first_ended_ + end);
    // Of a receive: room, once its message is on its way.
    if (has_limit() && is_receive(a.kind) && state_[schedule_needs::other_end(end)] == done) f(room_for(a));
  }

  /// The action that brings an event about, B for either of B and I. Of room it is not known.
  action action_of(std::uint32_t event) const {
    return needs_.action_of(event < first_ended_ ? event : event - first_ended_);
  }
  bool is_room(std::uint32_t event) const { return event >= first_room_; }
  bool has_streams() const { return rules_.delivery == delivery::pair_stream; }
  rank_id rank_of(stage_id s) const { return place_.rank_of[index(s)]; }

 private:
  static constexpr std::uint32_t done = 1;  // else 0, or 2 + the list that waits

  void number_events(schedule const& s) {
    std::uint64_t const all =
        std::uint64_t{needs_.events()} * (lists_.has_queues() ? 2 : 1) + channels_.count();
    if (all >= schedule_needs::none)
      throw schedule_count_error("schedule: " + std::to_string(s.place.stages()) + " stages and " +
                                     std::to_string(s.microbatches) + " microbatches are too many for queues",
                                 s.microbatches);
    first_ended_ = needs_.events();
    first_room_ = static_cast<std::uint32_t>(all) - channels_.count();
    state_.resize(static_cast<std::size_t>(all));
  }

  bool has_limit() const { return rules_.delivery == delivery::buffered && rules_.buffers != any_number; }
  std::uint32_t room_for(action const& a) const {
    return first_room_ + channels_.of(needs_.edge_of(a), flow_of(a));
  }

  /// `f(event)` for what an action waits for, before it begins or after, until one returns false.
  template <class F>
  bool each_need(action const& a, bool begins, F f) const {
    if (is_compute(a.kind)) return !needs_.in_range(a) || each_need_of_pass(a, f);
    if (!is_message(a.kind)) return true;
    auto const end = needs_.message_end(a);
    if (end == schedule_needs::none) return true;
    auto const other = schedule_needs::other_end(end);
    if (is_wait_send(a.kind)) {
      if (lists_.has_queues()) return f(first_ended_ + end);
      if (has_streams()) return f(end);
      return rules_.delivery <= delivery::rendezvous || f(other);
    }
    if (lists_.has_queues() && begins) return is_receive(a.kind) || f(needs_.pass_of(a));
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
  bool each_need_of_pass(action const& a, F& f) const {
    if (!lists_.has_queues() && !has_streams()) return needs_.each_need(a, f);
    return needs_.each_need(a, [&](std::uint32_t event) {
      if (!needs_.is_end_of_message(event)) return f(event);
      if (event % 2 == 0) return true;  // once it is received, it has been sent
      return f(has_streams() ? event : first_ended_ + event);
    });
  }

  void advance(std::uint32_t l) {
    auto const list = lists_[l];
    for (auto& at = position_[l]; at < list.size();)
      if (is_simple_ && list[at].parts == 0) {
        if (!do_alone(l, list[at])) return;
        ++at;
      } else if (!do_group(l, list)) {
        return;
      }
  }

  /// Whether one action could be done, and nothing began with it; the short way for what is most frequent.
  bool do_alone(std::uint32_t l, action const& a) {
    if (is_compute(a.kind)) {
      if (!needs_.in_range(a)) return true;
      bool const has_all = needs_.each_need(
          a, [&](std::uint32_t event) { return state_[event] == done || (wait_for(l, event), false); });
      if (has_all) needs_.each_effect(a, [&](std::uint32_t event) { happen(event); });
      return has_all;
    }
    if (!is_message(a.kind)) return true;
    auto const end = needs_.message_end(a);
    if (end == schedule_needs::none) return true;
    bool const waits_for_send = is_wait_send(a.kind);
    if (!waits_for_send && begun_[l] == 0) happen(end);
    auto const other = schedule_needs::other_end(end);
    bool const blocks = waits_for_send       ? rules_.delivery == delivery::async
                        : is_receive(a.kind) ? receives_block()
                                             : sends_block();
    if (blocks && state_[other] != done) {
      begun_[l] = waits_for_send ? 0 : 1;
      wait_for(l, other);
      return false;
    }
    begun_[l] = 0;
    return true;
  }

  /// Whether what begins together could be done.
  bool do_group(std::uint32_t l, std::span<action const> list) {
    if (begun_[l] == 0) {
      if (lists_.is_queue(l) && waits(l)) return false;
      begun_[l] = 1;
      begin(l);
    }
    if (waits(l)) return false;
    begun_[l] = 0;
    auto& at = position_[l];
    for (auto const end = lists_.end_of_group(l, at); at < end; ++at) finish(l, list[at]);
    return true;
  }

  /// Lets the list wait for the first thing that it needs.
  bool waits(std::uint32_t l) {
    std::uint32_t unmet = schedule_needs::none;
    each_unmet(l, [&](std::size_t, std::uint32_t event) {
      unmet = event;
      return false;
    });
    if (unmet == schedule_needs::none) return false;
    wait_for(l, unmet);
    return true;
  }
  void wait_for(std::uint32_t l, std::uint32_t event) {
    next_waiter_[l] = state_[event];
    state_[event] = l + 2;
  }

  /// Sends and receives are there for the other rank to see, or in its stream.
  void begin(std::uint32_t l) {
    auto const list = lists_[l];
    auto const first = position_[l], last = lists_.end_of_group(l, first);
    for (auto i = first; i < last; ++i)
      if (auto const end = end_of(list[i]); end != schedule_needs::none) {
        if (has_streams())
          streams_.begin(needs_.edge_of(list[i]), lists_.rank_of(l), end, first);
        else
          begin_end(list[i], end);
      }
    if (!has_streams()) return;
    for (auto i = first; i < last; ++i)
      if (end_of(list[i]) != schedule_needs::none)
        streams_.settle(needs_.edge_of(list[i]), [&](std::uint32_t end) { happen(end); });
  }
  std::uint32_t end_of(action const& a) const {
    return is_send(a.kind) || is_receive(a.kind) ? needs_.message_end(a) : schedule_needs::none;
  }

  void begin_end(action const& a, std::uint32_t end) {
    bool const again = state_[end] == done, both = state_[schedule_needs::other_end(end)] == done;
    happen(end);
    if (!has_limit() || again) return;
    auto& on_their_way = on_their_way_[room_for(a) - first_room_];
    if (is_send(a.kind)) ++on_their_way;
    if (!both) return;
    --on_their_way;
    happen(room_for(a));
    state_[room_for(a)] = 0;
  }

  /// What follows when an action, or its group, has ended.
  void finish(std::uint32_t l, action const& a) {
    if (is_compute(a.kind)) {
      each_event(a, [&](std::uint32_t event) { happen(event); });
    } else if (lists_.is_queue(l)) {
      if (auto const end = needs_.message_end(a); end != schedule_needs::none) happen(first_ended_ + end);
    }
  }

  void happen(std::uint32_t event) {
    auto waiter = std::exchange(state_[event], done);
    while (waiter > done) {
      auto const l = waiter - 2;
      awake_.push_back(l);
      waiter = next_waiter_[l];
    }
  }

  placement const& place_;
  delivery_rules rules_;
  schedule_needs needs_;
  order_lists lists_;
  bool is_simple_ = false;  ///< messages wait for nothing but their other ends, and alone
  pair_streams streams_;
  rank_channels channels_;
  std::uint32_t first_ended_ = 0, first_room_ = 0;
  std::vector<std::uint32_t> state_;         // of an event
  std::vector<std::uint32_t> on_their_way_;  // sent and not received, by channel
  std::vector<std::size_t> position_;
  std::vector<std::uint32_t> next_waiter_;  // at the same event
  std::vector<char> begun_;                 // whether what a list is at has begun
  std::vector<std::uint32_t> awake_;
};

/// Finds who waits for whom, once nothing moves.
class wait_survey {
 public:
  explicit wait_survey(order_walk const& walk) : walk_(walk), lists_(walk.lists()) {}

  deadlock found() {
    list_waits();
    mark_never_done();
    deadlock d;
    std::vector<directed_arc> edges;
    std::vector<std::uint32_t> edge_wait;
    for (std::uint32_t i = 0; i < waits_.size(); ++i) {
      auto const& w = waits_[i];
      if (i == 0 || waits_[i - 1].list != w.list) d.waiting.push_back(w.wait);
      if (w.for_list == nobody || walk_.is_finished(w.for_list)) continue;
      edges.push_back({w.list, w.for_list});
      edge_wait.push_back(i);
    }
    for (auto const e : shortest_cycle(lists_.count(), edges)) d.circle.push_back(waits_[edge_wait[e]].wait);
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

inline std::optional<deadlock> find_deadlock(schedule const& s, delivery_rules const& rules) {
  order_walk walk(s, rules);
  if (walk.run()) return std::nullopt;
  return wait_survey(walk).found();
}

}  // namespace cleave::testing::twins
