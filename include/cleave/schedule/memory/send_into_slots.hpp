// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/one_or_each.hpp"
#include "cleave/core/step_index.hpp"
#include "cleave/schedule/lower/nominal_times.hpp"
#include "cleave/schedule/lower/sending_lists.hpp"
#include "cleave/schedule/memory/receive_slots.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/pass_marks.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_dependencies.hpp"
#include "cleave/schedule/model/stage_cost.hpp"
#include "cleave/schedule/verify/verify.hpp"

namespace cleave::detail {

/// Which passes have been done on each rank, and so which can be done next, once what comes from other ranks
/// has arrived.
class local_passes {
 public:
  /// Refers to all of them. O(stages * microbatches).
  local_passes(schedule const& s, edge_numbers const& edges, receive_uses const& uses)
      : place_(s.place), edges_(edges), uses_(uses), marks_(uses.numbers()) {}

  void mark(action const& a) { marks_.set_done(a); }

  /// How many of some actions can be done one after the other. `arrival(message)` is when a message has
  /// arrived, below 0 where it has not; `begin` moves to when all have that are needed.
  template <class F>
  std::size_t count_ready(std::span<action const> actions, F arrival, double& begin) {
    return marks_.count_ready(actions, [&](action const& a) { return is_ready(a, arrival, begin); });
  }

 private:
  template <class F>
  bool is_ready(action const& a, F& arrival, double& begin) const {
    if (!is_compute(a.kind)) return true;
    bool ready = true;  // all needs are looked at, so that `begin` is when the last of them is there
    auto const has = [&](std::uint32_t s, pass_mark which) {
      ready = ready && marks_.is_done(s, a.microbatch, which);
      return true;
    };
    each_dependency_of(a, edges_, has, [&](std::uint32_t edge, edge_flow flow) {
      auto const& e = place_.edges[edge];
      if (!uses_.crosses(edge))
        return flow == edge_flow::activations ? has(index(e.from), pass_mark::forward)
                                              : has(index(e.to), pass_mark::gradient);
      auto const at = arrival(uses_.numbers().message(edge, flow, a.microbatch));
      ready = ready && at >= 0;
      begin = (std::max)(begin, at);
      return true;
    });
    return ready;
  }

  stage_placement const& place_;
  edge_numbers const& edges_;
  receive_uses const& uses_;
  pass_marks marks_;
};

}  // namespace cleave::detail

namespace cleave {

struct send_into_slots_options {
  receive_slots slots = {};
  nominal_times times = {};
};

}  // namespace cleave

namespace cleave::detail {

/// Runs a schedule in time and writes its messages down; `send_into_slots` is its one use.
class slot_sender {
 public:
  slot_sender(schedule const& s, send_into_slots_options const& options)
      : schedule_(s),
        options_(options),
        edges_(s.place),
        uses_(s, edges_, options.slots.inputs),
        passes_(s, edges_, uses_),
        messages_(uses_.numbers().messages()),
        ranks_(s.ranks.size()),
        lists_(s) {
    for (std::size_t r = 0; r < s.ranks.size(); ++r)
      each_action(s.ranks[r], [&](action const& a) {
        uses_.each_received(a, [&](std::uint32_t edge, edge_flow flow) {
          ranks_[r].queues[static_cast<std::size_t>(flow)].messages.push_back(
              uses_.numbers().message(edge, flow, a.microbatch));
        });
      });
  }

  schedule take() {
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
      for (auto const flow : {edge_flow::activations, edge_flow::gradients})
        for (auto slots = options_.slots.of(flow, r); slots > 0 && grant_next(r, flow, 0); --slots) {
        }
      look_at(r, whole_cell);
    }
    do {
      while (!events_.empty()) next_event();
    } while (split_a_compound());
    return lists_.finish();
  }

 private:
  static constexpr double unknown = -1;
  static constexpr std::size_t whole_cell = 0, some_parts = 1;

  struct message_state {
    double ready = unknown;    ///< since when what it takes is there
    double allowed = unknown;  ///< since when it has a slot
    double arrival = unknown;
  };
  /// What a rank receives of one flow, in the order in which it is used.
  struct receive_queue {
    std::vector<std::size_t> messages;
    std::size_t granted = 0;  ///< so many have slots
  };
  struct rank_state {
    std::size_t parts = 0;  ///< of its next cell, how many are planned; 0 while it waits
    double free = 0;
    std::array<receive_queue, 2> queues;
  };
  struct event {
    double time;
    bool is_pass;        ///< that ends; else a message that goes
    std::uint32_t rank;  ///< that ends it, or that sends
    std::size_t message = 0;
  };
  /// What comes later; of one time, messages come after the passes that end then, rank after rank.
  static bool is_later(event const& a, event const& b) {
    if (a.time != b.time) return a.time > b.time;
    if (a.is_pass != b.is_pass) return b.is_pass;
    return a.rank != b.rank ? a.rank > b.rank : a.message > b.message;
  }

  void add_event(event e) {
    events_.push_back(e);
    std::ranges::push_heap(events_, is_later);
  }
  void next_event() {
    std::ranges::pop_heap(events_, is_later);
    auto const e = events_.back();
    events_.pop_back();
    if (e.is_pass)
      end_cell(e.rank, e.time);
    else
      deliver(e.message, e.time);
  }

