// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/formats/stage_map_json.hpp>
#include <string>
#include <string_view>

#include "bench_row.hpp"
#include "files.hpp"

/// Recognises files that the tool wrote in an earlier run, which a new run may replace.
namespace tool {

/// Forms that other programs write too: lists with one part or position per line, and schedules in PyTorch's
/// CSV or in JSON. Their text cannot tell who wrote it; `is_marked` can.
inline constexpr char part_list_form[] = "parts", order_form[] = "order", schedule_form[] = "schedule";

/// Returns whether `write_page` wrote this HTML page or SVG picture.
inline bool is_own_page(std::string const& text) { return text.ends_with(page_mark); }

inline bool is_own_stage_map(std::string const& text) {
  return text.starts_with('{') && text.substr(0, 100).find(cleave::stage_map_json_format) != text.npos;
}

/// Returns whether this is a table of `cleave bench` whose last row is complete.
inline bool is_own_bench_table(std::string const& text) {
  return text.starts_with(std::string(bench_columns) + "\n") && text.ends_with('\n');
}

/// Returns whether `cleave schedule` or `cleave simulate` wrote this picture, page, trace or text. Their CSV
/// and JSON have the `schedule_form`.
inline bool is_own_schedule_output(std::string const& text) {
  auto const second = text.substr(std::min(text.find('\n'), text.size()), 30);
  return second.starts_with("\n  the step takes ") || is_own_page(text) ||
         text.starts_with(R"({"displayTimeUnit":"ms","otherData":{"schedule":)");
}

}  // namespace tool
