// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/delivery.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/verify/channel_order.hpp"
#include "cleave/schedule/verify/deadlock.hpp"
#include "cleave/schedule/verify/fault_list.hpp"
#include "cleave/schedule/verify/schedule_fault.hpp"
#include "cleave/schedule/verify/verify_messages.hpp"
#include "cleave/schedule/verify/verify_passes.hpp"
#include "cleave/schedule/verify/verify_weights.hpp"

namespace cleave {

/// How a receive finds its send.
enum class message_matching : std::uint8_t {
  in_order,  ///< the next from that rank, as in NCCL; another order is a fault
  by_name,   ///< by stage, kind and microbatch
};

/// What a schedule must meet.
struct verify_options {
  cleave::delivery delivery = delivery::buffered;
  std::uint32_t buffers = any_number;              ///< as in `delivery_rules`
  message_groups groups = message_groups::listed;  ///< as in `delivery_rules`
  message_matching matching = message_matching::in_order;
  expected_passes passes = expected_passes::forward_and_backward;
  std::uint64_t most_kept = 0;     ///< forward passes that a rank may keep at once; 0: no limit
  std::size_t most_faults = 1000;  ///< how many are reported
};

}  // namespace cleave

namespace cleave::detail {

/// Finds actions that are nowhere.
inline void report_strays(schedule const& s, schedule_needs const& needs, fault_list& to) {
  using enum schedule_fault::kind;
  std::vector<char> told(s.place.stages());
  for (std::uint32_t r = 0; r < s.ranks.size(); ++r)
    for (std::size_t i = 0; i < s.ranks[r].size(); ++i) {
      action const& a = s.ranks[r][i];
      placed_action const p{rank_id{r}, i, a};
      if (a.parts >= s.ranks[r].size() - i || (a.kind == action_kind::overlap && a.parts == 0))
        to.add(compound, p);
      if (a.kind == action_kind::idle || a.kind == action_kind::overlap || a.parts > 0) continue;
      if (index(a.stage) >= s.place.stages()) {
        to.add(unknown_stage, p);
        continue;
      }
      auto const home = s.place.rank_of[index(a.stage)];
      if (home != p.rank && !std::exchange(told[index(a.stage)], true))
        to.add(other_rank, p, {}, index(home));
      if (has_microbatch(a.kind) && index(a.microbatch) >= s.microbatches)
        to.add(unknown_microbatch, p);
      else if (is_message(a.kind) && needs.message_end(a) == schedule_needs::none)
        to.add(unknown_edge, p);
    }
}

/// Finds where ranks wait for each other. A rank that waits for itself, or for what is never done, has been
/// reported as such.
inline void report_deadlock(schedule const& s, delivery_rules const& rules, fault_list& to) {
  auto found = find_deadlock(s, rules);
  if (!found || (found->circle.size() < 2 && !to.empty())) return;
  auto const& first = found->circle.empty() ? found->waiting.front() : found->circle.front();
  to.add({schedule_fault::kind::deadlock, first.rank, first.position, first.at, first.for_what, 0,
          std::move(found)});
}

}  // namespace cleave::detail

namespace cleave {

/// Everything that is wrong with a schedule, whether it computes only or has messages too; nothing where it
/// can run as `options` say. Waits for sends are asked for where there are any, unshards only of stages that
/// have one. O(actions), besides the shortest circle of a deadlock.
inline std::vector<schedule_fault> schedule_faults(schedule const& s, verify_options const& options = {}) {
  using enum schedule_fault::kind;
  detail::fault_list faults(options.most_faults);
  if (s.ranks.size() != s.place.ranks) faults.add({.what = rank_count, .count = s.ranks.size()});
  if (auto const f = detail::find_placement_fault(s.place)) faults.add({.what = placement, .count = f->at});
  if (!detail::schedule_needs::fits(s)) faults.add({.what = too_few_actions});
  if (!faults.empty()) return faults.take();

  detail::schedule_needs const needs(s);
  detail::report_strays(s, needs, faults);
  detail::pass_survey(s, needs).report(options.passes, faults);
  detail::event_survey(s, needs).report(faults);
  if (options.matching == message_matching::in_order && needs.messages())
    if (auto const f = detail::find_channel_mismatch(s))
      faults.add(
          {.what = channel_order, .rank = f->from, .at = f->sent, .other = f->received, .count = f->place});
  detail::weight_survey(s, needs).report(faults);
  detail::report_memory(s, needs, options.most_kept, faults);
  detail::report_deadlock(s, {options.delivery, options.buffers, options.groups}, faults);
  return faults.take();
}

/// One thing that is wrong, or nothing. O(actions), besides the shortest circle of a deadlock.
inline std::optional<schedule_fault> find_schedule_fault(schedule const& s, verify_options options = {}) {
  options.most_faults = 1;
  auto faults = schedule_faults(s, options);
  return faults.empty() ? std::nullopt : std::optional(std::move(faults.front()));
}

}  // namespace cleave

namespace cleave::detail {

/// A schedule that cannot run. The witness: the first fault.
class schedule_error : public witness_error<schedule_fault> {
 public:
  explicit schedule_error(schedule_fault f) : witness_error("schedule: " + describe(f), f) {}
};

/// \throws schedule_error where a schedule cannot run as `options` say
inline void demand_schedule(schedule const& s, verify_options const& options = {}) {
  if (auto f = find_schedule_fault(s, options)) throw schedule_error(std::move(*f));
}

}  // namespace cleave::detail
