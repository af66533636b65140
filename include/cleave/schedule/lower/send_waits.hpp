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
#include "cleave/schedule/lower/message_graph.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::inline v0_2::detail {

/// A send or a wait for a send that has no counterpart.
struct send_wait_fault {
  static constexpr char subject[] = "send waits: ";
  enum class kind : std::uint8_t {
    microbatch_missing,  ///< a send or a wait has no microbatch
    sent_twice,          ///< a send occurs again
    wait_missing,        ///< a send has no wait
    send_missing,        ///< a wait precedes its send or occurs again
  };
  kind what;
  std::uint32_t rank = 0;
  std::size_t position = 0;  ///< index in the list of the rank, parts counted
  action at = {};

  bool operator==(send_wait_fault const&) const = default;
};

/// Returns a sentence that names the fault, its place and a remedy.
inline std::string describe(send_wait_fault const& f) {
  using enum send_wait_fault::kind;
  auto const at = "rank " + std::to_string(f.rank) + ", action #" + std::to_string(f.position) + ": '" +
                  action_text(f.at) + "' ";
  switch (f.what) {
    case microbatch_missing:
      return at + "has no microbatch; give it one";
    case sent_twice:
      return at + "repeats a pending send; send each value once";
    case wait_missing:
      return at + "is never waited for; add a wait after it";
    case send_missing:
      return at + "has no pending send to wait for; put one wait after each send";
  }
  return {};
}

using send_wait_error = fault_error<send_wait_fault>;

/// Returns the wait for a send.
constexpr action wait_for(action send) {
  send.kind = send.kind == action_kind::send_activation ? action_kind::wait_send_activation
                                                        : action_kind::wait_send_gradient;
  return send;
}

/// Returns the first send of a list that is repeated or has no wait after it, or the first wait without a
/// send; or nothing. `rank` is the number of the list. O(actions).
inline std::optional<send_wait_fault> find_send_wait_fault(std::span<action const> row,
                                                           std::uint32_t rank = 0) {
  using enum send_wait_fault::kind;
  message_table sends;
  for (std::size_t i = 0; i < row.size(); ++i) {
    action const& a = row[i];
    if (!is_send(a.kind) && !is_wait_send(a.kind)) continue;
    auto const fault = [&](send_wait_fault::kind what) { return send_wait_fault{what, rank, i, a}; };
    if (a.microbatch == no_microbatch) return fault(microbatch_missing);
    auto* const send = sends.find(a);
    if (is_send(a.kind)) {
      if (send) return fault(sent_twice);
      sends.add(a, i);
    } else {
      if (!send || !send->open) return fault(send_missing);
      send->open = false;
    }
  }
  for (auto const& send : sends.entries())
    if (send.open) return send_wait_fault{wait_missing, rank, send.position, send.what};
  return std::nullopt;
}

/// Checks the lists of all ranks, the lowest rank first. O(actions).
inline std::optional<send_wait_fault> find_send_wait_fault(schedule const& s) {
  for (std::uint32_t r = 0; r < s.ranks.size(); ++r)
    if (auto fault = find_send_wait_fault(s.ranks[r], r)) return fault;
  return std::nullopt;
}

/// Checks that sends and waits pair on all ranks. O(actions). \throws send_wait_error
inline void require_send_waits(schedule const& s) {
  if (auto fault = find_send_wait_fault(s)) throw send_wait_error(*fault);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a list with a wait for each of its sends. `rank` is the number of the list in errors.
///
/// The wait for an activation follows the first B or I of the same stage and microbatch, or its whole
/// compound. The receiver has used the activation by then. All other sends, including those of gradients, are
/// waited for at the end of the list, in the order of the sends. O(actions).
/// \throws send_wait_error if a value is sent again before its wait, or has no microbatch
inline std::vector<action> add_send_waits(std::span<action const> row, std::uint32_t rank = 0) {
  using enum detail::send_wait_fault::kind;
  detail::message_table sends;
  std::vector<action> waited;
  auto const is_send = [](action const& a) { return detail::is_send(a.kind); };
  waited.reserve(row.size() + static_cast<std::size_t>(std::ranges::count_if(row, is_send)));
  std::size_t position = 0;
  each_cell(row, [&](action const& head, std::span<action const> parts) {
    waited.push_back(head);
    waited.insert(waited.end(), parts.begin(), parts.end());
    if (detail::is_send(head.kind)) {
      if (head.microbatch == no_microbatch)
        throw detail::send_wait_error({microbatch_missing, rank, position, head});
      if (auto const* send = sends.find(head); send && send->open)
        throw detail::send_wait_error({sent_twice, rank, position, head});
      sends.add(head, position);
    }
    each_action(parts.empty() ? std::span(&head, 1) : parts, [&](action const& a) {
      if (a.kind != action_kind::backward && a.kind != action_kind::input_gradient) return;
      sends.each(a.stage, a.microbatch, true, [&](detail::message_table::entry& send) {
        if (std::exchange(send.open, false)) waited.push_back(detail::wait_for(send.what));
      });
    });
    position += 1 + parts.size();
  });
  for (auto const& send : sends.entries())
    if (send.open) waited.push_back(detail::wait_for(send.what));
  return waited;
}

/// Adds waits on every rank. O(actions). \throws send_wait_error
inline schedule add_send_waits(schedule s) {
  for (std::uint32_t r = 0; r < s.ranks.size(); ++r) s.ranks[r] = add_send_waits(s.ranks[r], r);
  return s;
}

}  // namespace cleave
