// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "conformance_runner/json.hpp"

/// Schedules in the form of the recordings: rows of cells, or a name and counts.
namespace cleave::conformance {

using namespace detail;

/// Returns the rows of `input` as a schedule of a chain, with stages placed by `stage_to_rank`.
inline schedule read_rows(json const& input) {
  schedule s;
  for (json const& row : input["rows"]) s.ranks.push_back(read_row(row.get<std::string>()));
  s.place.ranks = static_cast<std::uint32_t>(s.ranks.size());
  if (input.contains("stage_to_rank"))
    for (json const& rank : input["stage_to_rank"])
      s.place.rank_of.push_back(rank_id{rank.get<std::uint32_t>()});
  s.place.edges = chain_edges(s.place.stages());
  for (auto const& row : s.ranks)
    for (action const& a : row)
      if (a.microbatch != no_microbatch) s.microbatches = std::max(s.microbatches, index(a.microbatch) + 1);
  return s;
}

inline json write_rows(std::span<std::vector<action> const> rows) {
  json list = json::array();
  for (auto const& row : rows) list.push_back(row_text(row));
  return list;
}

/// Returns the family that `input` names. \throws unjudged_error if there is none of that name
inline schedule_family family_of(json const& input) {
  auto const name = input.at("schedule").get<std::string>();
  auto const known = find_pytorch_schedule(name);
  if (!known || !known->family) throw unjudged_error("no family of schedules is known as '" + name + "'");
  return *known->family;
}

/// Returns the schedule of a family as PyTorch does, whose 1F1B needs as many microbatches as ranks.
inline schedule make_pytorch_schedule(schedule_family family, schedule_shape const& shape) {
  if (family == schedule_family::one_f_one_b && shape.microbatches < shape.ranks)
    throw shape_error("1F1B", {shape_fault::kind::too_few_microbatches, shape.microbatches, shape.ranks});
  return make_schedule(family, shape);
}

/// Returns the schedule that `input` names, for its number of ranks, stages and microbatches.
inline schedule read_family(json const& input) {
  return make_pytorch_schedule(family_of(input), {.ranks = input["ranks"],
                                                  .stages_per_rank = input["stages_per_rank"],
                                                  .microbatches = input["microbatches"]});
}

}  // namespace cleave::conformance
