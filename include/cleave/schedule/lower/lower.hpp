// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "cleave/schedule/lower/defer_receives.hpp"
#include "cleave/schedule/lower/group_messages.hpp"
#include "cleave/schedule/lower/limit_sends.hpp"
#include "cleave/schedule/lower/lower_options.hpp"
#include "cleave/schedule/lower/reduce_gradients.hpp"
#include "cleave/schedule/lower/send_in_rounds.hpp"
#include "cleave/schedule/lower/send_in_time.hpp"
#include "cleave/schedule/lower/send_waits.hpp"
#include "cleave/schedule/lower/unshard_stages.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/verify/verify.hpp"

namespace cleave::detail {

/// The schedule with UNSHARD and RESHARD on every rank. \throws window_error
inline schedule unshard_stages(schedule s, lower_options const& options) {
  auto const count = [](std::int64_t n) {
    return static_cast<std::uint32_t>(std::min<std::int64_t>(n, (std::numeric_limits<std::uint32_t>::max)()));
  };
  for (std::size_t r = 0; r < s.ranks.size(); ++r)
    s.ranks[r] = unshard_stages(s.ranks[r], {.active = count(options.max_active_stages),
                                             .lookahead = count(lookahead_of(options, r))});
  return s;
}

/// Limits the sends of a lowered schedule as the options say. \throws as `limit_sends`
inline schedule limit_sends(schedule s, lower_options const& options) {
  if (!options.max_outstanding_sends) return s;
  auto const limit = std::min<std::int64_t>(*options.max_outstanding_sends, most_actions);
  s = limit_sends(s, static_cast<std::uint32_t>(limit));
  demand_send_waits(s);
  return s;
}

}  // namespace cleave::detail

namespace cleave {

/// A schedule that can be run, from one that only computes: with weights gathered and let go, gradients
/// reduced, and all messages and the waits for them. Messages go in the order of time (`send_in_time`). In
/// PyTorch's order (`message_order::rounds`), with the same other options, the lists are those of PyTorch,
/// but where receives are deferred: messages of a directed pair of ranks keep their order, and where sends
/// block, receives are not deferred, for that might not finish.
///
/// O(actions * log ranks), plus what `limit_sends` needs.
/// \throws lower_option_error, nominal_time_error, schedule_error, window_error, send_wait_error,
/// send_limit_error
inline schedule lower(schedule const& s, lower_options const& options = {}) {
  if (auto fault = detail::find_lower_option_fault(options, s.ranks.size())) throw detail::lower_option_error(*fault);
  detail::demand_nominal_times(options.times, s.place.stages());
  detail::demand_schedule(s, {.passes = passes_of(s)});
  auto lowered = detail::reduce_gradients(detail::unshard_stages(s, options), options.reductions);
  lowered = options.messages == message_order::timed ? send_in_time(lowered, options.times)
                                                     : detail::send_in_rounds(lowered);
  lowered = add_send_waits(std::move(lowered));
  if (options.receives == receive_time::deferred && options.sends == send_manner::posted)
    lowered = detail::defer_receives(lowered, options.order);
  lowered = detail::limit_sends(std::move(lowered), options);
  return options.grouping == message_grouping::adjacent ? group_messages(std::move(lowered)) : lowered;
}

}  // namespace cleave
