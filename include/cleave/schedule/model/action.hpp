// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"

namespace cleave::inline v0_2 {

/// The kind of an action in a rank's list. Names in text are those of PyTorch's schedules. EXCHANGE and the
/// kinds after it are cleave's own.
enum class action_kind : std::uint8_t {
  idle,             ///< the rank idles for one step; written as an empty cell
  forward,          ///< F
  backward,         ///< B: gradients of both inputs and weights
  input_gradient,   ///< I: the half of B that the previous stage waits for
  weight_gradient,  ///< W: the other half
  send_activation,
  receive_activation,
  wait_send_activation,  ///< blocks until the memory of the sent value may be reused
  send_gradient,
  receive_gradient,
  wait_send_gradient,
  unshard,  ///< gathers the weights of a stage
  reshard,  ///< frees the gathered weights of a stage
  reduce_gradient,
  wait_reduce_gradient,
  overlap,     ///< a compound: its parts run as one action
  exchange,    ///< a compound of messages that begin together
  offload,     ///< moves the saved activations of a microbatch off the device
  reload,      ///< moves them back
  recompute,   ///< runs a forward pass again to restore its saved activations
  reduce_tie,  ///< begins to sum the gradients of parameters that several stages hold
  wait_reduce_tie,
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

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

namespace cleave::inline v0_2 {

/// Returns the name as PyTorch writes it, such as `F` or `SEND_B`. The name of an idle step is empty.
constexpr std::string_view name_of(action_kind k) {
  return detail::action_names[static_cast<std::size_t>(k)];
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

inline constexpr stage_id no_stage{0xffffffff};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

inline constexpr microbatch_id no_microbatch{0xffffffff};

/// One action in the list of a rank. A compound is stored as a head, followed in the same list by its parts.
struct action {
  action_kind kind = action_kind::idle;
  std::uint16_t parts = 0;  ///< of a compound: how many of the following actions are its parts
  stage_id stage = detail::no_stage;
  microbatch_id microbatch = no_microbatch;  ///< `no_microbatch` if the action concerns a whole stage
  /// Of a message: the stage at the other end. Of a tie: the next stage of the tie, cyclically.
  stage_id peer = detail::no_stage;

  bool operator==(action const&) const = default;
};

/// Returns true for F, B, I and W.
constexpr bool is_compute(action_kind k) {
  return k >= action_kind::forward && k <= action_kind::weight_gradient;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

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
/// Returns true if the message moves activations. All other messages move gradients.
constexpr bool is_activation_message(action_kind k) {
  return k >= action_kind::send_activation && k <= action_kind::wait_send_activation;
}
/// Returns true if an action of this kind belongs to one microbatch.
constexpr bool has_microbatch(action_kind k) {
  return is_compute(k) || is_message(k) || (k >= action_kind::offload && k <= action_kind::recompute);
}
/// Returns true if an action of this kind belongs to a tie.
constexpr bool is_tied_reduction(action_kind k) { return k >= action_kind::reduce_tie; }

/// Returns true if the action is the head of a compound. The head does nothing but run its parts.
constexpr bool is_compound(action const& a) {
  return a.parts > 0 || a.kind == action_kind::overlap || a.kind == action_kind::exchange;
}

/// Returns the forward pass of a compound, given by its parts, if it overlaps one forward pass F with one
/// backward pass B, in either order. Returns null for any other compound.
constexpr action const* overlapped_forward(std::span<action const> parts) {
  if (parts.size() != 2) return nullptr;
  bool const first = parts[0].kind == action_kind::forward;
  auto const& other = parts[first ? 1 : 0];
  if (other.kind != action_kind::backward) return nullptr;
  auto const& forward = parts[first ? 0 : 1];
  return forward.kind == action_kind::forward ? &forward : nullptr;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Calls `f(head, parts)` for each cell of a list, in order. `parts` is empty unless the cell is a compound.
/// O(actions).
template <class F>
constexpr void each_cell(std::span<action const> row, F f) {
  for (std::size_t i = 0; i < row.size(); i += std::size_t{1} + row[i].parts)
    f(row[i], row.subspan(i + 1, row[i].parts));
}

/// Calls `f(action)` for each action that does something, in order. Skips idle steps; visits the parts of a
/// compound, not its head. O(actions).
template <class F>
constexpr void each_action(std::span<action const> row, F f) {
  for (action const& a : row)
    if (a.kind != action_kind::idle && !detail::is_compound(a)) f(a);
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the kind with this name, or nothing. The match is case-sensitive; an idle step has no name.
constexpr std::optional<action_kind> find_action_kind(std::string_view name) {
  for (std::size_t k = 1; k < action_names.size(); ++k)
    if (action_names[k] == name) return static_cast<action_kind>(k);
  return std::nullopt;
}

/// Returns the stage at the other end of a message of `kind` in a chain of stages. Returns `no_stage` for
/// other kinds, and where the peer would precede the first stage.
constexpr stage_id chain_peer(action_kind kind, stage_id s) {
  if (!is_message(kind) || s == no_stage) return no_stage;
  bool const to_next = is_receive(kind) != is_activation_message(kind);
  if (!to_next) return index(s) == 0 ? no_stage : stage_id{index(s) - 1};
  return stage_id{index(s) + 1};
}

/// Appends the action as text: `0F3`, `1UNSHARD`, or `1SEND_F0@3` if the peer is not the neighbour in the
/// chain.
inline void append_text(std::string& to, action const& a) {
  if (a.stage != no_stage) to += std::to_string(index(a.stage));
  to += name_of(a.kind);
  if (a.microbatch != no_microbatch) to += std::to_string(index(a.microbatch));
  if (a.peer != no_stage && a.peer != chain_peer(a.kind, a.stage)) to += '@' + std::to_string(index(a.peer));
}

/// Appends a cell as text: an action, or a compound as `(0F3;3B1)OVERLAP_F_B`. Appends nothing for an idle
/// step.
inline void append_cell_text(std::string& to, action const& head, std::span<action const> parts) {
  if (!parts.empty()) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      to += i == 0 ? '(' : ';';
      append_text(to, parts[i]);
    }
    to += ')';
  }
  append_text(to, head);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the text of one action, such as `0F3`.
inline std::string action_text(action const& a) {
  std::string text;
  detail::append_text(text, a);
  return text;
}

/// Returns the text of one cell: an action, a compound as `(0F3;3B1)OVERLAP_F_B`, or nothing for an idle
/// step.
inline std::string cell_text(action const& head, std::span<action const> parts) {
  std::string text;
  detail::append_cell_text(text, head, parts);
  return text;
}

/// Returns the text of a list: its cells, separated by commas.
inline std::string row_text(std::span<action const> row) {
  std::string text;
  bool first = true;
  each_cell(row, [&](action const& head, std::span<action const> parts) {
    if (!std::exchange(first, false)) text += ',';
    detail::append_cell_text(text, head, parts);
  });
  return text;
}

/// A cell of text that cannot be read as an action.
struct cell_fault {
  static constexpr char subject[] = "schedule text: ";
  enum class kind : std::uint8_t {
    stage_missing,  ///< the cell does not begin with a stage number
    unknown_kind,   ///< no kind of action has this name
    too_large,      ///< a stage or microbatch number out of range
    more_text,      ///< text follows the action
    not_closed,     ///< a parenthesis or a quotation mark is not closed
    empty_part,     ///< a compound without parts, or with an empty part
    too_many_parts  ///< a compound of more than 65,535 parts
  };
  kind what;
  std::string token;                ///< the offending text, as written; at most one part of a compound
  std::size_t row = 0, column = 0;  ///< position of the cell, from 0

  bool operator==(cell_fault const&) const = default;
};

/// Returns a sentence that names the fault, its place and a remedy.
inline std::string describe(cell_fault const& f) {
  using enum cell_fault::kind;
  auto const at = "row #" + std::to_string(f.row) + ", column #" + std::to_string(f.column) + ": " +
                  quoted(f.token) + " ";
  switch (f.what) {
    case stage_missing:
      return at + "does not begin with a stage; write stage, kind and microbatch, as in 2F0";
    case unknown_kind:
      return at + "has an unknown kind of action; use F, B, I, W or another kind of the table, in capitals";
    case too_large:
      return at + "has a number that is too large for a stage or microbatch";
    case more_text:
      return at + "has text after the action; write one action per cell";
    case not_closed:
      return at + "has an unclosed parenthesis or quotation mark";
    case empty_part:
      return at + "is a compound with an empty part; write (0F3;3B1)OVERLAP_F_B";
    case too_many_parts:
      return at + "is a compound of more than 65,535 parts";
  }
  return {};
}

using cell_error = fault_error<cell_fault>;

}  // namespace cleave
