// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/action_text.hpp"

namespace cleave::detail {

/// What becomes of text after an action, as in `1F0junk`. `ignored` is how PyTorch reads.
enum class trailing_text : std::uint8_t { refused, ignored };

/// Reads one cell from its beginning to its end; `append_cell` is its one use.
class cell_reader {
 public:
  cell_reader(std::string_view text, trailing_text trailing) : rest_(trimmed(text)), trailing_(trailing) {}

  std::optional<cell_fault> append(std::vector<action>& to) {
    if (rest_.empty()) to.push_back({});
    if (!rest_.empty() && rest_.front() == '(') return append_compound(to);
    return rest_.empty() ? std::nullopt : append_action(to, rest_);
  }

 private:
  using enum cell_fault::kind;

  static constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static constexpr std::string_view trimmed(std::string_view text) {
    auto const first = text.find_first_not_of(" \t\r\n\f\v");
    if (first == text.npos) return {};
    return text.substr(first, text.find_last_not_of(" \t\r\n\f\v") + 1 - first);
  }
  static cell_fault fault(cell_fault::kind what, std::string_view whole) {
    return {what, std::string(whole)};
  }

  /// The number at the beginning of `text`, which loses it; 2^32 - 1 for what is that large or larger.
  static constexpr std::uint32_t take_number(std::string_view& text) {
    std::uint64_t n = 0;
    while (!text.empty() && is_digit(text.front())) {
      if (n < 0xffffffff) n = n * 10 + static_cast<std::uint64_t>(text.front() - '0');
      text.remove_prefix(1);
    }
    return n < 0xffffffff ? static_cast<std::uint32_t>(n) : 0xffffffff;
  }

  /// The kind with the longest name that `text` begins with; `text` loses it.
  static constexpr std::optional<action_kind> take_kind(std::string_view& text) {
    std::size_t best = 0;
    for (std::size_t k = 1; k < action_names.size(); ++k)
      if (text.starts_with(action_names[k]) && action_names[k].size() > action_names[best].size()) best = k;
    text.remove_prefix(action_names[best].size());
    auto const kind = static_cast<action_kind>(best);
    return kind == action_kind::idle || is_compound({.kind = kind}) ? std::nullopt : std::optional(kind);
  }

  std::optional<cell_fault> append_action(std::vector<action>& to, std::string_view text) const {
    auto const whole = text;
    if (!is_digit(text.front())) return fault(stage_missing, whole);
    action a;
    a.stage = stage_id{take_number(text)};
    auto const kind = take_kind(text);
    if (!kind) return fault(unknown_kind, whole);
    a.kind = *kind;
    bool huge = a.stage == no_stage;
    if (!text.empty() && is_digit(text.front())) {
      a.microbatch = microbatch_id{take_number(text)};
      huge |= a.microbatch == no_microbatch;
    }
    a.peer = chain_peer(a.kind, a.stage);
    if ((is_message(a.kind) || is_about_tie(a.kind)) && text.size() > 1 && text[0] == '@' &&
        is_digit(text[1])) {
      text.remove_prefix(1);
      a.peer = stage_id{take_number(text)};
      huge |= a.peer == no_stage;
    }
    if (huge) return fault(too_large, whole);
    if (!text.empty() && trailing_ == trailing_text::refused) return fault(more_text, whole);
    to.push_back(a);
    return std::nullopt;
  }

  std::optional<cell_fault> append_compound(std::vector<action>& to) const {
    auto const close = rest_.find(')');
    if (close == rest_.npos) return fault(not_closed, rest_);
    auto const head = to.size();
    auto const name = rest_.substr(close + 1);
    auto const kind = find_action_kind(name);
    to.push_back({kind.value_or(action_kind::overlap), 0, no_stage, no_microbatch, no_stage});
    for (auto parts = rest_.substr(1, close - 1);;) {
      auto const end = parts.find(';');
      auto const part = trimmed(parts.substr(0, end));
      if (part.empty()) return fault(empty_part, rest_);
      if (to.size() - head > 0xffff) return fault(too_many_parts, rest_);
      if (auto f = append_action(to, part)) return f;
      if (end == parts.npos) break;
      parts.remove_prefix(end + 1);
    }
    if (!kind) return fault(unknown_kind, name);
    to[head].parts = static_cast<std::uint16_t>(to.size() - head - 1);
    return std::nullopt;
  }

  std::string_view rest_;
  trailing_text trailing_;
};

/// Appends what a cell says: an action, a compound and its parts, or an idle step where it is blank. On a
/// fault, whose row and column are 0, `to` is as before. O(size of the cell).
inline std::optional<cell_fault> append_cell(std::vector<action>& to, std::string_view cell,
                                             trailing_text trailing = trailing_text::refused) {
  auto const before = to.size();
  auto fault = cell_reader(cell, trailing).append(to);
  if (fault) to.resize(before);
  return fault;
}

/// The actions of one cell. \throws cell_error
inline std::vector<action> read_cell(std::string_view cell, trailing_text trailing = trailing_text::refused) {
  std::vector<action> actions;
  if (auto fault = append_cell(actions, cell, trailing)) throw cell_error(*fault);
  return actions;
}

}  // namespace cleave::detail

namespace cleave {

/// The list that `text` writes, cells with commas between them; empty for an empty text. `row` is its number
/// in an error. \throws cell_error
inline std::vector<action> read_row(std::string_view text, std::size_t row = 0) {
  std::vector<action> actions;
  if (text.empty()) return actions;
  for (std::size_t column = 0;; ++column) {
    auto const end = text.find(',');
    if (auto fault = detail::append_cell(actions, text.substr(0, end))) {
      fault->row = row;
      fault->column = column;
      throw cell_error(*fault);
    }
    if (end == text.npos) return actions;
    text.remove_prefix(end + 1);
  }
}

}  // namespace cleave
