// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/formats/stage_map_json.hpp>
#include <string>
#include <string_view>

#include "bench_row.hpp"
#include "files.hpp"

/// By what the tool knows the text of a file that it has written: what of an earlier run a new one replaces.
namespace tool {

/// What other programs write too: a part in each line; a schedule in PyTorch's CSV or in JSON.
inline constexpr char part_list_form[] = "parts", schedule_form[] = "schedule";

/// A page of HTML or a picture in SVG, by `write_page`.
inline bool is_own_page(std::string const& text) { return text.ends_with(page_mark); }

inline bool is_own_stage_map(std::string const& text) {
  return text.starts_with('{') && text.substr(0, 100).find(cleave::stage_map_json_format) != text.npos;
}

/// Rows of a bench, the last one whole.
inline bool is_own_bench_table(std::string const& text) {
  return text.starts_with(std::string(bench_columns) + "\n") && text.ends_with('\n');
}

/// What `cleave schedule` and `cleave simulate` draw, and their traces; CSV and JSON have the
/// `schedule_form`.
inline bool is_own_schedule_output(std::string const& text) {
  auto const second = text.substr(std::min(text.find('\n'), text.size()), 30);
  return second.starts_with("\n  the step takes ") || is_own_page(text) ||
         text.starts_with(R"({"displayTimeUnit":"ms","otherData":{"schedule":)");
}

}  // namespace tool
