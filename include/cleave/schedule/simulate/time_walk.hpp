// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/jitter.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_needs.hpp"
#include "cleave/schedule/model/schedule_times.hpp"
#include "cleave/schedule/model/simulate_options.hpp"
#include "cleave/schedule/model/stray_action.hpp"
#include "cleave/schedule/simulate/message_times.hpp"
#include "cleave/schedule/simulate/pass_marks.hpp"
#include "cleave/schedule/simulate/rank_clock.hpp"

namespace cleave::detail {

/// Runs every list in order, each action as soon as its rank is free and what it needs is there. `simulate`
/// is its one use.
class time_walk {
 public:
  /// Refers to both. Precondition: the options make sense for the schedule.
  /// \throws stray_action_error, placement_error, schedule_count_error
  time_walk(schedule const& s, simulate_options const& options)
      : schedule_((demand_no_stray_action(s), s)),
        options_(options),
        needs_(s),
        jitter_(options.jitter, options.seed),
        messages_(s, options),
        marks_(s, needs_, messages_),
        weights_(s.place.stages()),
        reduced_(s.place.stages()),
        ranks_(s.ranks.size()) {
    for (std::uint32_t r = 0; r < s.ranks.size(); ++r) clocks_.emplace_back(rank_id{r}, s.ranks[r].size());
  }

  /// Whether all ranks come to their ends. O(actions).
  bool run() {
    for (auto r = static_cast<std::uint32_t>(ranks_.size()); r-- > 0;) awake_.push_back(r);
    while (!awake_.empty()) {
      auto const r = awake_.back();
      awake_.pop_back();
      while (!is_finished(r) && step(r)) {
      }
    }
    for (std::uint32_t r = 0; r < ranks_.size(); ++r)
      if (!is_finished(r)) return false;
    return true;
  }

  schedule_times take() {
    schedule_times times;
    for (auto& clock : clocks_) clock.tell(times);
    return times;
  }

  bool is_finished(std::uint32_t r) const { return ranks_[r].position == schedule_.ranks[r].size(); }
  /// In its list, where rank `r` waits.
  std::size_t position(std::uint32_t r) const { return ranks_[r].position; }
  schedule_needs const& needs() const { return needs_; }
  pass_marks const& marks() const { return marks_; }
  message_times const& messages() const { return messages_; }

 private:
  static constexpr std::uint32_t nobody = 0xffffffff;
  struct rank_state {
    std::size_t position = 0, compound_begin = 0, compound_end = 0;
    std::uint32_t next_waiter = nobody;  // for the same message
  };

  /// Whether the next action of rank `r` is done now.
  bool step(std::uint32_t r) {
    auto& rank = ranks_[r];
    auto const& row = schedule_.ranks[r];
    action const& a = row[rank.position];
    if (a.parts > 0) {
      if (options_.compounds != compound_time::one_after_the_other && is_compute(row[rank.position + 1].kind))
        return run_together(r);
      rank.compound_begin = rank.position + 1;
      rank.compound_end = rank.compound_begin + a.parts;
      if (options_.messages == message_time::within) send_first(r);
    } else if (!run_alone(r, a)) {
      return false;
    }
    ++rank.position;
    if (rank.position == rank.compound_end) end_compound(r);
    return true;
  }

  /// What is exchanged as one: nothing that is received may hold up what is sent.
  void send_first(std::uint32_t r) {
    auto const& row = schedule_.ranks[r];
    for (auto i = ranks_[r].compound_begin; i < ranks_[r].compound_end; ++i)
      if (is_send(row[i].kind)) run_message(r, i, row[i]);
  }

  void end_compound(std::uint32_t r) {
    auto& rank = ranks_[r];
    clocks_[r].close_compound(rank.compound_begin - 1);
    for (auto i = rank.compound_begin; i < rank.compound_end; ++i) publish(r, i, rank.compound_end - 1);
    rank.compound_end = 0;
  }

