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

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/invalid_action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/simulate/step_walk.hpp"

namespace cleave::inline v0_2 {

/// The step in which each action is done, if every action takes one step.
struct schedule_steps {
  std::uint32_t steps = 0;  ///< the number of steps of the longest rank
  /// By rank and position in its list, from 0; `no_step` for an idle step. A compound is done in the step of
  /// its last part.
  std::vector<std::vector<std::uint32_t>> step_of;

  bool operator==(schedule_steps const&) const = default;
};

/// A reason why a schedule does not finish in the simulation by steps.
struct step_fault {
  static constexpr char subject[] = "steps: ";
  enum class kind : std::uint8_t {
    no_progress,  ///< all ranks that are not finished wait
    repeated,     ///< an action occurs again
    empty,        ///< no rank has any action
  };
  kind what;
  std::vector<step_place> at = {};  ///< the place where each rank waits, ascending; or the repeated action

  bool operator==(step_fault const&) const = default;
};

/// Returns a sentence that names the fault, its place and a remedy.
inline std::string describe(step_fault const& f) {
  using enum step_fault::kind;
  if (f.what == empty) return "the schedule has no actions; add at least one";
  std::string places;
  for (auto const& p : f.at)
    places +=
        (places.empty() ? "rank " : ", rank ") + std::to_string(index(p.rank)) + " at " + action_text(p.what);
  return f.what == repeated
             ? places + " repeats an earlier action; list each action once"
             : "no rank can continue: " + places + "; list the actions that they wait for earlier";
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown if a schedule does not finish in steps. The witness is the fault.
using step_error = fault_error<step_fault>;

/// Returns the fault that keeps a walk from finishing, or nothing.
inline std::optional<step_fault> find_fault_of(step_walk& walk) {
  using enum step_fault::kind;
  if (walk.is_empty()) return step_fault{empty};
  if (auto const twice = walk.find_repeated()) return step_fault{repeated, {*twice}};
  if (auto waiting = walk.run(); !waiting.empty()) return step_fault{no_progress, std::move(waiting)};
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the reason why `simulate_steps` refuses a schedule, or nothing. O(actions).
/// \throws invalid_action_error, stage_placement_error, schedule_count_error
inline std::optional<step_fault> find_step_fault(schedule const& s) {
  detail::require_valid_actions(s);
  detail::step_walk walk(s);
  return detail::find_fault_of(walk);
}

/// Returns the step of each action if every action takes one step, as in PyTorch's simulator.
///
/// In each step, the ranks do their next action if they can, in ascending order. The ranks that could not are
/// then asked once more, since higher ranks have advanced. Idle steps are dropped. A send needs the pass that
/// makes its value, a receive needs its send, and a wait for a send needs the receive. A pass needs its
/// inputs, received or made on its rank, and its own F or I if the lists contain it. In a schedule without
/// messages, a pass needs the passes of other ranks instead. Other actions need nothing. O(actions).
/// \throws invalid_action_error, stage_placement_error, schedule_count_error, step_error
inline schedule_steps simulate_steps(schedule const& s) {
  detail::require_valid_actions(s);
  detail::step_walk walk(s);
  if (auto const fault = detail::find_fault_of(walk)) throw detail::step_error(*fault);
  schedule_steps result{0, walk.take_steps()};
  for (auto const& row : result.step_of)
    for (auto const step : row)
      if (step != detail::no_step) result.steps = (std::max)(result.steps, step + 1);
  return result;
}

/// Returns the lists with an idle step wherever a rank waits. Each list ends with its last action.
/// O(size of the result).
inline std::vector<std::vector<action>> step_rows(schedule const& s, schedule_steps const& steps) {
  std::vector<std::vector<action>> rows(s.ranks.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::uint32_t now = 0;
    auto const& list = s.ranks[r];
    for (std::size_t i = 0; i < list.size(); i += std::size_t{1} + list[i].parts) {
      if (steps.step_of[r][i] == detail::no_step) continue;
      for (; now < steps.step_of[r][i]; ++now) rows[r].emplace_back();
      auto const cell = std::span(list).subspan(i, std::size_t{1} + list[i].parts);
      rows[r].insert(rows[r].end(), cell.begin(), cell.end());
      ++now;
    }
  }
  return rows;
}

}  // namespace cleave
