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

namespace cleave::detail {

/// One past the last action of a list that begins together with the one at place `i`: with the head of a
/// compound of messages its parts. Precondition: `i` is not among such parts. O(those).
inline std::size_t group_end(std::span<action const> list, std::size_t i, message_groups groups) {
  auto const is_end = [&](std::size_t at) { return is_send(list[at].kind) || is_receive(list[at].kind); };
  auto const end_from = [&](std::size_t at) {  // 0 where no message begins
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

/// What is done one after the other: the list of each rank, or, where messages have queues beside the passes,
/// the passes of each rank and then each of its queues.
class order_lists {
 public:
  /// Refers to the schedule. O(1), or O(actions) where there are queues.
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
  /// Whether it is one of messages beside the passes.
  bool is_queue(std::uint32_t list) const { return queue_number(list) > 0; }
  /// Which of the queues of its rank it is, from 1; 0 for the passes.
  std::uint32_t queue_number(std::uint32_t list) const { return list % of_rank_; }
  /// The list of a rank with its passes, and all else where there are no queues.
  std::uint32_t first_of(rank_id r) const { return index(r) * of_rank_; }

  std::span<action const> operator[](std::uint32_t list) const {
    return of_rank_ == 1 ? std::span(schedule_.ranks[list]) : std::span(parts_[list].actions);
  }
  /// One past the last action of a list that begins together with the one at place `i`.
  std::size_t end_of_group(std::uint32_t list, std::size_t i) const {
    if (of_rank_ == 1) return group_end(schedule_.ranks[list], i, groups_);
    auto const& of = parts_[list].groups;
    auto const group = of[i];
    while (i < of.size() && of[i] == group) ++i;
    return i;
  }
  /// Where the action at place `i` of a list stands in the list of the rank.
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

/// One stream for each pair of ranks with an edge between them. Groups of ends that a rank begins end in that
/// order: a group when each of its ends has met its other one, in the oldest group of the other rank.
class pair_streams {
 public:
  pair_streams() = default;
  /// `ends` is how many numbers of ends there may be. O(edges log edges + ends).
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

  /// Rank `r` begins an end of a message along an edge, in the same group as the one before if its `group` is
  /// the same. A group is complete when the stream is settled.
  void begin(std::uint32_t edge, rank_id r, std::uint32_t end, std::uint64_t group) {
    auto& between = streams_[of_edge_[edge]];
    between.sides[r == between.first_rank ? 0 : 1].ends.push_back({end, group});
  }
  /// `f(end)` for each that ends. The numbers of the two ends of a message differ in their last bit alone.
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
    std::size_t ended = 0, opened = 0;  ///< how many have ended; and how many with the oldest group
    std::size_t left = 0;               ///< of the oldest group, that have not met their other ends
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

/// Runs every list in order as far as it goes, by what messages wait for. Beside the events of
/// `schedule_dependencies`, a message in a queue ends, and a pair of ranks has room for a message.
///
/// Two actions that can begin never keep each other from it: so whatever the order in which lists are woken,
/// the same actions are done in the end.
///
/// O(actions).
class order_walk {
 public:
  /// Refers to the schedule. \throws stage_placement_error, schedule_count_error
  order_walk(schedule const& s, delivery_rules const& rules)
      : place_(s.place), rules_(rules), dependencies_(s), lists_(s, rules), begun_(lists_.count()) {
    is_simple_ =
        rules.groups == message_groups::listed && !lists_.has_queues() && !has_limit() && !has_streams();
    if (has_limit()) channels_ = rank_channels(s.place);
    runner_ = list_runner(lists_.lengths(), number_events(s));
    on_their_way_.resize(channels_.count());
    if (has_streams()) streams_ = pair_streams(s.place, dependencies_.events());
  }

  /// Whether all lists come to their ends.
  bool run() {
    return runner_.run([this](std::uint32_t l) { return go_on(l); });
  }

  schedule_dependencies const& dependencies() const { return dependencies_; }
  order_lists const& lists() const { return lists_; }
  /// Returns the position of each list.
  list_runner const& progress() const { return runner_; }

  /// `f(place in the list, event)` for what list `l` waits for, until one returns false. Precondition: it is
  /// not finished.
  template <class F>
  void each_unmet(std::uint32_t l, F f) const {
    bool const begins = begun_[l] == 0;
    for (auto i = runner_.position(l), end = lists_.end_of_group(l, i); i < end; ++i)
      if (!each_dependency(lists_[l][i], begins,
                           [&](std::uint32_t event) { return runner_.has_happened(event) || f(i, event); }))
        return;
  }

  /// `f(event)` for what an action brings about.
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
    // Of a receive: room, once its message is on its way.
    if (has_limit() && is_receive(a.kind) && runner_.has_happened(schedule_dependencies::other_end(end)))
      f(room_for(a));
  }

  /// The action that brings an event about, B for either of B and I. Of room it is not known.
  action action_of(std::uint32_t event) const {
    return dependencies_.action_of(event < first_ended_ ? event : event - first_ended_);
  }
  bool is_room(std::uint32_t event) const { return event >= first_room_; }
  bool has_streams() const { return rules_.delivery == delivery::pair_stream; }
  rank_id rank_of(stage_id s) const { return place_.rank_of[index(s)]; }

 private:
  /// Returns how many there are.
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

  /// `f(event)` for what an action waits for, before it begins or after, until one returns false.
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
      if (event % 2 == 0) return true;  // once it is received, it has been sent
      return f(has_streams() ? event : first_ended_ + event);
    });
  }

  /// Does the next action of a list and the simple ones behind it, or its group; returns whether it could.
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

  /// Whether one action could be done, and nothing began with it; the short way for what is most frequent.
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

  /// Whether what begins together could be done.
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

  /// Lets the list wait for the first thing that it needs.
  bool waits(std::uint32_t l) {
    std::uint32_t unmet = schedule_dependencies::none;
    each_unmet(l, [&](std::size_t, std::uint32_t event) {
      unmet = event;
      return false;
    });
    return unmet != schedule_dependencies::none && runner_.waits_for(l, unmet);
  }

  /// Sends and receives are there for the other rank to see, or in its stream.
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

  /// What follows when an action, or its group, has ended.
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
  bool is_simple_ = false;  ///< messages wait for nothing but their other ends, and alone
  pair_streams streams_;
  rank_channels channels_;
  std::uint32_t first_ended_ = 0, first_room_ = 0;
  std::vector<std::uint32_t> on_their_way_;  // sent and not received, by channel
  std::vector<char> begun_;                  // whether what a list is at has begun
  list_runner runner_;
};

/// Finds who waits for whom, once nothing moves.
class wait_analysis {
 public:
  explicit wait_analysis(order_walk const& walk) : walk_(walk), lists_(walk.lists()) {}

