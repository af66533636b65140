// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave {

/// Where backward passes of the last stages get their gradients.
enum class loss_source : std::uint8_t {
  rank,    ///< from a loss, which the rank calls after each forward pass of a stage that feeds no other
  caller,  ///< from whoever runs the schedule
};

/// What a rank holds of the weights of its stages between their uses.
enum class weight_storage : std::uint8_t { whole, sharded };

/// What becomes of the gradients of a stage once its last backward pass is done.
enum class gradient_end : std::uint8_t {
  reduced,  ///< across replicas; gathered weights are let go
  kept,     ///< as they are, for more steps to add to them; gathered weights are kept too
};

/// By how much the loss of a microbatch counts. Calls name it as what reduced gradients are divided by; the
/// executor says it to passes (`stage_pass::weight`).
enum class gradient_scale : std::uint8_t {
  by_microbatches,  ///< 1 / microbatches: for losses that are means, of microbatches of one size
  none,             ///< 1, or what a step gives: for losses that are sums
};

/// How the messages of an exchange begin.
enum class exchange_issue : std::uint8_t {
  together,      ///< as one call where some are sent and some received, else one by one
  by_rank_pair,  ///< one by one, as each directed pair of ranks has a communicator; pairs in ascending order
};

/// What a wait for a send waits for that is one message of an exchange.
enum class exchange_end : std::uint8_t {
  together,  ///< all of them, as PyTorch's runtime does
  each,      ///< that one: where they end one by one, the others may be far from their end
};

/// Of which microbatches a stage is told that its output may be let go.
enum class release_rule : std::uint8_t {
  sent,  ///< those whose output went to other ranks, after the waits for it
  all,   ///< the others too, before the backward pass that comes next
};

/// Who sees to what the passes of a custom action need.
enum class custom_inputs : std::uint8_t {
  users,   ///< the user, as PyTorch's runtime has it
  called,  ///< calls before it, which wait for what is received and for weights that are gathered
};

/// How the list of a rank becomes calls.
struct call_options {
  loss_source loss = loss_source::rank;
  weight_storage weights = weight_storage::whole;
  gradient_end gradients = gradient_end::reduced;
  gradient_scale scale = gradient_scale::none;
  exchange_issue exchanges = exchange_issue::together;
  exchange_end ends = exchange_end::together;
  release_rule releases = release_rule::sent;
  /// Kinds of actions that the user does instead, with all that belongs to them: losses, what is handed over,
  /// and what `needs` leaves to the user. Of a compound its own kind counts, not those of its parts.
  std::vector<action_kind> custom = {};
  custom_inputs needs = custom_inputs::users;
};

/// Why the list of a rank cannot be called.
struct call_fault {
  static constexpr char subject[] = "calls: ";
  enum class kind : std::uint8_t {
    not_replaceable,   ///< a message, a wait or an exchange is not for the user to do
    received_twice,    ///< a receive is there once more
    not_received,      ///< a pass needs what the rank does not receive before
    not_unsharded,     ///< a pass or RESHARD of a stage whose weights are not gathered
    unsharded_twice,   ///< weights are gathered that are there
    reduced_too_soon,  ///< a wait for a reduction that has not begun
  };
  kind what;
  rank_id rank{};
  std::size_t position = 0;  ///< in the list of the rank, parts counted
  action at = {};
  action needs = {};  ///< of `not_received`: the receive

  bool operator==(call_fault const&) const = default;
};

/// What, where and how to mend it.
inline std::string describe(call_fault const& f) {
  using enum call_fault::kind;
  if (f.what == not_replaceable)
    return std::string(name_of(f.at.kind)) +
           " cannot be a custom action; passes, compounds, UNSHARD, RESHARD, " +
           "REDUCE_GRAD and WAIT_REDUCE_GRAD can";
  auto at = "rank " + std::to_string(index(f.rank)) + ", action #" + std::to_string(f.position) + ": '" +
            action_text(f.at) + "' ";
  switch (f.what) {
    case received_twice:
      return at + "receives what has been received already; receive each value once";
    case not_received:
      return at + "needs what another rank has made; put '" + action_text(f.needs) + "' before it";
    case not_unsharded:
      return at + "needs gathered weights; put UNSHARD of the stage before it";
    case unsharded_twice:
      return at + "gathers weights that are there; put RESHARD of the stage before it";
    case reduced_too_soon:
      return at + "waits for no reduction; put REDUCE_GRAD of the stage before it";
    default:
      return at;
  }
}

}  // namespace cleave

namespace cleave::detail {

/// A list that its rank cannot be called for. The witness: why, and where.
using call_error = fault_error<call_fault>;

/// Whether a user may do actions of this kind instead.
constexpr bool is_replaceable(action_kind k) {
  return k != action_kind::idle && k != action_kind::exchange && !is_message(k);
}

/// The first kind of custom action that a user may not do, or nothing. O(options).
inline std::optional<call_fault> find_call_option_fault(call_options const& o) {
  for (auto const k : o.custom)
    if (!is_replaceable(k)) return call_fault{call_fault::kind::not_replaceable, {}, 0, {.kind = k}};
  return std::nullopt;
}

}  // namespace cleave::detail
