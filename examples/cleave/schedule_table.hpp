// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace tool {

/// The counts that all schedules are compared at; those that have a number of stages a rank keep it.
struct table_counts {
  std::uint32_t ranks = 4;
  std::optional<std::uint32_t> stages_per_rank;  ///< none: 2
  std::uint32_t microbatches = 8;
};

/// The names of all schedules, what they are and which counts they take.
std::string schedule_names_text();
/// All schedules side by side, for the terminal.
std::string schedule_table_text(table_counts const& counts);
/// The same in Markdown, each with a picture that lies in `pictures`.
std::string schedule_table_markdown(table_counts const& counts, std::string const& pictures);

}  // namespace tool
