// SPDX-License-Identifier: MIT
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/calls/call_options.hpp"
#include "cleave/schedule/calls/rank_call.hpp"
#include "cleave/schedule/calls/rank_caller.hpp"
#include "cleave/schedule/lower/send_waits.hpp"
#include "cleave/schedule/model/edge_numbers.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/stage_neighbours.hpp"
#include "cleave/schedule/model/stray_action.hpp"

namespace cleave::detail {

/// What became of a list: its calls up to the first fault.
struct called_list {
  std::optional<call_fault> fault;
  std::vector<rank_call> calls;
};

/// Calls the list of a rank as far as it goes. \throws stray_action_error, placement_error, send_wait_error
inline called_list call_list(schedule const& s, rank_id r, call_options const& options) {
  expects(index(r) < s.ranks.size(), "a rank of the schedule");
  if (auto fault = find_call_option_fault(options)) return {fault, {}};
  demand_no_stray_action(s);
  if (auto const fault = find_placement_fault(s.place)) throw placement_error(*fault);
  if (auto const fault = find_send_wait_fault(s.ranks[index(r)], index(r))) throw send_wait_error(*fault);
  stage_neighbours const neighbours(s.place);
  rank_caller caller(s, neighbours, r, options);
  caller.run();
  return {caller.fault, caller.take()};
}

}  // namespace cleave::detail

namespace cleave {

/// Why the list of a rank cannot be called, or nothing. O(actions of all ranks). Precondition: there is such
/// a rank. \throws stray_action_error, placement_error, send_wait_error
inline std::optional<call_fault> find_call_fault(schedule const& s, rank_id r,
                                                 call_options const& options = {}) {
  return detail::call_list(s, r, options).fault;
}

/// Everything that a rank does, in order: each call on one of its stages, each message, each wait. A pass
/// first waits for its weights, if they are being gathered, and for what it has to receive; what it makes for
/// a stage on the same rank is handed over at once. Of a compound one part follows the other. These are the
/// calls of PyTorch's runtime, as plain data: whoever runs a schedule goes through them.
///
/// O(actions of all ranks). Precondition: there is such a rank.
/// \throws stray_action_error, placement_error, send_wait_error, call_error
inline std::vector<rank_call> rank_calls(schedule const& s, rank_id r, call_options const& options = {}) {
  auto called = detail::call_list(s, r, options);
  if (called.fault) throw detail::call_error(*called.fault);
  return std::move(called.calls);
}

}  // namespace cleave
