// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/list/list_schedule.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "support/rng.hpp"

namespace cleave::testing {

using namespace detail;

/// Returns a random compute-only schedule of any kind: of a family, or for stages placed anywhere on a chain
/// with occasional skip edges.
inline schedule some_schedule(rng& random) {
  auto const ranks = static_cast<std::uint32_t>(2 * (1 + random.below(2)));
  auto const microbatches = 2 * ranks * static_cast<std::uint32_t>(1 + random.below(2));
  if (!random.one_in(3)) {
    auto const family = static_cast<schedule_family>(random.below(schedule_names.size()));
    return make_schedule(family, {ranks, stages_per_rank_of(family).value_or(2), microbatches});
  }
  stage_placement place{ranks, {}, {}};
  auto const stages = static_cast<std::uint32_t>(2 + random.below(5));
  for (std::uint32_t s = 0; s < stages; ++s) {
    place.rank_of.push_back(rank_id{static_cast<std::uint32_t>(random.below(ranks))});
    if (s + 1 < stages) place.edges.push_back({stage_id{s}, stage_id{s + 1}});
    if (s + 2 < stages && random.one_in(3)) place.edges.push_back({stage_id{s}, stage_id{s + 2}});
  }
  return list_schedule(place, microbatches,
                       {.backward = random.one_in(2) ? backward_form::split : backward_form::whole});
}

/// Returns the schedule of a chain with these lists.
inline schedule schedule_of_rows(std::vector<std::string> const& rows) {
  std::vector<std::vector<action>> lists;
  for (auto const& row : rows) lists.push_back(read_row(row));
  return schedule_from_rows(lists, row_contents::compute_only);
}

}  // namespace cleave::testing
