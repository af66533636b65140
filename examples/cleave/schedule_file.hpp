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

inline constexpr std::uint32_t most_count = 1u << 20;  ///< of ranks, stages or microbatches

/// A schedule read from a file: PyTorch's CSV, or JSON as `cleave schedule --json` writes it. It is not
/// verified.
struct schedule_file {
  fs::path path;
  cleave::schedule order;
  bool is_csv = true;
};

/// The expected counts; empty ones are taken from the file.
void add_count_options(command& c, cleave::row_counts& to);
/// Returns the single operand. \throws usage_error
fs::path only_schedule(std::vector<std::string> const& operands);
/// \throws cleave::error with file, line and cell of the first invalid action
schedule_file read_schedule(fs::path const& path, cleave::row_counts const& counts);

/// Writes JSON if the file's name ends in .json, else CSV. \throws usage_error if CSV cannot hold its stages
void write_schedule_file(output_file const& to, cleave::schedule const& order);
/// Writes PyTorch's CSV. \throws usage_error if the stages do not form a single chain
std::string csv_of(cleave::schedule const& s);

/// A place in a file: line and cell, counted from 1; 0 if unknown.
struct file_place {
  std::size_t line = 0, cell = 0;
};
file_place place_of(cleave::schedule const& order, cleave::schedule_fault const& f);
/// Returns `FILE:2:5`, or the part of it that is known.
std::string place_text(schedule_file const& file, file_place const& at);
/// Describes a fault without its place.
std::string sentence_of(cleave::schedule_fault const& f);

}  // namespace tool
