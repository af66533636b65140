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

namespace cleave::inline v0_2::detail {

/// The passes done so far on each rank, which determine the passes that can run once their messages have
/// arrived.
class local_passes {
 public:
  /// Keeps references to all arguments. O(stages * microbatches).
  local_passes(schedule const& s, edge_numbers const& edges, receive_uses const& uses)
      : place_(s.place), edges_(edges), uses_(uses), marks_(uses.numbers()) {}

  void mark(action const& a) { marks_.set_done(a); }

  /// Returns how many of the leading `actions` can run one after the other. `arrival(message)` is the time at
  /// which a message arrives, or negative if it has not. Advances `begin` to the latest arrival among the
  /// needed messages.
  template <class F>
  std::size_t count_ready(std::span<action const> actions, F arrival, double& begin) {
    return marks_.count_ready(actions, [&](action const& a) { return is_ready(a, arrival, begin); });
  }

 private:
  template <class F>
  bool is_ready(action const& a, F& arrival, double& begin) const {
    if (!is_compute(a.kind)) return true;
    bool ready = true;  // all dependencies are visited, so that `begin` becomes the latest arrival
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

namespace cleave::inline v0_2 {

/// Options of `send_into_slots`: the receive slots, and the times that order the messages.
struct send_into_slots_options {
  receive_slots slots = {};
  nominal_times times = {};
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Simulates a schedule with finite receive slots and records its messages, for `send_into_slots`.
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
    double ready = unknown;    ///< time at which the value to be sent is available
    double allowed = unknown;  ///< time at which the receiver has a slot for it
    double arrival = unknown;
  };
  /// The messages of one flow that a rank receives, in the order in which it uses them.
  struct receive_queue {
    std::vector<std::size_t> messages;
    std::size_t granted = 0;  ///< the number of messages that have slots
  };
  struct rank_state {
    std::size_t parts = 0;  ///< number of planned actions of its next cell; 0 while the rank waits
    double free = 0;
    std::array<receive_queue, 2> queues;
  };
  struct event {
    double time;
    bool is_pass;        ///< true if a pass ends, false if a message is sent
    std::uint32_t rank;  ///< the rank that ends the pass or sends
    std::size_t message = 0;
  };
  /// Returns true if `a` comes after `b`. At equal times, passes end before messages are sent, rank by rank.
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

  /// Plans the next cell of a rank if all its parts can run, or at least `least_parts` of them.
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

  /// Starts the parts of a compound that can run, when nothing else can: another rank may wait for them.
  bool split_a_compound() {
    for (std::uint32_t r = 0; r < ranks_.size(); ++r)
      if (look_at(r, some_parts)) return true;
    return false;
  }

  /// Finishes the planned actions of a rank.
  void end_cell(std::uint32_t r, double now) {
    ranks_[r].free = now;
    for (action const& a : lists_.take(r, std::exchange(ranks_[r].parts, 0))) finish(a, r);
    look_at(r, whole_cell);
  }

  double time_of(action const& a) const {
    if (!is_compute(a.kind) && a.kind != action_kind::recompute) return 0;
    return one_or_each(options_.times.costs).of(index(a.stage)).of(a.kind);
  }

  /// Makes the results of a pass available, and frees the slots that it releases.
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
  /// Gives a slot to the next message that a rank needs. Returns false if no message is left.
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

  /// Returns the sending and the receiving stage of a message.
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

namespace cleave::inline v0_2 {

/// Adds messages to a schedule so that no rank holds more received values than it has slots.
///
/// A message is sent as soon as its value is ready and the receiver has a free slot. Messages are ordered by
/// that time, which follows from the costs. A free slot goes to the message that the rank uses next, even if
/// another message is ready earlier. Hence the result cannot deadlock if `find_slot_shortage` finds no fault.
///
/// All messages have one global order, so that the schedule completes on every communicator. A receive
/// follows the pass that frees its slot. A compound begins once the inputs of all its parts have arrived. If
/// a part needs another rank's answer to an earlier part, the compound is split there.
///
/// Precondition: the schedule has no messages; `slots` has one entry for each rank, one for all, or none.
/// O(actions log actions).
/// \throws schedule_error, nominal_time_error
/// \throws slot_shortage_error if a pass needs more slots than its rank has
/// \throws stuck_error if a compound cannot be split in this way
inline schedule send_into_slots(schedule const& s, send_into_slots_options const& options = {}) {
  detail::require_nominal_times(options.times, s.place);
  expects(detail::one_or_each(options.slots.activations).covers(s.ranks.size()) &&
              detail::one_or_each(options.slots.gradients).covers(s.ranks.size()),
          "send_into_slots: slots need one entry for each rank, one for all, or none");
  detail::require_schedule(s, {.passes = passes_of(s)});
  if (auto const f = detail::find_slot_shortage(s, options.slots)) throw detail::slot_shortage_error(*f);
  return detail::slot_sender(s, options).take();
}

}  // namespace cleave