  /// Plans the next cell of a rank if it can be done, or as many of its parts as can.
  bool look_at(std::uint32_t r, std::size_t least_parts) {
    auto& rank = ranks_[r];
    if (rank.parts > 0 || lists_.at_end(r)) return false;
    auto const rest = lists_.rest_of_cell(r);
    auto begin = rank.free;
    auto const ready =
        passes_.count_ready(rest, [&](std::size_t message) { return messages_[message].arrival; }, begin);
    if (ready < (least_parts == whole_cell ? rest.size() : least_parts)) return false;
    rank.parts = ready;
    for (action const& a : rest.first(ready)) begin += time_of(a);
    add_event({begin, true, r});
    return true;
  }

  /// Nothing can go on: some parts of a compound may be what others wait for.
  bool split_a_compound() {
    for (std::uint32_t r = 0; r < ranks_.size(); ++r)
      if (look_at(r, some_parts)) return true;
    return false;
  }

  /// A rank has done what was planned.
  void end_cell(std::uint32_t r, double now) {
    ranks_[r].free = now;
    for (action const& a : lists_.take(r, std::exchange(ranks_[r].parts, 0))) finish(a, r);
    look_at(r, whole_cell);
  }

  double time_of(action const& a) const {
    if (!is_compute(a.kind) && a.kind != action_kind::recompute) return 0;
    return one_or_each(options_.times.costs).of(index(a.stage)).of(a.kind);
  }

  /// What a pass made is there, and what it let go is free.
  void finish(action const& a, std::uint32_t r) {
    passes_.mark(a);
    uses_.each_released(a, [&](edge_flow flow) { grant_next(r, flow, ranks_[r].free); });
    auto const s = index(a.stage);
    if (a.kind == action_kind::forward) {
      for (auto e = edges_.begin_from(s); e < edges_.end_from(s); ++e)
        make_ready(e, edge_flow::activations, a.microbatch, ranks_[r].free);
    } else if (a.kind == action_kind::backward || a.kind == action_kind::input_gradient) {
      for (auto const e : edges_.to(s)) make_ready(e, edge_flow::gradients, a.microbatch, ranks_[r].free);
    }
  }

  void make_ready(std::uint32_t edge, edge_flow flow, microbatch_id m, double now) {
    if (!uses_.crosses(edge)) return;
    auto const number = uses_.numbers().message(edge, flow, m);
    messages_[number].ready = now;
    send_once_possible(number);
  }
  /// The next message that a rank needs has a slot. Whether there was one.
  bool grant_next(std::uint32_t r, edge_flow flow, double now) {
    auto& queue = ranks_[r].queues[static_cast<std::size_t>(flow)];
    if (queue.granted == queue.messages.size()) return false;
    auto const number = queue.messages[queue.granted++];
    messages_[number].allowed = now;
    send_once_possible(number);
    return true;
  }
  void send_once_possible(std::size_t number) {
    auto const& m = messages_[number];
    if (m.ready != unknown && m.allowed != unknown)
      add_event({(std::max)(m.ready, m.allowed), false,
                 index(schedule_.place.rank_of[index(ends_of(uses_.numbers().message_at(number)).from)]),
                 number});
  }

  /// The stages that a message goes between.
  stage_edge ends_of(message_id const& m) const {
    auto const e = schedule_.place.edges[m.edge];
    return m.flow == edge_flow::activations ? e : stage_edge{e.to, e.from};
  }

  void deliver(std::size_t number, double now) {
    messages_[number].arrival = now + options_.times.base_latency;
    auto const m = uses_.numbers().message_at(number);
    auto const [from, to] = ends_of(m);
    bool const back = m.flow == edge_flow::gradients;
    look_at(lists_.send_one(from, to, m.microbatch,
                            back ? action_kind::send_gradient : action_kind::send_activation),
            whole_cell);
  }

  schedule const& schedule_;
  send_into_slots_options const& options_;
  edge_numbers edges_;
  receive_uses uses_;
  local_passes passes_;
  std::vector<message_state> messages_;
  std::vector<rank_state> ranks_;
  std::vector<event> events_;
  sending_lists lists_;
};

}  // namespace cleave::detail

namespace cleave {

/// A schedule that sends and receives, where each rank has so many slots for what it receives. A message goes
/// once what it takes has been made and a slot is free, in the order of these times, which follow from the
/// costs. Slots are given to what a rank uses next, in that order, whoever sends first: where
/// `find_slot_shortage` finds none, nobody waits for ever.
///
/// All messages have one order, so that it finishes on every transport; a receive stands behind what lets its
/// slot go. A compound begins when all is there that its parts need; one that needs another rank's answer to
/// its own parts is split there. Precondition: a number of slots for each rank, one for all, or none; the
/// schedule has no messages. O(actions log actions). \throws schedule_error, nominal_time_error,
/// slot_shortage_error, and stuck_error where a compound cannot be split so
inline schedule send_into_slots(schedule const& s, send_into_slots_options const& options = {}) {
  detail::require_nominal_times(options.times, s.place.stages());
  expects(detail::one_or_each(options.slots.activations).covers(s.ranks.size()) &&
              detail::one_or_each(options.slots.gradients).covers(s.ranks.size()),
          "send_into_slots: slots for every rank, for all at once, or none");
  detail::require_schedule(s, {.passes = passes_of(s)});
  if (auto const f = detail::find_slot_shortage(s, options.slots)) throw detail::slot_shortage_error(*f);
  return detail::slot_sender(s, options).take();
}

}  // namespace cleave
