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

namespace cleave::inline v0_2 {

/// The source of the gradients with which the last stages begin their backward passes.
enum class loss_source : std::uint8_t {
  rank,    ///< a loss, which the rank calls after each forward pass of a stage without successors
  caller,  ///< the caller that runs the schedule
};

/// The weights that a rank holds between uses: all, or its shard.
enum class weight_storage : std::uint8_t { whole, sharded };

/// The treatment of a stage's gradients after its last backward pass.
enum class gradient_end : std::uint8_t {
  reduced,  ///< reduced across replicas; gathered weights are released
  kept,     ///< kept for accumulation over more steps; gathered weights are kept too
};

/// The weight of a microbatch's loss. Calls contain it as the divisor of reduced gradients; the executor
/// passes it to passes as `stage_pass::weight`.
enum class gradient_scale : std::uint8_t {
  by_microbatches,  ///< 1 / microbatches: for losses that are means over microbatches of equal size
  none,             ///< 1, or the value given by the step: for losses that are sums
};

/// The way in which the messages of an exchange begin.
enum class exchange_issue : std::uint8_t {
  together,      ///< in one call if it contains sends and receives, otherwise one by one
  by_rank_pair,  ///< one by one, for one communicator per directed pair of ranks; pairs in ascending order
};

/// The messages that a wait for a send waits for, if the send is part of an exchange.
enum class exchange_end : std::uint8_t {
  together,  ///< all messages of the exchange, as in PyTorch's runtime
  each,      ///< the send alone, where messages end separately: the others may end much later
};

/// The microbatches for which a stage is notified that their output may be released.
enum class release_rule : std::uint8_t {
  sent,  ///< those whose output was sent to other ranks, after the waits for the sends
  all,   ///< also those whose output stays on the rank, before the next backward pass
};

/// The code that waits for the inputs of a custom action.
enum class custom_inputs : std::uint8_t {
  users,   ///< the user's code, as in PyTorch's runtime
  called,  ///< calls before the action, which wait for receives and for gathered weights
};

/// Options for turning the list of a rank into calls.
struct call_options {
  loss_source loss = loss_source::rank;
  weight_storage weights = weight_storage::whole;
  gradient_end gradients = gradient_end::reduced;
  gradient_scale scale = gradient_scale::none;
  exchange_issue exchanges = exchange_issue::together;
  exchange_end ends = exchange_end::together;
  release_rule releases = release_rule::sent;
  /// Kinds of actions that the user's code performs instead. It also performs the losses and local transfers
  /// that belong to them, and the waits that `needs` leaves to the user. A compound is matched by its own
  /// kind, not by the kinds of its parts.
  std::vector<action_kind> custom = {};
  custom_inputs needs = custom_inputs::users;
};

/// The reason why the list of a rank cannot be turned into calls.
struct call_fault {
  static constexpr char subject[] = "calls: ";
  enum class kind : std::uint8_t {
    not_replaceable,   ///< a message, wait or exchange cannot be a custom action
    received_twice,    ///< the same value is received twice
    not_received,      ///< the input of a pass is not received before it
    not_unsharded,     ///< a pass or RESHARD of a stage whose weights are not gathered
    unsharded_twice,   ///< UNSHARD of weights that are already gathered
    reduced_too_soon,  ///< a wait for a reduction that has not begun
  };
  kind what;
  rank_id rank{};
  std::size_t position = 0;  ///< in the list of the rank, counting parts
  action at = {};
  action needs = {};  ///< the missing receive, for `not_received`

  bool operator==(call_fault const&) const = default;
};

/// The message for a fault: where it is and how to correct it.
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
      return at + "receives a value that was already received; receive each value once";
    case not_received:
      return at + "needs a value from another rank; put '" + action_text(f.needs) + "' before it";
    case not_unsharded:
      return at + "needs gathered weights; put UNSHARD of the stage before it";
    case unsharded_twice:
      return at + "gathers weights that are already gathered; put RESHARD of the stage before it";
    case reduced_too_soon:
      return at + "waits for a reduction that has not begun; put REDUCE_GRAD of the stage before it";
    default:
      return at;
  }
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown for a list that cannot be turned into calls. The witness is the reason and its place.
using call_error = fault_error<call_fault>;

/// Returns true if an action of this kind can be a custom action.
constexpr bool is_replaceable(action_kind k) {
  return k != action_kind::idle && k != action_kind::exchange && !is_message(k);
}

/// Returns the first kind of custom action that is not allowed, or nothing. O(options).
inline std::optional<call_fault> find_call_option_fault(call_options const& o) {
  for (auto const k : o.custom)
    if (!is_replaceable(k)) return call_fault{call_fault::kind::not_replaceable, {}, 0, {.kind = k}};
  return std::nullopt;
}

}  // namespace cleave::detail
