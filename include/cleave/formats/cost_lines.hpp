// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/bytes.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/nearest_names.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/formats/cost_table.hpp"
#include "cleave/schedule/model/stage_cost.hpp"

namespace cleave {

/// Where in lines of costs something is wrong, both from 1; field 0 is the line as a whole.
struct cost_place {
  std::size_t line = 0, field = 0;

  bool operator==(cost_place const&) const = default;
};

/// A line of costs that says no costs. The witness: its place.
class cost_line_error : public witness_error<cost_place> {
 public:
  cost_line_error(cost_place at, std::string const& what)
      : witness_error("line " + std::to_string(at.line) +
                          (at.field == 0 ? "" : ", field " + std::to_string(at.field)) + ": " + what,
                      at) {}
};

}  // namespace cleave

namespace cleave::detail {

/// Reads lines of costs; `read_cost_lines` is its one use.
class cost_lines_reader {
 public:
  cost_table read(std::string_view text) {
    while (!text.empty()) {
      auto const end = text.find('\n');
      ++line_;
      line(text.substr(0, end));
      text.remove_prefix(end == text.npos ? text.size() : end + 1);
    }
    if (columns_.empty()) fail(0, "there is no heading; begin with stage,F,B,I,W");
    if (stages_.size() == 0) fail(0, "there are no costs below the heading");
    cost_table table;
    stages_.give_to(table);
    return table;
  }

 private:
  static std::string_view trimmed(std::string_view text) {
    auto const first = text.find_first_not_of(" \t\r");
    return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") + 1 - first);
  }
  [[noreturn]] void fail(std::size_t field, std::string const& what) const {
    throw cost_line_error({line_, field}, what);
  }

  void line(std::string_view text) {
    if (trimmed(text).empty() || trimmed(text).starts_with('#')) return;
    std::vector<std::string_view> fields;
    for (auto rest = text;;) {
      auto const end = rest.find(',');
      fields.push_back(trimmed(rest.substr(0, end)));
      if (end == rest.npos) break;
      rest.remove_prefix(end + 1);
    }
    columns_.empty() ? heading(fields) : costs(fields);
  }

  /// Columns are numbered: the stage, then the times, then the bytes.
  void heading(std::vector<std::string_view> const& fields) {
    std::vector<std::string> known = {"stage"};
    for (auto const name : stated_costs::time_names) known.emplace_back(name);
    for (auto const name : stated_costs::byte_names) known.emplace_back(name);
    for (std::size_t i = 0; i < fields.size(); ++i) {
      auto const column = static_cast<std::size_t>(std::ranges::find(known, fields[i]) - known.begin());
      if (column == known.size())
        fail(i + 1, "no column is called " + quoted(fields[i]) + suggestion(nearest_names(fields[i], known)));
      if (std::ranges::find(columns_, column) != columns_.end())
        fail(i + 1, "the column " + quoted(fields[i]) + " is there twice");
      columns_.push_back(column);
    }
    if (std::ranges::find(columns_, std::size_t{1}) == columns_.end()) fail(0, "there is no column 'F'");
  }

  void costs(std::vector<std::string_view> const& fields) {
    if (fields.size() != columns_.size())
      fail(0, "there are " + std::to_string(fields.size()) + " fields below a heading of " +
                  std::to_string(columns_.size()) + "; give each line as many");
    stated_costs stated;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      auto const column = columns_[i];
      if (column == 0)
        demand_stage(i + 1, fields[i]);
      else if (fields[i].empty())
        continue;
      else if (column <= stated.times.size())
        stated.times[column - 1] = time(i + 1, fields[i]);
      else
        stated.bytes[column - 1 - stated.times.size()] = bytes(i + 1, fields[i]);
    }
    if (!stated.times[0]) fail(0, "it is not said how long F takes");
    stages_.add(stated);
  }

  void demand_stage(std::size_t field, std::string_view text) const {
    if (text != std::to_string(stages_.size()) && !(text == "*" && stages_.size() == 0))
      fail(field, quoted(text) + " stands where stage " + std::to_string(stages_.size()) +
                      " must be; give the stages in order, or '*' for all of them");
  }
  double time(std::size_t field, std::string_view text) const {
    double t = -1;
    auto const [end, fault] = std::from_chars(text.data(), text.data() + text.size(), t);
    if (fault != std::errc() || end != text.data() + text.size() || !(t >= 0 && t <= longest_cost))
      fail(field, quoted(text) + " is no time from 0 to 1e100");
    return t;
  }
  std::uint64_t bytes(std::size_t field, std::string_view text) const {
    auto const n = parse_bytes(text);
    if (!n) fail(field, quoted(text) + " is no number of bytes, as in 4096 or 1.5MiB");
    return *n;
  }

  stage_costs stages_;
  std::vector<std::size_t> columns_;
  std::size_t line_ = 0;
};

/// Costs in lines of fields with commas between them, below a heading that names the columns: `stage`, those
/// of `stated_costs`. `#` begins a line that says nothing, a field may be empty, the stage `*` is all of
/// them. O(size of the text). \throws cost_line_error
inline cost_table read_cost_lines(std::string_view text) { return cost_lines_reader().read(text); }

}  // namespace cleave::detail
