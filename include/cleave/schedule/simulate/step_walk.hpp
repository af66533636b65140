// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/list_runner.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_dependencies.hpp"

namespace cleave::inline v0_2::detail {

inline constexpr std::uint32_t no_step = 0xffffffff;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// An action and its place.
struct step_place {
  rank_id rank{};
  std::size_t position = 0;  ///< index in the list of the rank, parts counted
  action what = {};

  bool operator==(step_place const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Runs lists in steps, for `simulate_steps`. Step n consists of turns 2 n and 2 n + 1. In each turn, the
/// ranks are asked in ascending order.
///
/// An event is visible to higher ranks in the same turn, and to all other ranks in the next turn. The turn of
/// an action thus follows from the turns of its dependencies. Steps in which nothing happens cost no time.
/// Precondition throughout: all actions are valid.
class step_walk {
 public:
  /// Keeps a reference to the schedule. \throws stage_placement_error, schedule_count_error
  explicit step_walk(schedule const& s)
      : schedule_(s),
        dependencies_(s),
        listed_(dependencies_.events()),
        weight_listed_(dependencies_.pairs()),
        times_(dependencies_.events()),
        ranks_(s.ranks.size()),
        steps_(s.ranks.size()),
        runner_(lengths_of(s.ranks), dependencies_.events()) {
    for (std::size_t r = 0; r < s.ranks.size(); ++r) steps_[r].assign(s.ranks[r].size(), no_step);
  }

  /// Returns true if no rank has any action. O(actions).
  bool is_empty() const {
    for (auto const& row : schedule_.ranks)
      for (action const& a : row)
        if (a.kind != action_kind::idle) return false;
    return true;
  }

  /// Returns the first pass or end of a message that occurs again, and records which events are listed.
  /// O(actions).
  std::optional<step_place> find_repeated() {
    for (std::uint32_t r = 0; r < schedule_.ranks.size(); ++r)
      for (std::size_t i = 0; i < schedule_.ranks[r].size(); ++i) {
        action const& a = schedule_.ranks[r][i];
        bool again = false;
        each_effect(a, [&](std::uint32_t e) { again |= std::exchange(listed_[e], char{1}) != 0; });
        if (a.kind == action_kind::weight_gradient)
          again = std::exchange(weight_listed_[dependencies_.forward_done(index(a.stage), a.microbatch)],
                                char{1}) != 0;
        if (again) return step_place{rank_id{r}, i, a};
      }
    return std::nullopt;
  }

  /// Runs all lists to completion or deadlock. Returns, for each rank that did not finish, the action at
  /// which it waits. Call `find_repeated` first. O(actions), because a rank is retried only when the awaited
  /// event happens.
  std::vector<step_place> run() {
    std::vector<step_place> waiting;
    if (runner_.run([this](std::uint32_t r) { return go_on(r); })) return waiting;
    for (std::uint32_t r = 0; r < ranks_.size(); ++r)
      if (auto const at = runner_.position(r); !runner_.is_finished(r))
        waiting.push_back({rank_id{r}, at, schedule_.ranks[r][at]});
    return waiting;
  }

  /// Returns the steps by rank and position. Precondition: a run has finished all lists.
  std::vector<std::vector<std::uint32_t>> take_steps() { return std::move(steps_); }

 private:
  /// The turn in which an event happened, and the rank that triggered it.
  struct time_of_event {
    std::uint32_t turn = 0, by = 0;
  };
  struct progress {
    std::uint32_t turn = 0;  // the first turn in which the rank may act
    std::size_t head = 0;    // the compound whose parts it runs
    std::uint16_t parts_left = 0;
  };

  /// Does the next action of rank `r`. Returns false if it has to wait.
  bool go_on(std::uint32_t r) {
    auto const at = runner_.position(r);
    action const& a = schedule_.ranks[r][at];
    if (a.parts > 0) {
      ranks_[r].head = at;
      ranks_[r].parts_left = a.parts;
    } else if (a.kind != action_kind::idle) {
      if (!take_turn(r, a)) return false;
      each_effect(a, [&](std::uint32_t e) { happen(e, r); });
      finish(r);
    }
    runner_.pass(r);
    return true;
  }

  /// Moves rank `r` to the turn in which it can do an action, or makes it wait.
  bool take_turn(std::uint32_t r, action const& a) {
    auto turn = ranks_[r].turn;
    bool has_all = true;
    each_dependency(a, [&](std::uint32_t event) {
      has_all = !runner_.waits_for(r, event);
      auto const& m = times_[event];
      turn = (std::max)(turn, m.by <= r ? m.turn : m.turn + 1);
      return has_all;
    });
    if (has_all) ranks_[r].turn = turn;
    return has_all;
  }

  /// Records the step of an action. The other parts of a compound may share its step.
  void finish(std::uint32_t r) {
    auto& rank = ranks_[r];
    auto const step = rank.turn / 2;
    steps_[r][runner_.position(r)] = step;
    if (rank.parts_left > 1) {
      --rank.parts_left;
      return;
    }
    if (std::exchange(rank.parts_left, std::uint16_t{0}) == 1) steps_[r][rank.head] = step;
    rank.turn = 2 * step + 2;
  }

  void happen(std::uint32_t event, std::uint32_t r) {
    times_[event] = {ranks_[r].turn, r};
    runner_.happen(event);
  }

  template <class F>
  void each_effect(action const& a, F f) const {
    if (is_compute(a.kind)) return dependencies_.each_effect(a, f);
    if (!is_send(a.kind) && !is_receive(a.kind)) return;
    if (auto const end = dependencies_.message_end(a); end != schedule_dependencies::none) f(end);
  }

  /// Calls `f(event)` for each event that an action needs, until a call returns false.
  template <class F>
  void each_dependency(action const& a, F f) const {
    if (is_compute(a.kind)) {
      auto const own = a.kind == action_kind::weight_gradient
                           ? dependencies_.half_done(index(a.stage), a.microbatch)
                           : dependencies_.forward_done(index(a.stage), a.microbatch);
      dependencies_.each_dependency(a, [&](std::uint32_t e) { return (e == own && !listed_[e]) || f(e); });
      return;
    }
    if (!is_message(a.kind)) return;
    if (is_send(a.kind) && !f(a.kind == action_kind::send_activation
                                  ? dependencies_.forward_done(index(a.stage), a.microbatch)
                                  : dependencies_.gradient_done(index(a.stage), a.microbatch)))
      return;
    auto const end = dependencies_.message_end(a);
    if (end == schedule_dependencies::none || is_send(a.kind)) return;
    if (is_wait_send(a.kind) && !f(end)) return;
    f(schedule_dependencies::other_end(end));
  }

  schedule const& schedule_;
  schedule_dependencies dependencies_;
  std::vector<char> listed_, weight_listed_;  // by event; by stage and microbatch
  std::vector<time_of_event> times_;
  std::vector<progress> ranks_;
  std::vector<std::vector<std::uint32_t>> steps_;
  list_runner runner_;
};

}  // namespace cleave::detail
