// SPDX-License-Identifier: MIT
#pragma once
#include <cleave/schedule/model/schedule.hpp>
#include <cleave/schedule/text/schedule_csv.hpp>
#include <cleave/schedule/verify/schedule_fault.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "files.hpp"
#include "options.hpp"

namespace tool {

/// The order that a file has: PyTorch's CSV, or JSON as `cleave schedule --json` writes it. Whether it can
/// run is not asked.
struct schedule_file {
  fs::path path;
  cleave::schedule order;
  bool is_csv = true;
};

/// How many of each there must be, where a file alone does not say.
void add_count_options(command& c, cleave::row_counts& to);
/// The one file that is named. \throws usage_error
fs::path only_schedule(std::vector<std::string> const& operands);
/// \throws cleave::error with file, line and cell of what is no action
schedule_file read_schedule(fs::path const& path, cleave::row_counts const& counts);

/// As CSV, or as JSON where the file is called so. \throws usage_error where CSV has no place for its stages
void write_schedule_file(output_file const& to, cleave::schedule const& order);
/// PyTorch's CSV. \throws usage_error where the stages are no single chain
std::string csv_of(cleave::schedule const& s);

/// A place in a file: the line of a rank and the cell in it, from 1; 0 where it is no certain one.
struct file_place {
  std::size_t line = 0, cell = 0;
};
file_place place_of(cleave::schedule const& order, cleave::schedule_fault const& f);
/// `FILE:2:5`, as far as it is known.
std::string place_text(schedule_file const& file, file_place const& at);
/// What is wrong, without the place.
std::string sentence_of(cleave::schedule_fault const& f);

}  // namespace tool
