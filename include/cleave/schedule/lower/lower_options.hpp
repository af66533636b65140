// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/schedule/lower/defer_receives.hpp"
#include "cleave/schedule/lower/nominal_times.hpp"
#include "cleave/schedule/lower/reduce_gradients.hpp"

namespace cleave {

/// In which order messages go. Either finishes on every transport.
enum class message_order : std::uint8_t {
  timed,   ///< as passes end in time, which no pass waits for
  rounds,  ///< PyTorch's: each rank in turn takes its next action
};

/// Which messages begin together.
enum class message_grouping : std::uint8_t {
  none,
  adjacent,  ///< those that follow each other without making a pass wait, as `group_messages` says
};

/// When receives are posted.
enum class receive_time : std::uint8_t {
  at_once,   ///< as soon as the other rank sends
  deferred,  ///< when what they bring is needed
};

/// What a send does where the messages will go.
enum class send_manner : std::uint8_t {
  posted,    ///< it lets the rank go on at once
  blocking,  ///< it may hold the rank, or all messages of a pair, until the other rank receives
};

/// How many of the next stages have their weights gathered.
struct unshard_ahead {
  enum class policy : std::uint8_t {
    full,       ///< as many as may be active
    automatic,  ///< rank + 2, or as many as may be active
    by_rank,
  };
  policy how = policy::full;
  std::vector<std::int64_t> stages = {};  ///< by rank, each from 1 to as many as may be active
};

/// How a schedule that only computes becomes one that can be run.
struct lower_options {
  message_order messages = message_order::timed;
  nominal_times times = {};  ///< of a timed order
  receive_time receives = receive_time::at_once;
  receive_order order = receive_order::as_sent;  ///< of deferred receives
  send_manner sends = send_manner::posted;
  std::int64_t max_active_stages = 3;  ///< whose weights are gathered at a time; 1 or more
  unshard_ahead lookahead = {};
  reduction_wait reductions = reduction_wait::at_once;
  std::optional<std::int64_t> max_outstanding_sends = {};  ///< of one rank; 0 or more
  message_grouping grouping = message_grouping::none;
};

}  // namespace cleave

namespace cleave::detail {

/// An option that makes no sense, and what it was.
struct lower_option_fault {
  enum class kind : std::uint8_t {
    active_stages,      ///< `got` is not a positive count
    lookahead_ranks,    ///< `got` numbers for `allowed` ranks
    lookahead,          ///< `got` for `rank` is not from 1 to `allowed`
    outstanding_sends,  ///< `got` is negative
    lowered_already,    ///< a look-ahead for a schedule whose weights have been seen to
  };
  kind what;
  std::int64_t got = 0, allowed = 0;
  std::size_t rank = 0;

  bool operator==(lower_option_fault const&) const = default;
};

/// What, where and how to mend it.
inline std::string describe(lower_option_fault const& f) {
  using enum lower_option_fault::kind;
  auto const got = std::to_string(f.got), allowed = std::to_string(f.allowed);
  switch (f.what) {
    case active_stages:
      return "max_active_stages is " + got + "; give 1 or more";
    case lookahead_ranks:
      return "lookahead has " + got + " numbers for " + allowed + " ranks; give each rank one";
    case lookahead:
      return "lookahead of rank " + std::to_string(f.rank) + " is " + got + "; give 1 to " + allowed +
             ", the active stages";
    case outstanding_sends:
      return "max_outstanding_sends is " + got + "; give 0 or more, or none";
    case lowered_already:
      return "a schedule that is lowered already takes no lookahead; give it while lowering";
  }
  return {};
}

class lower_option_error : public witness_error<lower_option_fault> {
 public:
  explicit lower_option_error(lower_option_fault f) : witness_error("lower: " + describe(f), f) {}
};

/// The first option that makes no sense for so many ranks, or nothing. O(ranks).
inline std::optional<lower_option_fault> find_lower_option_fault(lower_options const& o, std::size_t ranks) {
  using enum lower_option_fault::kind;
  if (o.max_active_stages < 1) return lower_option_fault{active_stages, o.max_active_stages};
  if (o.lookahead.how == unshard_ahead::policy::by_rank) {
    auto const& stages = o.lookahead.stages;
    if (stages.size() != ranks)
      return lower_option_fault{lookahead_ranks, static_cast<std::int64_t>(stages.size()),
                                static_cast<std::int64_t>(ranks)};
    for (std::size_t r = 0; r < ranks; ++r)
      if (stages[r] < 1 || stages[r] > o.max_active_stages)
        return lower_option_fault{lookahead, stages[r], o.max_active_stages, r};
  }
  if (o.max_outstanding_sends && *o.max_outstanding_sends < 0)
    return lower_option_fault{outstanding_sends, *o.max_outstanding_sends};
  return std::nullopt;
}

/// How many of the next stages rank `r` gathers. Precondition: the options make sense. O(1).
inline std::int64_t lookahead_of(lower_options const& o, std::size_t r) {
  switch (o.lookahead.how) {
    case unshard_ahead::policy::full:
      break;
    case unshard_ahead::policy::automatic:
      return (std::min)(static_cast<std::int64_t>(r) + 2, o.max_active_stages);
    case unshard_ahead::policy::by_rank:
      return o.lookahead.stages[r];
  }
  return o.max_active_stages;
}

}  // namespace cleave::detail
