// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/schedule/simulate/step_simulation.hpp"

/// How schedules were run in steps before `list_runner`: a machine of its own, to compare with.
namespace cleave::testing::twins {

using namespace detail;

/// Runs lists in steps; `simulate_steps` is its one use. Each step has two turns, in each of which the ranks
/// are asked in ascending order: turn 2 n and turn 2 n + 1 are those of step n. What a rank does in a turn is
/// there for higher ranks in the same turn, and for all others in the next, so that the turn of an action
/// follows from those of what it needs, and no step is ever looked at in which nothing happens.
/// Precondition throughout: no action is stray.
class step_walk {
 public:
  /// Refers to the schedule. \throws placement_error, schedule_count_error
  explicit step_walk(schedule const& s)
      : schedule_(s),
        needs_(s),
        listed_(needs_.events()),
        weight_listed_(needs_.pairs()),
        events_(needs_.events()),
        ranks_(s.ranks.size()),
        steps_(s.ranks.size()) {
    for (std::size_t r = 0; r < s.ranks.size(); ++r) steps_[r].assign(s.ranks[r].size(), no_step);
  }

  /// Whether no rank has anything to do. O(actions).
  bool is_empty() const {
    for (auto const& row : schedule_.ranks)
      for (action const& a : row)
        if (a.kind != action_kind::idle) return false;
    return true;
  }

  /// The first pass or end of a message that is listed again; notes what is listed. O(actions).
  std::optional<step_place> find_repeated() {
    for (std::uint32_t r = 0; r < schedule_.ranks.size(); ++r)
      for (std::size_t i = 0; i < schedule_.ranks[r].size(); ++i) {
        action const& a = schedule_.ranks[r][i];
        bool again = false;
        each_effect(a, [&](std::uint32_t e) { again |= std::exchange(listed_[e], char{1}) != 0; });
        if (a.kind == action_kind::weight_gradient)
          again =
              std::exchange(weight_listed_[needs_.forward_done(index(a.stage), a.microbatch)], char{1}) != 0;
        if (again) return step_place{rank_id{r}, i, a};
      }
    return std::nullopt;
  }

  /// Goes as far as the lists go; where each rank waits that does not come to its end. Wants to know what is
  /// listed. O(actions): a rank is asked again only when what it waits for has happened.
  std::vector<step_place> run() {
    for (auto r = static_cast<std::uint32_t>(ranks_.size()); r-- > 0;) awake_.push_back(r);
    while (!awake_.empty()) {
      auto const r = awake_.back();
      awake_.pop_back();
      advance(r);
    }
    std::vector<step_place> waiting;
    for (std::uint32_t r = 0; r < ranks_.size(); ++r)
      if (auto const at = ranks_[r].position; at < schedule_.ranks[r].size())
        waiting.push_back({rank_id{r}, at, schedule_.ranks[r][at]});
    return waiting;
  }

  /// By rank and position, after a run to the end.
  std::vector<std::vector<std::uint32_t>> take_steps() { return std::move(steps_); }

 private:
  static constexpr std::uint32_t nobody = 0xffffffff;

  struct event {
    bool happened = false;
    std::uint32_t turn = 0, by = 0;  // where it has happened
    std::uint32_t waiter = nobody;   // else the last rank that has come to wait
  };
  struct progress {
    std::size_t position = 0;
    std::uint32_t turn = 0;  // the first in which it may act
    std::size_t head = 0;    // of the compound whose parts it does
    std::uint16_t parts_left = 0;
    std::uint32_t next_waiter = nobody;  // at the same event
  };

  void advance(std::uint32_t r) {
    auto& rank = ranks_[r];
    auto const& row = schedule_.ranks[r];
    for (; rank.position < row.size(); ++rank.position) {
      action const& a = row[rank.position];
      if (a.parts > 0) {
        rank.head = rank.position;
        rank.parts_left = a.parts;
      } else if (a.kind != action_kind::idle) {
        if (!take_turn(r, a)) return;
        each_effect(a, [&](std::uint32_t e) { happen(e, r); });
        finish(r);
      }
    }
  }

  /// Moves rank `r` to the turn in which it can do an action; or lets it wait.
  bool take_turn(std::uint32_t r, action const& a) {
    auto turn = ranks_[r].turn;
    auto unmet = nobody;
    each_need(a, [&](std::uint32_t number) {
      auto const& e = events_[number];
      if (e.happened)
        turn = (std::max)(turn, e.by <= r ? e.turn : e.turn + 1);
      else
        unmet = number;
      return e.happened;
    });
    if (unmet == nobody) {
      ranks_[r].turn = turn;
      return true;
    }
    ranks_[r].next_waiter = std::exchange(events_[unmet].waiter, r);
    return false;
  }

  /// The other parts of a compound may share its step.
  void finish(std::uint32_t r) {
    auto& rank = ranks_[r];
    auto const step = rank.turn / 2;
    steps_[r][rank.position] = step;
    if (rank.parts_left > 1) {
      --rank.parts_left;
      return;
    }
    if (std::exchange(rank.parts_left, std::uint16_t{0}) == 1) steps_[r][rank.head] = step;
    rank.turn = 2 * step + 2;
  }

  void happen(std::uint32_t number, std::uint32_t r) {
    auto& e = events_[number];
    auto waiter = std::exchange(e, {true, ranks_[r].turn, r, nobody}).waiter;
    for (; waiter != nobody; waiter = ranks_[waiter].next_waiter) awake_.push_back(waiter);
  }

  template <class F>
  void each_effect(action const& a, F f) const {
    if (is_compute(a.kind)) return needs_.each_effect(a, f);
    if (!is_send(a.kind) && !is_receive(a.kind)) return;
    if (auto const end = needs_.message_end(a); end != schedule_needs::none) f(end);
  }

  /// `f(event)` for what an action needs, until one returns false.
  template <class F>
  void each_need(action const& a, F f) const {
    if (is_compute(a.kind)) {
      auto const own = a.kind == action_kind::weight_gradient
                           ? needs_.half_done(index(a.stage), a.microbatch)
                           : needs_.forward_done(index(a.stage), a.microbatch);
      needs_.each_need(a, [&](std::uint32_t e) { return (e == own && !listed_[e]) || f(e); });
      return;
    }
    if (!is_message(a.kind)) return;
    if (is_send(a.kind) &&
        !f(a.kind == action_kind::send_activation ? needs_.forward_done(index(a.stage), a.microbatch)
                                                  : needs_.gradient_done(index(a.stage), a.microbatch)))
      return;
    auto const end = needs_.message_end(a);
    if (end == schedule_needs::none || is_send(a.kind)) return;
    if (is_wait_send(a.kind) && !f(end)) return;
    f(schedule_needs::other_end(end));
  }

  schedule const& schedule_;
  schedule_needs needs_;
  std::vector<char> listed_, weight_listed_;  // by event; by stage and microbatch
  std::vector<event> events_;
  std::vector<progress> ranks_;
  std::vector<std::vector<std::uint32_t>> steps_;
  std::vector<std::uint32_t> awake_;
};

/// What keeps a walk from its end, or nothing.
inline std::optional<step_fault> find_fault_of(step_walk& walk) {
  using enum step_fault::kind;
  if (walk.is_empty()) return step_fault{empty};
  if (auto const twice = walk.find_repeated()) return step_fault{repeated, {*twice}};
  if (auto waiting = walk.run(); !waiting.empty()) return step_fault{no_progress, std::move(waiting)};
  return std::nullopt;
}

}  // namespace cleave::testing::twins
