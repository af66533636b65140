// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/core/error.hpp>
#include <cleave/formats/json/json_writer.hpp>
#include <cleave/formats/schedule_json.hpp>
#include <cleave/formats/stage_map_json.hpp>
#include <cleave/schedule/text/listed_schedule.hpp>
#include <cleave/schedule/text/schedule_csv.hpp>
#include <string>
#include <string_view>

#include "bench_row.hpp"
#include "files.hpp"

/// By what the tool knows the text of a file that it has written: what of an earlier run a new one replaces.
namespace tool {

/// A page of HTML or a picture in SVG, by `write_page`.
inline bool is_own_page(std::string const& text) { return text.ends_with(page_mark); }

/// A part in each line, and nothing else.
inline bool is_own_part_list(std::string const& text) {
  return text.ends_with('\n') && text.find("\n\n") == text.npos && text.front() != '\n' &&
         std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= '0' && c <= '9'); });
}

inline bool is_own_stage_map(std::string const& text) {
  return text.starts_with('{') && text.substr(0, 100).find(cleave::stage_map_json_format) != text.npos;
}

/// Rows of a bench, the last one whole.
inline bool is_own_bench_table(std::string const& text) {
  return text.starts_with(std::string(bench_columns) + "\n") && text.ends_with('\n');
}

/// A schedule in PyTorch's CSV, letter by letter as it would be written now.
inline bool is_own_schedule_csv(std::string const& text) {
  try {
    return cleave::schedule_csv(cleave::listed_schedule(cleave::read_csv_rows(text), {})) == text;
  } catch (cleave::error const&) {
    return false;
  }
}

/// A schedule in JSON, its members letter by letter as they would be written now.
inline bool is_own_schedule_json(std::string const& text) {
  try {
    cleave::json_writer json;
    json.open_object();
    write_schedule_members(json, cleave::read_schedule_json(text));
    auto const members = json.close_object().text();
    return text.starts_with('{') && text.find(members.substr(1, members.size() - 2)) != text.npos;
  } catch (cleave::error const&) {
    return false;
  }
}

inline bool is_own_schedule(std::string const& text) {
  return is_own_schedule_csv(text) || is_own_schedule_json(text);
}

/// What `cleave schedule` and `cleave simulate` draw or write, in any form.
inline bool is_own_schedule_output(std::string const& text) {
  auto const second = text.substr(std::min(text.find('\n'), text.size()), 30);
  return second.starts_with("\n  the step takes ") || is_own_page(text) ||
         text.starts_with(R"({"displayTimeUnit":"ms","otherData":{"schedule":)") || is_own_schedule(text);
}

}  // namespace tool
