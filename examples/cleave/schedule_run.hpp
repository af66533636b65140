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

/// The unit of times where no file of costs says one, so that schedules with different stages compare: F of
/// the stages of a rank takes 1 for a microbatch, I and W the same, B twice that.
inline constexpr char common_unit[] = "F";

/// How often the stages are there: the groups of stages that edges join.
std::uint32_t copies_in(cleave::stage_placement const& place);

/// What a stage takes in that unit; the mean, where ranks have unlike numbers of stages.
cleave::stage_cost common_cost(cleave::stage_placement const& place);

/// What a schedule is put in time with.
struct time_options {
  std::string costs;  ///< a file, or none
  std::optional<double> base_latency;
  bool overlap = false;
  double noise = 0;
  std::uint64_t seed = 0;
};
void add_time_options(command& c, time_options& to);

/// A schedule in time, with what is to be shown of it.
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

/// \throws cleave::error with the costs file, and what is wrong with it
schedule_run run_in_time(std::string const& name, cleave::schedule order, time_options const& options);

/// Where to and how a schedule is written.
struct schedule_output {
  enum class form : std::uint8_t { text, svg, html, trace, csv, json };
  std::optional<form> asked;
  output_file file;
  bool plain = false;
};
void add_output_options(command& c, schedule_output& to);
void write_run(schedule_run const& run, schedule_output const& to);

/// Refuses a picture of too much. \throws usage_error
void require_drawable(cleave::schedule const& order, schedule_output const& to);
/// Refuses what this machine has no memory for. \throws usage_error
void require_memory(std::uint64_t actions);

}  // namespace tool
