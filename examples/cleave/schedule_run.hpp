// SPDX-License-Identifier: MIT
#pragma once
#include <cleave/formats/timed_schedule.hpp>
#include <cleave/schedule/model/placement.hpp>
#include <cleave/schedule/model/schedule.hpp>
#include <cleave/schedule/model/schedule_times.hpp>
#include <cleave/schedule/model/stage_cost.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "options.hpp"

namespace tool {

/// The default unit of time, which makes schedules with different numbers of stages comparable: F of all
/// stages of a rank takes 1 for a microbatch, I and W take 1 each, and B takes 2.
inline constexpr char common_unit[] = "F";

/// Returns the number of copies of the model: the connected groups of stages.
std::uint32_t copies_in(cleave::stage_placement const& place);

/// Returns the cost of a stage in that unit; the mean, if ranks have different numbers of stages.
cleave::stage_cost common_cost(cleave::stage_placement const& place);

/// Options of the simulation.
struct time_options {
  std::string costs;  ///< path of a costs file, or empty
  std::optional<double> base_latency;
  bool overlap = false;
  double noise = 0;
  std::uint64_t seed = 0;
};
void add_time_options(command& c, time_options& to);

/// Simulates a schedule and selects what to show.
struct schedule_run {
  std::string name;
  cleave::schedule order;
  cleave::schedule_times times;
  std::string time_unit;
  cleave::timed_schedule::unit memory_unit = cleave::timed_schedule::unit::passes;
  std::vector<std::vector<cleave::memory_step>> memory;
  std::vector<cleave::action_place> critical;

  cleave::timed_schedule shown() const {
    return {name, order, times, time_unit, memory, memory_unit, critical};
  }
};

/// \throws cleave::error with the costs file and its fault
schedule_run run_in_time(std::string const& name, cleave::schedule order, time_options const& options);

/// File and form of the output of a schedule.
struct schedule_output {
  enum class form : std::uint8_t { text, svg, html, trace, csv, json };
  std::optional<form> asked;
  output_file file;
  bool plain = false;
};
void add_output_options(command& c, schedule_output& to);
void write_run(schedule_run const& run, schedule_output const& to);

/// Refuses a picture with too many actions. \throws usage_error
void require_drawable(cleave::schedule const& order, schedule_output const& to);
/// Refuses a schedule that does not fit into memory. \throws usage_error
void require_memory(std::uint64_t actions);

}  // namespace tool
