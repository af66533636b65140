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
#include "cleave/schedule/action.hpp"
#include "cleave/schedule/action_text.hpp"
#include "cleave/schedule/edge_numbers.hpp"
#include "cleave/schedule/local_passes.hpp"
#include "cleave/schedule/receive_slots.hpp"
#include "cleave/schedule/schedule.hpp"
#include "cleave/schedule/send_in_rounds.hpp"
#include "cleave/schedule/simulate_options.hpp"
#include "cleave/schedule/stage_cost.hpp"
#include "cleave/schedule/verify.hpp"

namespace cleave {

struct send_into_slots_options {
  receive_slots slots = {};
  std::vector<stage_cost> costs = {};  ///< of each stage; one for all; none: 1 for F, I and W, and 2 for B
  double hop = 0;                      ///< how long a message is on its way
};

/// Runs a schedule in time and writes its messages down; `send_into_slots` is its one use.
class slot_sender {
 public:
  slot_sender(schedule const& s, send_into_slots_options const& options)
      : schedule_(s),
        options_(options),
        edges_(s.place),
        uses_(s, edges_, options.slots.inputs),
        passes_(s, edges_, uses_),
        messages_(uses_.messages()),
        ranks_(s.ranks.size()),
        sent_(s) {
    for (std::size_t r = 0; r < s.ranks.size(); ++r) {
      sent_.ranks[r].clear();
      sent_.ranks[r].reserve(2 * s.ranks[r].size());
      each_action(s.ranks[r], [&](action const& a) {
        uses_.each_received(a, [&](std::uint32_t edge, edge_flow flow) {
          ranks_[r].queues[static_cast<std::size_t>(flow)].messages.push_back(
              uses_.message(edge, flow, a.microbatch));
        });
      });
    }
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
    if (auto stuck = list_stuck(); !stuck.empty()) throw stuck_error(std::move(stuck));
    return std::move(sent_);
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
    std::vector<std::uint32_t> messages;
    std::size_t granted = 0;  ///< so many have slots
  };
  struct rank_state {
    std::size_t cell = 0;        ///< where its next cell begins
    std::size_t parts_done = 0;  ///< of a compound that has been split
    std::size_t parts_next = 0;  ///< how many are planned; 0 while it waits
    double free = 0;
    std::array<receive_queue, 2> queues;
  };
  struct event {
    double time;
    bool is_pass;          ///< that ends; else a message that goes
    std::uint32_t number;  ///< of the rank, or of the message
  };
  /// What comes later; of one time, messages come after the passes that end then.
  static bool is_later(event const& a, event const& b) {
    if (a.time != b.time) return a.time > b.time;
    return a.is_pass != b.is_pass ? b.is_pass : a.number > b.number;
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
      end_cell(e.number, e.time);
    else
      deliver(e.number, e.time);
  }

  bool at_end(std::uint32_t r) const { return ranks_[r].cell == schedule_.ranks[r].size(); }
  /// The next action, or what is left of the parts of a compound.
  std::span<action const> rest_of_cell(std::uint32_t r) const {
    auto const row = std::span(schedule_.ranks[r]).subspan(ranks_[r].cell);
    return row[0].parts == 0 ? row.first(1) : row.subspan(1, row[0].parts).subspan(ranks_[r].parts_done);
  }

  /// Plans the next cell of a rank if it can be done, or as many of its parts as can.
  bool look_at(std::uint32_t r, std::size_t least_parts) {
    auto& rank = ranks_[r];
    while (!at_end(r) && schedule_.ranks[r][rank.cell].kind == action_kind::idle) ++rank.cell;
    if (rank.parts_next > 0 || at_end(r)) return false;
    auto const rest = rest_of_cell(r);
    auto begin = rank.free;
    auto const ready =
        passes_.count_ready(rest, [&](std::uint32_t message) { return messages_[message].arrival; }, begin);
    if (ready < (least_parts == whole_cell ? rest.size() : least_parts)) return false;
    rank.parts_next = ready;
    for (action const& a : rest.first(ready))
      if (is_compute(a.kind) || a.kind == action_kind::recompute) begin += cost_of(a);
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
    auto& rank = ranks_[r];
    auto const parts = rest_of_cell(r).first(std::exchange(rank.parts_next, 0));
    auto head = schedule_.ranks[r][rank.cell];
    auto& to = sent_.ranks[r];
    if (head.parts > 0 && parts.size() > 1) {
      head.parts = static_cast<std::uint16_t>(parts.size());
      to.push_back(head);
    }
    to.insert(to.end(), parts.begin(), parts.end());
    rank.free = now;
    for (action const& a : parts) finish(a, r);
    rank.parts_done += parts.size();
    auto const& whole = schedule_.ranks[r][rank.cell];
    if (rank.parts_done >= whole.parts) {
      rank.cell += std::size_t{1} + whole.parts;
      rank.parts_done = 0;
    }
    look_at(r, whole_cell);
  }

