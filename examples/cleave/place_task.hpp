// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cleave/core/printable.hpp>
#include <cleave/draw/placement_page.hpp>
#include <cleave/draw/replicated_page.hpp>
#include <cleave/place.hpp>
#include <cleave/schedule/model/schedule.hpp>
#include <cleave/schedule/model/simulate_options.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "describe.hpp"
#include "fact_sheet.hpp"
#include "files.hpp"
#include "terminal.hpp"

namespace tool {

inline constexpr std::array<std::string_view, 3> placement_goals = {"throughput", "latency", "step"};

/// The arguments of cleave place.
struct place_task {
  std::string devices;
  cleave::placement_options options;
  cleave::placement_row_options row;
  bool as_json = false, gains = false, trains = false, copies = false;
  double rehearsal = 0;  ///< seconds of the rehearsed step; 0: none
  output_file report;
};

/// A model or a graph as a row, with the names of its nodes.
struct named_row {
  cleave::placement_row row;
  std::vector<std::string> nodes;
  std::string unit;   ///< of times in reports; may be empty
  double scale = 1;   ///< factor from costs to `unit`
  double second = 1;  ///< the cost of a second of work
};

inline std::string name_of_node(named_row const& r, std::uint32_t n) {
  return r.nodes[n].empty() ? "#" + std::to_string(n) : cleave::printable(r.nodes[n], 30);
}

/// Returns the names of the first and the last of the nodes from `begin` to before `end`.
inline std::string names_of_nodes(named_row const& r, std::uint32_t begin, std::uint32_t end) {
  auto const first = name_of_node(r, begin);
  return end - begin == 1 ? first : first + " to " + name_of_node(r, end - 1);
}

/// Runs a step of a schedule on threads for about the seconds of the task. Returns its time in the unit of
/// the costs. \throws usage_error if no time is predicted
double rehearsed_step(cleave::schedule const& order, cleave::simulate_options const& timing, double predicted,
                      place_task const& task, progress const& doing);

/// Reports a rehearsed step. `without` says what the prediction leaves out.
void add_rehearsal(fact_sheet& told, named_row const& row, double rehearsed, double predicted,
                   std::string const& without = {});

/// Reports what would help, as --gains asks.
void add_gains(fact_sheet& told, named_row const& row, std::vector<cleave::placement_gain> const& gains);

/// Writes the page of a placement with or without copies to the file of --report. `stages` are the nodes of
/// each stage, in words.
template <class Placement>
void write_placement_page(fs::path const& path, named_row const& row, cleave::device_network const& net,
                          Placement const& placed, std::vector<std::string> const& stages,
                          std::vector<cleave::placement_gain> const& gains, place_task const& task) {
  write_page(task.report, cleave::placement_page(
                              net, placed,
                              {.title = short_name(path) + " on " + plural(net.devices.size(), "device"),
                               .time_unit = row.unit,
                               .time_scale = row.scale,
                               .stages = stages,
                               .gains = gains}));
}

/// \throws usage_error if --copies does not go with another option
void require_copies(place_task const& task);

/// Places a row in stages with copies, and prints them. Returns the exit code.
int place_copies(fs::path const& path, named_row const& row, cleave::device_network const& net,
                 place_task const& task, progress const& doing);

}  // namespace tool
