// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/lower/send_waits.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/verify/verify.hpp"

namespace cleave::inline v0_2::detail {

/// Thrown if an edge between two ranks has no messages in a schedule that should be lowered. The witness is
/// the edge.
using unsent_edge_error = tagged_error<struct unsent_edge_tag, stage_edge>;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the first edge between two ranks if the schedule has no messages at all, or nothing.
/// O(actions + edges).
inline std::optional<stage_edge> find_unsent_edge(schedule const& s) {
  for (auto const& row : s.ranks)
    for (action const& a : row)
      if (detail::is_message(a.kind)) return std::nullopt;
  for (auto const e : s.place.edges)
    if (s.place.rank_of[index(e.from)] != s.place.rank_of[index(e.to)]) return e;
  return std::nullopt;
}

/// Returns a schedule that was lowered elsewhere, such as PyTorch's CSV with communication, with its sends
/// limited as the options say. Verifies the schedule first; every send must have a wait. The schedule already
/// determines when receives are posted and gradients are reduced. A look-ahead other than `full` is refused,
/// because the schedule already determines when weights are gathered.
/// \throws lower_option_error, schedule_error, unsent_edge_error, send_wait_error, and the errors of
///   `limit_sends`
inline schedule finish_lowered(schedule const& s, lower_options const& options = {}) {
  if (auto fault = detail::find_lower_option_fault(options, s.ranks.size()))
    throw detail::lower_option_error(*fault);
  if (options.lookahead.how != unshard_ahead::policy::full)
    throw detail::lower_option_error({detail::lower_option_fault::kind::lowered_already});
  detail::require_schedule(s, {.passes = passes_of(s)});
  if (auto const e = find_unsent_edge(s))
    throw detail::unsent_edge_error("lowered schedule: stage " + std::to_string(index(e->from)) +
                                        " feeds stage " + std::to_string(index(e->to)) +
                                        " on another rank, but no message is sent; lower the schedule first",
                                    *e);
  detail::require_send_waits(s);
  return detail::limit_sends(s, options);
}

}  // namespace cleave
