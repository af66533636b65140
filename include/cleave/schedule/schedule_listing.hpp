// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cleave/schedule/generate.hpp"
#include "cleave/schedule/lower.hpp"
#include "cleave/schedule/schedule.hpp"
#include "cleave/schedule/schedule_names.hpp"
#include "cleave/schedule/schedule_shape.hpp"
#include "cleave/schedule/spaced_listing.hpp"

namespace cleave {

/// What a listing shows beside the passes.
enum class listing_content : std::uint8_t {
  passes,  ///< idle steps as the generator makes them
  spaced,  ///< an idle step for each unit of time in which a rank waits
  messages,
  spaced_messages,
};

struct listing_options {
  std::optional<std::uint32_t> stages_per_rank = {};  ///< as many as are usual for the schedule
  listing_content content = listing_content::passes;
  lower_options lowering = {};
};

/// How many stages each rank has where nobody says: as many as the family takes, or two.
constexpr std::uint32_t usual_stages_per_rank(schedule_family f) {
  if (f == schedule_family::forward_only) return 1;
  return stages_per_rank_of(f).value_or(2);
}

/// The lists of a schedule by its name, to look at. A schedule that interleaves stages is not listed with one
/// stage a rank, where it is another schedule.
/// \throws schedule_name_error, and as `make_schedule`, `lower` and `spaced_listing`
inline schedule schedule_listing(std::string_view name, std::uint32_t ranks, std::uint32_t microbatches,
                                 listing_options const& o = {}) {
  auto const family = schedule_family_of(name);
  auto const usual = usual_stages_per_rank(family), stages = o.stages_per_rank.value_or(usual);
  if (usual > 1 && stages == 1)
    throw shape_error(std::string(name_of(family)), {shape_fault::kind::stages_per_rank, 1, 2});
  auto s = make_schedule(family, {.ranks = ranks, .stages_per_rank = stages, .microbatches = microbatches});
  if (o.content == listing_content::messages || o.content == listing_content::spaced_messages)
    s = lower(s, o.lowering);
  if (o.content == listing_content::spaced || o.content == listing_content::spaced_messages)
    s = spaced_listing(s);
  return s;
}

}  // namespace cleave
