// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/action_text.hpp"

namespace cleave {

/// What a rank calls, on one of its stages or where messages go.
enum class call_kind : std::uint8_t {
  forward,
  backward,         ///< gradients of inputs and weights
  backward_input,   ///< of inputs
  backward_weight,  ///< of weights
  loss,             ///< of what the last stage has made
  release,          ///< what the stage has sent of a microbatch may be let go
  hand_over,        ///< gives an output or a gradient to a stage of the same rank
  send,
  receive,
  wait_send,
  wait_receive,
  exchange,      ///< its parts, sends and receives, begin together
  unshard,       ///< begins to gather the weights of a stage
  wait_unshard,  ///< until they are there
  reshard,       ///< lets them go
  reduce,        ///< gradients of a stage with whole weights, across replicas
  start_reduce,  ///< begins to reduce those of sharded weights, and lets the gathered weights go
  wait_reduce,
  custom,  ///< what the user does instead of an action; its parts are those of the compound
  part,    ///< of a compound that the user does
  other,   ///< does the action as it is: OFFLOAD, RELOAD, RECOMPUTE
};

/// One call of a rank. An exchange, and a compound that the user does, is followed by its parts.
struct rank_call {
  static constexpr std::uint32_t none = 0xffffffff;

  call_kind kind = call_kind::other;
  bool from_loss = false;   ///< of a backward pass: its gradients come from the loss
  bool last = false;        ///< of a backward pass: the last that the stage has, in all its microbatches
  std::uint16_t parts = 0;  ///< how many calls after it are its parts
  action of = {};           ///< which stage and microbatch, and of a message or what is handed over its peer
  std::uint32_t divisor = 1;   ///< of `reduce` and `wait_reduce`: what gradients are divided by
  std::uint32_t begun = none;  ///< of a wait: the number of the call that began what it waits for
  std::uint32_t cell = 0;      ///< of the list: which it was made for

  bool operator==(rank_call const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

/// Whether it is a pass of a stage.
constexpr bool is_pass(call_kind k) {
  return k == call_kind::forward || k == call_kind::backward || k == call_kind::backward_input ||
         k == call_kind::backward_weight;
}

/// Whether it waits for what another call began.
constexpr bool is_wait(call_kind k) {
  return k == call_kind::wait_send || k == call_kind::wait_receive || k == call_kind::wait_unshard ||
         k == call_kind::wait_reduce;
}

inline constexpr std::array<std::string_view, 21> call_names = {
    "forward", "backward",    "backward_input", "backward_weight", "loss",   "release", "local",
    "send",    "recv",        "wait send",      "wait recv",       "batch",  "unshard", "wait unshard",
    "reshard", "reduce_grad", "start_reduce",   "wait_reduce",     "custom", "",        ""};

}  // namespace cleave::detail

namespace cleave {

/// As a trace of PyTorch's runtime is written; empty where the action says all.
constexpr std::string_view name_of(call_kind k) { return detail::call_names[static_cast<std::size_t>(k)]; }

}  // namespace cleave

namespace cleave::detail {

/// `F0 stage 1->2` of what is sent, `F0 stage 2<-1` of what is received.
inline std::string message_text(action const& a) {
  auto const kind = is_activation_message(a.kind) ? "F" : "B";
  return kind + std::to_string(index(a.microbatch)) + " stage " + std::to_string(index(a.stage)) +
         (is_receive(a.kind) ? "<-" : "->") + std::to_string(index(a.peer));
}

/// What stands after the name of a call that has no parts.
inline std::string call_object_text(rank_call const& call) {
  using enum call_kind;
  auto stage = std::to_string(index(call.of.stage));
  auto const microbatch = std::to_string(index(call.of.microbatch));
  switch (call.kind) {
    case loss:
      return stage + "." + microbatch;
    case hand_over:
      return (is_activation_message(call.of.kind) ? "F" : "B") + microbatch + " " + stage + "=>" +
             std::to_string(index(call.of.peer));
    case send:
    case receive:
    case wait_send:
    case wait_receive:
      return message_text(call.of);
    case unshard:
    case wait_unshard:
    case reshard:
    case start_reduce:
      return stage;
    case reduce:
    case wait_reduce:
      return stage + " /" + std::to_string(call.divisor);
    case custom:
    case part:
    case other:
      return action_text(call.of);
    default:
      return stage + " " + microbatch + (call.from_loss ? " loss" : "") + (call.last ? " last" : "");
  }
}

/// One call and its parts as text: `forward 1 0`, `backward 1 3 loss last`, `wait recv F0 stage 1<-0`,
/// `reduce_grad 1 /4`, `batch[send F1 stage 0->1; recv B0 stage 0<-1]`, `custom (0F3;3B1)OVERLAP_F_B`.
inline std::string call_text(rank_call const& call, std::span<rank_call const> parts = {}) {
  std::string text(name_of(call.kind));
  if (call.kind == call_kind::exchange) {
    for (auto const& p : parts) text += (&p == parts.data() ? "[" : "; ") + call_text(p);
    return text + "]";
  }
  if (!text.empty()) text += " ";
  if (parts.empty()) return text + call_object_text(call);
  std::vector<action> cell;
  for (auto const& p : parts) cell.push_back(p.of);
  return text + cell_text(call.of, cell);
}

}  // namespace cleave::detail

namespace cleave {

/// A line for each call; parts stand in the line of their head. O(calls).
inline std::vector<std::string> call_lines(std::span<rank_call const> calls) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < calls.size(); i += std::size_t{1} + calls[i].parts)
    lines.push_back(detail::call_text(calls[i], calls.subspan(i + 1, calls[i].parts)));
  return lines;
}

}  // namespace cleave
