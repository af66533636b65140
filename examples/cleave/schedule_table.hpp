// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace tool {

/// The counts for the comparison. Schedules with a fixed number of stages a rank keep it.
struct table_counts {
  std::uint32_t ranks = 4;
  std::optional<std::uint32_t> stages_per_rank;  ///< 2 if empty
  std::uint32_t microbatches = 8;
};

/// Lists all schedules with their descriptions and valid counts.
std::string schedule_names_text();
/// Returns the same as JSON.
std::string schedule_names_json();
/// Returns the table of all schedules as JSON, with times in F as in the table; a schedule that does not take
/// the counts has `refused` instead.
std::string schedule_table_json(table_counts const& counts);
/// Returns the table of all schedules for the terminal.
std::string schedule_table_text(table_counts const& counts);
/// Returns the same in Markdown, with a link to a picture of each in the folder `pictures`.
std::string schedule_table_markdown(table_counts const& counts, std::string const& pictures);

}  // namespace tool
