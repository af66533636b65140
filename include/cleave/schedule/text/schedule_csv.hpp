// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
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
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::inline v0_2::detail {

/// The treatment of text after an action, as in `1F0junk`. PyTorch ignores it.
enum class trailing_text : std::uint8_t { refused, ignored };

/// Reads one cell, for `append_cell`.
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

  /// Removes the number at the beginning of `text` and returns it; 2^32 - 1 if it is that large or larger.
  static constexpr std::uint32_t take_number(std::string_view& text) {
    std::uint64_t n = 0;
    while (!text.empty() && is_digit(text.front())) {
      if (n < 0xffffffff) n = n * 10 + static_cast<std::uint64_t>(text.front() - '0');
      text.remove_prefix(1);
    }
    return n < 0xffffffff ? static_cast<std::uint32_t>(n) : 0xffffffff;
  }

  /// Removes the longest action name at the beginning of `text` and returns its kind, or nothing if none
  /// matches.
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
    if ((is_message(a.kind) || is_tied_reduction(a.kind)) && text.size() > 1 && text[0] == '@' &&
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

/// Appends the contents of a cell: an action, a compound and its parts, or an idle step if it is blank. On a
/// fault, `to` is unchanged; row and column of the fault are 0. O(size of the cell).
inline std::optional<cell_fault> append_cell(std::vector<action>& to, std::string_view cell,
                                             trailing_text trailing = trailing_text::refused) {
  auto const before = to.size();
  auto fault = cell_reader(cell, trailing).append(to);
  if (fault) to.resize(before);
  return fault;
}

/// Returns the actions of one cell. \throws cell_error
inline std::vector<action> read_cell(std::string_view cell, trailing_text trailing = trailing_text::refused) {
  std::vector<action> actions;
  if (auto fault = append_cell(actions, cell, trailing)) throw cell_error(*fault);
  return actions;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Reads a list from text: cells separated by commas. An empty text is an empty list. `row` is the number of
/// the list in an error. O(size of the text). \throws cell_error
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

/// The kinds of actions that a list may hold: passes and idle steps, or all kinds of a lowered schedule but
/// no idle steps.
enum class row_contents : std::uint8_t { compute_only, with_communication };

/// The required counts; 0 means the count found in the lists.
struct row_counts {
  std::uint32_t ranks = 0, stages = 0, microbatches = 0;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A reason why lists are not a schedule, and its place.
struct row_fault {
  static constexpr char subject[] = "schedule: ";
  enum class kind : std::uint8_t {
    rank_count,               ///< `got` lists instead of `needed`
    communication,            ///< a message or other non-pass in a list of passes only
    idle,                     ///< an idle step in a lowered list
    microbatch_missing,       ///< an action that needs a microbatch has none
    microbatch_out_of_range,  ///< microbatch `got`, but there are only `needed`
    stage_out_of_range,       ///< stage `got`, but there are only `needed`
    stage_on_two_ranks,       ///< stage `got` has actions on rank `needed` too
    stage_on_no_rank,         ///< stage `got` has no action
  };
  kind what;
  std::size_t row = 0, column = 0;  ///< position of the cell, from 0, if the fault has one
  std::string token = {};           ///< the text of the cell
  std::uint64_t got = 0, needed = 0;

  bool operator==(row_fault const&) const = default;
};

/// Returns a sentence that names the fault, its place and a remedy.
inline std::string describe(row_fault const& f) {
  using enum row_fault::kind;
  auto const got = std::to_string(f.got), needed = std::to_string(f.needed);
  auto const at = "row #" + std::to_string(f.row) + ", column #" + std::to_string(f.column) + ": " +
                  quoted(f.token) + " ";
  switch (f.what) {
    case rank_count:
      return "there are " + got + " rows for " + needed + " ranks; a blank line is a row too";
    case communication:
      return at + "is not a pass; read the text as a schedule with communication";
    case idle:
      return at + "is an idle step; remove it from the schedule with communication";
    case microbatch_missing:
      return at + "has no microbatch; write its number after the kind";
    case microbatch_out_of_range:
      return at + "names microbatch " + got + ", but there are only " + needed;
    case stage_out_of_range:
      return at + "names stage " + got + ", but there are only " + needed;
    case stage_on_two_ranks:
      return at + "names stage " + got + ", which is on rank " + needed + " too";
    case stage_on_no_rank:
      return "stage " + got + " is on no rank";
  }
  return {};
}

using row_error = fault_error<row_fault>;

/// Checks every cell once, for `find_row_fault` and `schedule_from_rows`.
class row_validator {
 public:
  row_validator(std::span<std::vector<action> const> rows, row_contents contents, row_counts const& counts)
      : contents_(contents), counts_(counts) {
    if (counts.ranks != 0 ? rows.size() != counts.ranks : rows.empty()) {
      fault = row_fault{row_fault::kind::rank_count, 0, 0, {}, rows.size(), counts.ranks};
      return;
    }
    for (auto const& row : rows) actions_ += row.size();
    for (std::size_t r = 0; r < rows.size() && !fault; ++r)
      each_cell(rows[r],
                [&, column = std::size_t{0}](action const& a, std::span<action const> parts) mutable {
                  if (!fault) look_at(a, parts, r, column++);
                });
    if (fault) return;
    auto const missing = std::ranges::find(rank_of, no_rank);
    if (missing != rank_of.end() || rank_of.size() < counts.stages)
      fault = row_fault{row_fault::kind::stage_on_no_rank,
                        0,
                        0,
                        {},
                        static_cast<std::uint64_t>(missing - rank_of.begin()),
                        counts.stages};
  }

  std::optional<row_fault> fault;
  std::vector<rank_id> rank_of;  ///< by stage, up to the largest stage number found
  std::uint32_t microbatches = 0;

 private:
  static constexpr rank_id no_rank{0xffffffff};
  using enum row_fault::kind;

  void look_at(action const& head, std::span<action const> parts, std::size_t row, std::size_t column) {
    auto const report = [&](row_fault::kind what, std::uint64_t got = 0, std::uint64_t needed = 0) {
      fault = row_fault{what, row, column, cell_text(head, parts), got, needed};
    };
    bool const lowered = contents_ == row_contents::with_communication;
    if (head.kind == action_kind::idle) return void(lowered ? report(idle) : void());
    for (action const& a : parts.empty() ? std::span(&head, 1) : parts) {
      if (!lowered && !is_compute(a.kind)) return report(communication);
      if (has_microbatch(a.kind) && a.microbatch == no_microbatch) return report(microbatch_missing);
      if (a.microbatch != no_microbatch) {
        if (counts_.microbatches != 0 && index(a.microbatch) >= counts_.microbatches)
          return report(microbatch_out_of_range, index(a.microbatch), counts_.microbatches);
        microbatches = (std::max)(microbatches, index(a.microbatch) + 1);
      }
      std::uint32_t const s = index(a.stage);
      if (counts_.stages != 0 && s >= counts_.stages) return report(stage_out_of_range, s, counts_.stages);
      // Each stage has an action, so with a larger number some lower stage would have none.
      if (s >= actions_) return report(stage_out_of_range, s, actions_);
      if (s >= rank_of.size()) rank_of.resize(std::size_t{s} + 1, no_rank);
      auto& rank = rank_of[s];
      if (rank == no_rank) rank = rank_id{static_cast<std::uint32_t>(row)};
      if (index(rank) != row) return report(stage_on_two_ranks, s, index(rank));
    }
  }

  row_contents contents_;
  row_counts counts_;
  std::size_t actions_ = 0;
};

/// Returns the first reason why lists are not a schedule, or nothing. Checks only the ranges of stages, ranks
/// and microbatches, not the order of actions or that each is done once. O(actions).
inline std::optional<row_fault> find_row_fault(std::span<std::vector<action> const> rows,
                                               row_contents contents = row_contents::compute_only,
                                               row_counts const& counts = {}) {
  return row_validator(rows, contents, counts).fault;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the lists, one per rank, as a schedule of a chain of stages. Each stage is placed on the rank
/// whose list has its actions. O(actions). \throws row_error
inline schedule schedule_from_rows(std::vector<std::vector<action>> rows,
                                   row_contents contents = row_contents::compute_only,
                                   row_counts const& counts = {}) {
  detail::row_validator analysis(rows, contents, counts);
  if (analysis.fault) throw detail::row_error(*analysis.fault);
  auto const stages = static_cast<std::uint32_t>(analysis.rank_of.size());
  auto const ranks = static_cast<std::uint32_t>(rows.size());
  return {{ranks, std::move(analysis.rank_of), chain_edges(stages)},
          counts.microbatches != 0 ? counts.microbatches : analysis.microbatches,
          std::move(rows)};
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the format with PyTorch's name for it, `compute_only` or `compute_comms`, or nothing.
constexpr std::optional<row_contents> find_csv_format(std::string_view name) {
  if (name == "compute_only") return row_contents::compute_only;
  if (name == "compute_comms") return row_contents::with_communication;
  return std::nullopt;
}

/// Thrown for a name that is not a format. The witness is the name.
using csv_format_error = tagged_error<struct csv_format_tag, std::string>;

/// Returns the format called `compute_only` or `compute_comms`. \throws csv_format_error
inline row_contents csv_format_of(std::string_view name) {
  if (auto const format = find_csv_format(name)) return *format;
  throw csv_format_error(
      "no format of schedules is called " + quoted(name) + "; use 'compute_only' or 'compute_comms'",
      std::string(name));
}

/// Returns the lists as CSV, one line per rank, ended by CR LF, as PyTorch's `_dump_csv` writes it.
/// O(actions).
inline std::string csv_text(std::span<std::vector<action> const> rows) {
  std::string text;
  for (auto const& row : rows) {
    bool const one_idle_step = row.size() == 1 && row[0].kind == action_kind::idle;
    text += one_idle_step ? "\"\"" : row_text(row);  // a blank line would be an empty list
    text += "\r\n";
  }
  return text;
}

/// Reads lists from CSV, for `read_csv_rows`.
class csv_rows_reader {
 public:
  explicit csv_rows_reader(std::string_view text) : rest_(text) {}

  std::vector<std::vector<action>> take() {
    std::vector<std::vector<action>> rows;
    while (!rest_.empty()) {
      auto& row = rows.emplace_back();
      if (take_line_end()) continue;
      for (std::size_t column = 0;; ++column) {
        if (auto fault = append_cell(row, take_cell(rows.size() - 1, column))) {
          fault->row = rows.size() - 1;
          fault->column = column;
          throw cell_error(*fault);
        }
        if (rest_.empty() || take_line_end()) break;
        rest_.remove_prefix(1);  // a comma
      }
    }
    return rows;
  }

 private:
  bool take_line_end() {
    auto const size = rest_.starts_with("\r\n")                            ? 2u
                      : rest_.starts_with('\n') || rest_.starts_with('\r') ? 1u
                                                                           : 0u;
    rest_.remove_prefix(size);
    return size > 0;
  }

  /// Takes the text up to a comma or the end of the line. Within quotes, both are ordinary text, and two
  /// quotes stand for one.
  std::string_view take_cell(std::size_t row, std::size_t column) {
    if (!rest_.starts_with('"')) return take(rest_.find_first_of(",\r\n"));
    unquoted_.clear();
    auto const whole = rest_;
    for (rest_.remove_prefix(1); !rest_.starts_with('"') || rest_.starts_with("\"\"");) {
      if (rest_.empty()) throw cell_error({cell_fault::kind::not_closed, std::string(whole), row, column});
      unquoted_ += rest_.front();
      rest_.remove_prefix(rest_.front() == '"' ? 2 : 1);
    }
    rest_.remove_prefix(1);
    unquoted_ += take(rest_.find_first_of(",\r\n"));
    return unquoted_;
  }
  std::string_view take(std::size_t size) {
    auto const taken = rest_.substr(0, size);
    rest_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view rest_;
  std::string unquoted_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Reads the lists from CSV: one line per rank, a blank line for an empty list. O(size of the text).
/// \throws cell_error with the row and column of the cell that is not an action
inline std::vector<std::vector<action>> read_csv_rows(std::string_view text) {
  return detail::csv_rows_reader(text).take();
}

/// Reads a schedule of a chain of stages from PyTorch's CSV. Does not check that each action is done once and
/// in order; `schedule_faults` does. O(size of the text). \throws cell_error, row_error
inline schedule read_schedule_csv(std::string_view text, row_contents contents = row_contents::compute_only,
                                  row_counts const& counts = {}) {
  return schedule_from_rows(read_csv_rows(text), contents, counts);
}

/// Returns a schedule as PyTorch's CSV. O(actions).
inline std::string schedule_csv(schedule const& s) { return detail::csv_text(s.ranks); }

}  // namespace cleave
