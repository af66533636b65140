// SPDX-License-Identifier: MIT
#pragma once
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
#include "cleave/schedule/model/action.hpp"

namespace cleave::detail {

/// The kind that is called so, case and all; an idle step has no name.
constexpr std::optional<action_kind> find_action_kind(std::string_view name) {
  for (std::size_t k = 1; k < action_names.size(); ++k)
    if (action_names[k] == name) return static_cast<action_kind>(k);
  return std::nullopt;
}

/// The stage at the other end of a message of `kind` in a chain; none for other kinds, and before the first
/// stage.
constexpr stage_id chain_peer(action_kind kind, stage_id s) {
  if (!is_message(kind) || s == no_stage) return no_stage;
  bool const to_next = is_receive(kind) != is_activation_message(kind);
  if (!to_next) return index(s) == 0 ? no_stage : stage_id{index(s) - 1};
  return stage_id{index(s) + 1};
}

/// Appends `0F3`, `1UNSHARD`, or `1SEND_F0@3` where the peer is not the neighbour in the chain.
inline void append_text(std::string& to, action const& a) {
  if (a.stage != no_stage) to += std::to_string(index(a.stage));
  to += name_of(a.kind);
  if (a.microbatch != no_microbatch) to += std::to_string(index(a.microbatch));
  if (a.peer != no_stage && a.peer != chain_peer(a.kind, a.stage)) to += '@' + std::to_string(index(a.peer));
}

/// Appends a cell: an action, or a compound as `(0F3;3B1)OVERLAP_F_B`; nothing for an idle step.
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

namespace cleave {

inline std::string action_text(action const& a) {
  std::string text;
  detail::append_text(text, a);
  return text;
}

inline std::string cell_text(action const& head, std::span<action const> parts) {
  std::string text;
  detail::append_cell_text(text, head, parts);
  return text;
}

/// The cells of a list with commas between them.
inline std::string row_text(std::span<action const> row) {
  std::string text;
  bool first = true;
  each_cell(row, [&](action const& head, std::span<action const> parts) {
    if (!std::exchange(first, false)) text += ',';
    detail::append_cell_text(text, head, parts);
  });
  return text;
}

/// Why a cell of text is no action, and where.
struct cell_fault {
  enum class kind : std::uint8_t {
    stage_missing,  ///< it does not begin with the number of a stage
    unknown_kind,   ///< no kind of action is called so
    too_large,      ///< a number that no stage or microbatch has
    more_text,      ///< something follows the action
    not_closed,     ///< a parenthesis or a quotation is not closed
    empty_part,     ///< a compound without parts, or with a part that is empty
    too_many_parts  ///< of one compound
  };
  kind what;
  std::string token;                ///< what is wrong as it stands there, one part of a compound at most
  std::size_t row = 0, column = 0;  ///< of the cell, both from 0

  bool operator==(cell_fault const&) const = default;
};

/// What, where and how to mend it.
inline std::string describe(cell_fault const& f) {
  using enum cell_fault::kind;
  auto const at = "row #" + std::to_string(f.row) + ", column #" + std::to_string(f.column) + ": " +
                  quoted(f.token) + " ";
  switch (f.what) {
    case stage_missing:
      return at + "does not begin with a stage; write stage, kind and microbatch, as in 2F0";
    case unknown_kind:
      return at + "names no kind of action; write F, B, I, W or another of the table, in capitals";
    case too_large:
      return at + "has a number that is too large for a stage or microbatch";
    case more_text:
      return at + "goes on after the action; write one action a cell";
    case not_closed:
      return at + "opens a compound or a quotation and does not close it";
    case empty_part:
      return at + "is a compound with nothing in it; write (0F3;3B1)OVERLAP_F_B";
    case too_many_parts:
      return at + "is a compound of more than 65,535 parts";
  }
  return {};
}

class cell_error : public witness_error<cell_fault> {
 public:
  explicit cell_error(cell_fault f) : witness_error("schedule text: " + describe(f), f) {}
};

}  // namespace cleave
