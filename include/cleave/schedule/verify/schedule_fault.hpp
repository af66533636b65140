// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/verify/deadlock.hpp"

namespace cleave::inline v0_2 {

/// A fault of a schedule and its place.
struct schedule_fault {
  static constexpr char subject[] = "schedule: ";
  enum class kind : std::uint8_t {
    rank_count,               ///< there are `count` lists, which is not the number of ranks
    placement,                ///< the placement is invalid at stage or edge `count`
    too_few_actions,          ///< far fewer actions than the stages and microbatches require
    compound,                 ///< a compound without parts, or with more parts than the list has
    unknown_stage,            ///< no stage has this number
    unknown_microbatch,       ///< no microbatch has this number
    other_rank,               ///< the stage belongs to rank `count`
    unknown_edge,             ///< a message between stages without an edge, or on one rank
    repeated,                 ///< done `count` times
    forward_missing,          ///< F is never done
    backward_missing,         ///< neither B, nor I and W
    backward_and_halves,      ///< B is done, and I or W too
    input_gradient_missing,   ///< W is done without I
    weight_gradient_missing,  ///< I is done without W
    out_of_order,             ///< `at` precedes `other` on the same rank, but depends on it
    message_missing,          ///< the message received by `at` is neither sent nor received
    receive_missing,          ///< a message is sent, but never received
    send_missing,             ///< a message is received, but never sent
    sent_not_made,            ///< the value of a send is never computed
    received_not_used,        ///< no pass uses the received value
    wait_missing,             ///< a send has no wait, although other sends have one
    waited_not_sent,          ///< a wait without a send before it
    channel_order,            ///< message `count` between two ranks is sent as `at`, but received as `other`
    unshard_repeated,         ///< the weights are already gathered
    reshard_repeated,         ///< the weights are not gathered
    used_resharded,           ///< a pass runs without its weights
    reshard_missing,          ///< the weights are still gathered at the end
    reduce_repeated,          ///< the gradients are already reduced
    reduce_early,             ///< some gradients are computed later
    reduce_wait_missing,      ///< a reduction has no wait
    waited_not_reduced,       ///< a wait without a reduction before it
    offload_misuse,  ///< offloaded values are used or offloaded again, or values on the device are reloaded
    memory,    ///< the rank keeps the saved activations of `count` forward passes, which is above the limit
    deadlock,  ///< ranks wait for each other
  };
  kind what;
  rank_id rank{};
  std::size_t position = 0;  ///< index in the list of the rank, parts counted
  action at = {};
  action other = {};
  std::uint64_t count = 0;
  std::optional<cleave::deadlock> stuck = {};  ///< set for a deadlock

  bool operator==(schedule_fault const&) const = default;
};

/// Returns the code of a fault for programs. Codes do not change from version to version.
constexpr std::string_view code_of(schedule_fault::kind what) {
  constexpr std::string_view codes[] = {"rank-count",
                                        "placement",
                                        "too-few-actions",
                                        "compound",
                                        "stage-unknown",
                                        "microbatch-unknown",
                                        "stage-on-two-ranks",
                                        "edge-unknown",
                                        "repeated",
                                        "forward-missing",
                                        "backward-missing",
                                        "backward-and-halves",
                                        "input-gradient-missing",
                                        "weight-gradient-missing",
                                        "out-of-order",
                                        "message-missing",
                                        "receive-missing",
                                        "send-missing",
                                        "sent-not-made",
                                        "received-not-used",
                                        "wait-missing",
                                        "waited-not-sent",
                                        "channel-order",
                                        "unshard-repeated",
                                        "reshard-repeated",
                                        "used-resharded",
                                        "reshard-missing",
                                        "reduce-repeated",
                                        "reduce-early",
                                        "reduce-wait-missing",
                                        "waited-not-reduced",
                                        "offload-misuse",
                                        "memory",
                                        "deadlock"};
  return codes[static_cast<std::size_t>(what)];
}

/// Returns one clause per wait as text: the waiting action and the action it waits for.
inline std::string wait_text(std::vector<waiting_action> const& waits) {
  std::string text;
  for (auto const& w : waits)
    text += (text.empty() ? "rank " : "; rank ") + std::to_string(index(w.rank)) + " at '" +
            action_text(w.at) + "' waits for '" + action_text(w.for_what) + "' of rank " +
            std::to_string(index(w.for_rank));
  return text;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the part of the message that follows the place.
inline std::string fault_sentence(schedule_fault const& f) {
  using enum schedule_fault::kind;
  auto const other = "'" + action_text(f.other) + "'";
  switch (f.what) {
    case unknown_stage:
      return "names a stage that does not exist";
    case unknown_microbatch:
      return "names a microbatch that does not exist";
    case other_rank:
      return "names a stage that is on rank " + std::to_string(f.count) + "; keep a stage on one rank";
    case unknown_edge:
      return "is a message between stages without an edge, or on one rank";
    case compound:
      return "is a compound without parts, or with more parts than the list has";
    case repeated:
      return "is done " + std::to_string(f.count) + " times; do it once";
    case forward_missing:
    case message_missing:
      return "is missing";
    case backward_missing:
      return "is missing, and so are I and W";
    case backward_and_halves:
      return "is done although I or W is too; do B, or I and W";
    case input_gradient_missing:
      return "is missing although W is done";
    case weight_gradient_missing:
      return "is missing although I is done";
    case out_of_order:
      return "comes before " + other + ", which it needs";
    case receive_missing:
      return "is never received; add " + other;
    case send_missing:
      return "is never sent; add " + other;
    case sent_not_made:
      return "sends a value that is never computed";
    case received_not_used:
      return "receives a value that no pass uses";
    case wait_missing:
      return "is never waited for, though other sends are";
    case waited_not_sent:
      return "has no pending send to wait for";
    case channel_order:
      return "is sent where " + other + " is received; receive in the order of the sends";
    case unshard_repeated:
      return "gathers weights that are already gathered";
    case reshard_repeated:
      return "frees weights that are not gathered";
    case used_resharded:
      return "computes without its weights; unshard the stage before it";
    case reshard_missing:
      return "is never followed by a reshard";
    case reduce_repeated:
      return "reduces gradients that are already reduced";
    case reduce_early:
      return "reduces gradients before all are computed";
    case reduce_wait_missing:
      return "is never waited for";
    case waited_not_reduced:
      return "has no pending reduction to wait for";
    case offload_misuse:
      return "uses offloaded values, or reloads values that are not offloaded; offload after F, and reload "
             "before B or I";
    case memory:
      return "exceeds the rank's limit of saved activations; forward passes kept: " + std::to_string(f.count);
    default:
      return {};
  }
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a sentence that names the fault, its place and a remedy.
inline std::string describe(schedule_fault const& f) {
  using enum schedule_fault::kind;
  if (f.what == rank_count) return "there are " + std::to_string(f.count) + " lists; give each rank one";
  if (f.what == placement) return "the placement is invalid; see find_stage_placement_fault";
  if (f.what == too_few_actions) return "there are far fewer actions than stages and microbatches need";
  if (f.what == schedule_fault::kind::deadlock)
    return "the ranks are stuck: " + wait_text(f.stuck->cycle.empty() ? f.stuck->waiting : f.stuck->cycle);
  return "rank " + std::to_string(index(f.rank)) + ", action #" + std::to_string(f.position) + ": '" +
         action_text(f.at) + "' " + detail::fault_sentence(f);
}

}  // namespace cleave