  deadlock found() {
    list_waits();
    find_who_does();
    return report_waits(waits_, walk_.progress());
  }

 private:
  static constexpr std::uint32_t nobody = list_wait::nobody;

  void list_waits() {
    auto const begun = begun_ends();
    for (std::uint32_t l = 0; l < lists_.count(); ++l) {
      if (walk_.progress().is_finished(l)) continue;
      walk_.each_unmet(l, [&](std::size_t i, std::uint32_t event) {
        // In a stream: what its other end, or the rank of that, keeps from ending.
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

  /// By event: whether it is an end of a message that has begun in a stream.
  std::vector<char> begun_ends() const {
    if (!walk_.has_streams()) return {};
    std::vector<char> begun(walk_.dependencies().events());
    for (std::uint32_t l = 0; l < lists_.count(); ++l)
      for (action const& a : lists_[l].first(walk_.progress().position(l)))
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
          if (w.for_list != nobody) continue;
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
      if (auto& w = waits_[i]; w.for_list == nobody && walk_.dependencies().is_end_of_message(events_[i]) &&
                               w.wait.for_rank != w.wait.rank)
        w.for_list = lists_.first_of(w.wait.for_rank);
  }

  order_walk const& walk_;
  order_lists const& lists_;
  std::vector<list_wait> waits_;
  std::vector<std::uint32_t> events_;  // of a wait: what it waits for
};

}  // namespace cleave::detail

namespace cleave {

/// Where a schedule gets stuck if every rank does its list in order and messages are delivered by these
/// rules; nothing if all ranks come to their ends. Where nothing is sent, a pass waits for the passes it
/// needs, on any rank. A compound is its parts one after the other. What no stage, microbatch or edge is
/// known for never waits, as `schedule_faults` reports it. O(actions), and for the shortest cycle O(ranks²)
/// where it is stuck.
/// \throws stage_placement_error, schedule_count_error
inline std::optional<deadlock> find_deadlock(schedule const& s, delivery_rules const& rules) {
  detail::order_walk walk(s, rules);
  if (walk.run()) return std::nullopt;
  return detail::wait_analysis(walk).found();
}
inline std::optional<deadlock> find_deadlock(schedule const& s, delivery d = delivery::buffered) {
  return find_deadlock(s, delivery_rules{.delivery = d});
}

/// `finishes`, or `deadlock: rank 0 at 0SEND_F1, …`. \throws as `find_deadlock`
inline std::string deadlock_verdict(schedule const& s, delivery_rules const& rules) {
  auto const found = find_deadlock(s, rules);
  return found ? "deadlock: " + describe(*found) : "finishes";
}
inline std::string deadlock_verdict(schedule const& s, delivery d) {
  return deadlock_verdict(s, delivery_rules{.delivery = d});
}

}  // namespace cleave
