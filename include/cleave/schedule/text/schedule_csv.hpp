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
#include "cleave/core/printable.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/action_text.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/text/read_cells.hpp"
#include "cleave/schedule/text/schedule_from_rows.hpp"

namespace cleave::detail {

/// `compute_only` or `compute_comms`, as PyTorch calls them.
constexpr std::optional<row_contents> find_csv_format(std::string_view name) {
  if (name == "compute_only") return row_contents::compute_only;
  if (name == "compute_comms") return row_contents::with_communication;
  return std::nullopt;
}

/// A name that no format has. The witness: the name.
class csv_format_error : public witness_error<std::string> {
 public:
  explicit csv_format_error(std::string_view name)
      : witness_error("no format of schedules is called " + quoted(name) +
                          "; there are 'compute_only' and 'compute_comms'",
                      std::string(name)) {}
};

/// \throws csv_format_error
inline row_contents csv_format_of(std::string_view name) {
  if (auto const format = find_csv_format(name)) return *format;
  throw csv_format_error(name);
}

/// Lists as CSV, one line a rank, ended by CR LF, as PyTorch's `_dump_csv` writes it. O(actions).
inline std::string csv_text(std::span<std::vector<action> const> rows) {
  std::string text;
  for (auto const& row : rows) {
    bool const one_idle_step = row.size() == 1 && row[0].kind == action_kind::idle;
    text += one_idle_step ? "\"\"" : row_text(row);  // a blank line would be an empty list
    text += "\r\n";
  }
  return text;
}

/// Takes lists out of CSV; `read_csv_rows` is its one use.
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

  /// Up to a comma or the end of the line. In quotes both are text, and two quotes are one.
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

namespace cleave {

/// The lists of CSV: a line a rank, a blank line for an empty list. O(size of the text).
/// \throws cell_error with row and column of what is no action
inline std::vector<std::vector<action>> read_csv_rows(std::string_view text) {
  return detail::csv_rows_reader(text).take();
}

/// A schedule from PyTorch's CSV, stages in a chain. Whether everything in it is done once and in order is
/// asked elsewhere. O(size of the text). \throws cell_error, row_error
inline schedule read_schedule_csv(std::string_view text, row_contents contents = row_contents::compute_only,
                                  row_counts const& counts = {}) {
  return schedule_from_rows(read_csv_rows(text), contents, counts);
}

/// A schedule as PyTorch's CSV. O(actions).
inline std::string schedule_csv(schedule const& s) { return detail::csv_text(s.ranks); }

}  // namespace cleave