  bool run_alone(std::uint32_t r, action const& a) {
    using enum action_kind;
    auto const position = ranks_[r].position;
    auto& clock = clocks_[r];
    if (is_compute(a.kind) || a.kind == recompute) return run_pass(r, a);
    if (is_message(a.kind)) return run_message(r, position, a);
    switch (a.kind) {
      case unshard:
        weights_[index(a.stage)] =
            clock.go_beside(position, clock.free(), time_of(a), rank_engine::collectives);
        return true;
      case reduce_gradient:
        reduced_[index(a.stage)] =
            clock.go_beside(position, clock.free(), time_of(a), rank_engine::collectives);
        return true;
      case wait_reduce_gradient:
        clock.wait_until(position, reduced_[index(a.stage)]);
        return true;
      case offload:
      case reload:
        return move_stash(r, a);
      default:
        clock.wait_until(position, {});
        return true;
    }
  }

  bool run_pass(std::uint32_t r, action const& a) {
    auto const& rank = ranks_[r];
    auto begin = clocks_[r].free();
    if (!can_begin(r, a, begin)) return false;
    clocks_[r].compute(rank.position, begin, time_of(a));
    marks_.set_done(a);
    if (rank.compound_end == 0) publish(r, rank.position, rank.position);
    return true;
  }

  /// All parts of a compound, from when the last of them can begin.
  bool run_together(std::uint32_t r) {
    auto& rank = ranks_[r];
    auto const head = rank.position;
    auto const parts = std::span(schedule_.ranks[r]).subspan(head + 1, schedule_.ranks[r][head].parts);
    auto begin = clocks_[r].free();
    for (action const& a : parts)
      if (!can_begin(r, a, begin)) return false;
    bool const in_turn = options_.compounds == compound_time::in_turn;
    double whole = 0;
    for (action const& a : parts) {
      double const time = time_of(a), from = begin.time + (in_turn ? whole : 0);
      clocks_[r].note(++rank.position, {from, begin.by}, from + time);
      whole = in_turn ? whole + time : (std::max)(whole, time);
      marks_.set_done(a);
    }
    clocks_[r].compute(head, begin, whole);
    ++rank.position;
    for (auto i = head + 1; i < rank.position; ++i) publish(r, i, head);
    return true;
  }

  /// What other ranks need of a pass leaves for them when action `last` is done, where the schedule has no
  /// messages of its own.
  void publish(std::uint32_t r, std::size_t position, std::size_t last) {
    using enum action_kind;
    action const& a = schedule_.ranks[r][position];
    if (needs_.messages() || !is_compute(a.kind) || a.kind == weight_gradient) return;
    auto const s = index(a.stage);
    auto const& edges = needs_.edges();
    if (a.kind == action_kind::forward)
      for (auto e = edges.begin_from(s); e < edges.end_from(s); ++e)
        leave(r, last, {e, edge_flow::activations, a.microbatch});
    else
      for (auto const e : edges.to(s)) leave(r, last, {e, edge_flow::gradients, a.microbatch});
  }

  void leave(std::uint32_t r, std::size_t last, message_id const& id) {
    if (!messages_.crosses_ranks(id.edge) || messages_.at(id).where == message_place::there) return;
    messages_.leave(id, {clocks_[r].free().time, clocks_[r].place(last)});
    if (options_.messages == message_time::within) clocks_[r].lengthen(last, messages_.transfer(id));
    wake(messages_.at(id));
  }

  bool run_message(std::uint32_t r, std::size_t position, action const& a) {
    auto const edge = needs_.edge_of(a);
    if (edge == schedule_needs::none || !messages_.crosses_ranks(edge)) {
      clocks_[r].wait_until(position, {});
      return true;
    }
    auto const flow = is_activation_message(a.kind) ? edge_flow::activations : edge_flow::gradients;
    message_id const id{edge, flow, a.microbatch};
    return options_.messages == message_time::within ? run_within(r, position, a, id)
                                                     : run_beside(r, position, a, id);
  }