  double cost_of(action const& a) const {
    if (options_.costs.empty()) return stage_cost{}.of(a.kind);
    return options_.costs[options_.costs.size() == 1 ? 0 : index(a.stage)].of(a.kind);
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
    auto const number = uses_.message(edge, flow, m);
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
  void send_once_possible(std::uint32_t number) {
    auto const& m = messages_[number];
    if (m.ready != unknown && m.allowed != unknown) add_event({std::max(m.ready, m.allowed), false, number});
  }

  void deliver(std::uint32_t number, double now) {
    using enum action_kind;
    messages_[number].arrival = now + options_.hop;
    microbatch_id const m{number % schedule_.microbatches};
    auto const both = number / schedule_.microbatches;
    bool const back = both % 2 == 1;
    auto [from, to] = schedule_.place.edges[both / 2];
    if (back) std::swap(from, to);
    auto const here = index(schedule_.place.rank_of[index(from)]);
    auto const there = index(schedule_.place.rank_of[index(to)]);
    sent_.ranks[here].push_back({back ? send_gradient : send_activation, 0, from, m, to});
    sent_.ranks[there].push_back({back ? receive_gradient : receive_activation, 0, to, m, from});
    look_at(there, whole_cell);
  }

  std::vector<stuck_rank> list_stuck() const {
    std::vector<stuck_rank> stuck;
    for (std::uint32_t r = 0; r < ranks_.size(); ++r)
      if (!at_end(r)) stuck.push_back({rank_id{r}, action_text(rest_of_cell(r).front())});
    return stuck;
  }

  schedule const& schedule_;
  send_into_slots_options const& options_;
  edge_numbers edges_;
  receive_uses uses_;
  local_passes passes_;
  std::vector<message_state> messages_;
  std::vector<rank_state> ranks_;
  std::vector<event> events_;
  schedule sent_;
};

/// A schedule that sends and receives, where each rank has so many slots for what it receives. A message goes
/// once what it takes has been made and a slot is free, in the order of these times, which follow from the
/// costs. Slots are given to what a rank uses next, in that order, whoever sends first: where
/// `find_slot_shortage` finds none, nobody waits for ever.
///
/// All messages have one order, so that it finishes on every transport; a receive stands behind what lets its
/// slot go. A compound begins when all is there that its parts need; one that needs another rank's answer to
/// its own parts is split there. Precondition: a number of slots for each rank, one for all, or none; the
/// schedule has no messages. O(actions log actions). \throws schedule_error, simulate_option_error,
/// slot_shortage_error, and stuck_error where a compound cannot be split so
inline schedule send_into_slots(schedule const& s, send_into_slots_options const& options = {}) {
  if (auto const f = find_simulate_option_fault({.costs = options.costs, .hop = options.hop}, s.place))
    throw simulate_option_error(*f);
  auto const fits = [&](std::vector<std::uint32_t> const& slots) {
    return slots.size() <= 1 || slots.size() == s.ranks.size();
  };
  expects(fits(options.slots.activations) && fits(options.slots.gradients),
          "send_into_slots: slots for every rank, for all at once, or none");
  demand_schedule(s, {.passes = passes_of(s)});
  if (auto const f = find_slot_shortage(s, options.slots)) throw slot_shortage_error(*f);
  return slot_sender(s, options).take();
}

}  // namespace cleave
