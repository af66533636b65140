// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_names.hpp"

namespace cleave::detail {

/// How many stages each rank has where nobody says: as many as the family takes, or two.
constexpr std::uint32_t usual_stages_per_rank(schedule_family f) {
  if (f == schedule_family::forward_only) return 1;
  return stages_per_rank_of(f).value_or(2);
}
}  // namespace cleave::detail

namespace cleave {

/// The schedule of a name, in any case, with as many stages a rank as are usual where nobody says. One that
/// interleaves stages is not made with one stage a rank, where it is another schedule.
/// \throws schedule_name_error, and as `make_schedule`
inline schedule named_schedule(std::string_view name, std::uint32_t ranks, std::uint32_t microbatches,
                               std::optional<std::uint32_t> stages_per_rank = {}) {
  auto const family = schedule_family_of(name);
  auto const usual = detail::usual_stages_per_rank(family), stages = stages_per_rank.value_or(usual);
  if (usual > 1 && stages == 1)
    throw shape_error(std::string(name_of(family)), {shape_fault::kind::stages_per_rank, 1, 2});
  return make_schedule(family, {.ranks = ranks, .stages_per_rank = stages, .microbatches = microbatches});
}

}  // namespace cleave