  bool run_beside(std::uint32_t r, std::size_t position, action const& a, message_id const& id) {
    auto& message = messages_.at(id);
    auto& clock = clocks_[r];
    if (is_wait_send(a.kind)) {
      if (message.where != message_place::there) return wait_for(r, message);
      clock.wait_until(position, message.since);
      return true;
    }
    clock.wait_until(position, {});
    moment const now{clock.free().time, clock.place(position)};
    if (is_send(a.kind) ? messages_.begin_send(id, now) : messages_.begin_receive(id, now)) wake(message);
    return true;
  }

  /// What has been sent is on its way; it is there once it is received.
  bool run_within(std::uint32_t r, std::size_t position, action const& a, message_id const& id) {
    auto& message = messages_.at(id);
    auto& clock = clocks_[r];
    if (is_receive(a.kind)) {
      if (message.where == message_place::nowhere) return wait_for(r, message);
      message.where = message_place::there;
      clock.wait_until(position, message.since);
    } else if (is_wait_send(a.kind)) {
      clock.wait_until(position, {});
    } else if (message.where == message_place::nowhere) {
      messages_.leave(id, {clock.free().time, clock.place(position)});
      message.where = message_place::sent;
      clock.spend(position, messages_.transfer(id));
      wake(message);
    }
    return true;
  }

  bool move_stash(std::uint32_t r, action const& a) {
    auto begin = clocks_[r].free();
    if (!can_begin(r, a, begin)) return false;
    auto const moved = clocks_[r].go_beside(ranks_[r].position, begin, time_of(a), rank_engine::copies);
    if (a.kind != action_kind::reload) return true;
    reloaded_.resize(marks_.pairs());
    reloaded_[marks_.pair_of(a)] = moved;
    return true;
  }

  double time_of(action const& a) const {
    auto const& costs = options_.costs;
    double const time =
        costs.empty() ? stage_cost{}.of(a.kind) : costs[costs.size() == 1 ? 0 : index(a.stage)].of(a.kind);
    return time * jitter_.factor(a.kind, index(a.stage), a.microbatch);
  }

  /// Moves `begin` to when all is there that a pass needs; or waits for a message. What the rank itself has
  /// not done by then it never will.
  bool can_begin(std::uint32_t r, action const& a, moment& begin) {
    bool const is_ready = marks_.each_need(
        a, [&](std::uint32_t s, pass_mark which) { return marks_.is_done(s, a.microbatch, which); },
        [&](std::uint32_t edge, edge_flow flow) {
          auto& message = messages_.at({edge, flow, a.microbatch});
          if (message.where != message_place::there) return wait_for(r, message);
          begin.raise(message.since);
          return true;
        });
    if (!is_ready) return false;
    if (a.kind != action_kind::offload && a.kind != action_kind::reload)
      begin.raise(weights_[index(a.stage)]);
    if (!reloaded_.empty()) begin.raise(reloaded_[marks_.pair_of(a)]);
    return true;
  }

  bool wait_for(std::uint32_t r, message_state& message) {
    ranks_[r].next_waiter = std::exchange(message.waiter, r);
    return false;
  }
  void wake(message_state& message) {
    for (auto r = std::exchange(message.waiter, nobody); r != nobody; r = ranks_[r].next_waiter)
      awake_.push_back(r);
  }

  schedule const& schedule_;
  simulate_options const& options_;
  schedule_needs needs_;
  jitter jitter_;
  message_times messages_;
  pass_marks marks_;
  std::vector<moment> weights_, reduced_;  // of a stage
  std::vector<moment> reloaded_;           // of a stage and microbatch, once anything is
  std::vector<rank_state> ranks_;
  std::vector<rank_clock> clocks_;
  std::vector<std::uint32_t> awake_;
};

}  // namespace cleave::detail
