// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/core/printable.hpp>
#include <cleave/formats/stage_map_json.hpp>
#include <cleave/schedule/verify/verify.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cut.hpp"
#include "files.hpp"
#include "options.hpp"
#include "own_files.hpp"
#include "schedule_file.hpp"

namespace tool {

/// The output file for a stage map, and the schedule that places each stage on a rank.
struct map_options {
  output_file file;
  std::string schedule;
  std::optional<cleave::stage_placement> place;  ///< placement by the schedule
};

inline void add_map_options(command& c, map_options& to) {
  c.options.push_back(file_to_write("", "--map",
                                    "write a stage map: the stage of each node, and the rank of each stage",
                                    to.file, is_own_stage_map));
  c.options.push_back(file_to_read(
      "--schedule", "FILE", "cut for the stages of this schedule, and balance its ranks (one stage per rank)",
      to.schedule));
}

/// Reads the schedule, if one is given, and sets the number of stages to that of the schedule.
/// \throws usage_error if -k gives another number, cleave::error with the fault and its place in the file
inline void read_places(map_options& to, cut_options& options) {
  if (to.schedule.empty()) return;
  auto const file = read_schedule(to.schedule, {});
  auto const faults = schedule_faults(file.order, {.passes = cleave::passes_of(file.order)});
  if (!faults.empty())
    throw cleave::error(place_text(file, place_of(file.order, faults.front())) + ": " +
                        sentence_of(faults.front()) + "; cleave verify lists all faults");
  to.place = file.order.place;
  options.place = to.place;
  auto const stages = static_cast<std::uint32_t>(to.place->stages());
  if (options.rule.what != cut_rule::kind::balance) return;
  if (options.counted && options.stages != stages)
    throw usage_error("-k " + std::to_string(options.stages) + " asks for another number of stages: " +
                      input_name(to.schedule) + " has " + plural(stages, "stage") + "; leave out -k");
  options.stages = stages;
}

/// Makes names unique: an empty name, or one that several nodes have, becomes `#` and its position.
inline std::vector<std::string> unique_names(std::vector<std::string> names) {
  std::map<std::string, int> times;
  for (auto const& name : names) ++times[name];
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i].empty() || names[i].front() == '#' || times[names[i]] > 1)
      names[i] = "#" + std::to_string(i);
  return names;
}

/// Writes the nodes, modules and state of each stage of a plan of `s`. `nodes` and `modules` are the names of
/// its nodes and of the modules that they call; `value` returns the name of a value.
/// \throws cleave::error if the schedule has another number of stages
template <class Snapshot, class Plan, class Name>
void write_map(map_options const& to, Snapshot const& s, Plan const& p, std::vector<std::string> const& nodes,
               std::vector<std::string> const& modules, Name value) {
  auto const stages = static_cast<std::uint32_t>(p.stages.size());
  auto const place = to.place      ? *to.place
                     : stages == 0 ? cleave::stage_placement{}
                                   : cleave::loop_placement(stages);
  cleave::stage_map map{place.ranks, {}};
  if (place.stages() != stages)
    throw cleave::error("the cut has " + plural(stages, "stage") + ", " + input_name(to.schedule) + " " +
                        std::to_string(place.stages()) + "; both need the same number");
  for (std::size_t i = 0; i < stages; ++i) {
    auto const& stage = p.stages[i];
    cleave::mapped_stage mapped{.rank = place.rank_of[i]};
    for (auto const n : stage.nodes) {
      (s.replicable[n] != 0 ? mapped.constants : mapped.nodes).push_back(nodes[n]);
      if (!modules[n].empty() && std::ranges::find(mapped.modules, modules[n]) == mapped.modules.end())
        mapped.modules.push_back(modules[n]);
    }
    for (auto const& [values, names] :
         {std::pair(&stage.state, &mapped.state), std::pair(&stage.inputs, &mapped.inputs),
          std::pair(&stage.outputs, &mapped.outputs)})
      for (auto const v : *values) names->push_back(value(s.value[v]));
    map.stages.push_back(std::move(mapped));
  }
  write_file(to.file, write_stage_map_json(map, cleave::json::writer::layout::indented) + "\n");
}

}  // namespace tool
