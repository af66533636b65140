// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "cleave/core/ids.hpp"

namespace cleave {

/// What a rank does at one point of its list. The names in text are those of PyTorch's schedules; EXCHANGE
/// and what comes after it are cleave's own.
enum class action_kind : std::uint8_t {
  idle,             ///< a step in which the rank waits; written as an empty cell
  forward,          ///< F
  backward,         ///< B: gradients of inputs and of weights
  input_gradient,   ///< I: the half of B that the stage before waits for
  weight_gradient,  ///< W: the other half
  send_activation,
  receive_activation,
  wait_send_activation,  ///< until the memory of what was sent may be used again
  send_gradient,
  receive_gradient,
  wait_send_gradient,
  unshard,  ///< gathers the weights of a stage
  reshard,  ///< lets them go
  reduce_gradient,
  wait_reduce_gradient,
  overlap,     ///< a compound: its parts run as one
  exchange,    ///< a compound of messages, which begin together
  offload,     ///< moves what the forward pass keeps for a microbatch out of the device
  reload,      ///< and back
  recompute,   ///< runs a forward pass again, for what its backward pass needs
  reduce_tie,  ///< begins to sum the gradients of what several stages hold
  wait_reduce_tie,
};

}  // namespace cleave

namespace cleave::detail {

inline constexpr std::array<std::string_view, 22> action_names = {"",
                                                                  "F",
                                                                  "B",
                                                                  "I",
                                                                  "W",
                                                                  "SEND_F",
                                                                  "RECV_F",
                                                                  "WAIT_SEND_F",
                                                                  "SEND_B",
                                                                  "RECV_B",
                                                                  "WAIT_SEND_B",
                                                                  "UNSHARD",
                                                                  "RESHARD",
                                                                  "REDUCE_GRAD",
                                                                  "WAIT_REDUCE_GRAD",
                                                                  "OVERLAP_F_B",
                                                                  "EXCHANGE",
                                                                  "OFFLOAD",
                                                                  "RELOAD",
                                                                  "RECOMPUTE",
                                                                  "REDUCE_TIE",
                                                                  "WAIT_REDUCE_TIE"};

}  // namespace cleave::detail

namespace cleave {

/// As PyTorch writes it: `F`, `SEND_B`; empty for an idle step.
constexpr std::string_view name_of(action_kind k) { return detail::action_names[static_cast<std::size_t>(k)]; }

}  // namespace cleave

namespace cleave::detail {

inline constexpr stage_id no_stage{0xffffffff};

}  // namespace cleave::detail

namespace cleave {

inline constexpr microbatch_id no_microbatch{0xffffffff};

/// One action. What has several stages, a compound, is a head followed by its parts in the same list.
struct action {
  action_kind kind = action_kind::idle;
  std::uint16_t parts = 0;  ///< of a compound: how many actions after it are its parts
  stage_id stage = detail::no_stage;
  microbatch_id microbatch = no_microbatch;  ///< none where the action is about a whole stage
  /// Of a message: the stage at its other end. Of a tie: the next of its stages, the first after the last.
  stage_id peer = detail::no_stage;

  bool operator==(action const&) const = default;
};

/// F, B, I or W.
constexpr bool is_compute(action_kind k) {
  return k >= action_kind::forward && k <= action_kind::weight_gradient;
}

}  // namespace cleave

namespace cleave::detail {

constexpr bool is_send(action_kind k) {
  return k == action_kind::send_activation || k == action_kind::send_gradient;
}
constexpr bool is_receive(action_kind k) {
  return k == action_kind::receive_activation || k == action_kind::receive_gradient;
}
constexpr bool is_wait_send(action_kind k) {
  return k == action_kind::wait_send_activation || k == action_kind::wait_send_gradient;
}
/// A send, a receive or the wait for a send.
constexpr bool is_message(action_kind k) {
  return k >= action_kind::send_activation && k <= action_kind::wait_send_gradient;
}
/// Whether it moves what a forward pass made; the other messages move gradients.
constexpr bool is_activation_message(action_kind k) {
  return k >= action_kind::send_activation && k <= action_kind::wait_send_activation;
}
/// Whether an action of this kind is about one microbatch.
constexpr bool has_microbatch(action_kind k) {
  return is_compute(k) || is_message(k) || (k >= action_kind::offload && k <= action_kind::recompute);
}
/// Whether an action of this kind is about a tie.
constexpr bool is_about_tie(action_kind k) { return k >= action_kind::reduce_tie; }

/// Whether it is the head of a compound: nothing is done but its parts.
constexpr bool is_compound(action const& a) {
  return a.parts > 0 || a.kind == action_kind::overlap || a.kind == action_kind::exchange;
}

}  // namespace cleave::detail

namespace cleave {

/// `f(head, parts)` for each cell of a list, in order; an action that is no compound has no parts.
/// O(actions).
template <class F>
constexpr void each_cell(std::span<action const> row, F f) {
  for (std::size_t i = 0; i < row.size(); i += std::size_t{1} + row[i].parts)
    f(row[i], row.subspan(i + 1, row[i].parts));
}

/// `f(action)` for each thing that is done, in order: parts instead of their compound, no idle steps.
template <class F>
constexpr void each_action(std::span<action const> row, F f) {
  for (action const& a : row)
    if (a.kind != action_kind::idle && !detail::is_compound(a)) f(a);
}

}  // namespace cleave
