// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_names.hpp"

namespace cleave::inline v0_2::detail {

/// Returns the default number of stages per rank: the number that the family requires, or else two (one for
/// forward only).
constexpr std::uint32_t usual_stages_per_rank(schedule_family f) {
  if (f == schedule_family::forward_only) return 1;
  return stages_per_rank_of(f).value_or(2);
}
}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the schedule with this name, in any case. The default of `stages_per_rank` is the number that the
/// family requires, or else two (one for forward only). Families that interleave stages are refused with one
/// stage per rank, because that is a different schedule.
/// \throws schedule_name_error, and the errors of `make_schedule`
inline schedule named_schedule(std::string_view name, std::uint32_t ranks, std::uint32_t microbatches,
                               std::optional<std::uint32_t> stages_per_rank = {}) {
  auto const family = schedule_family_of(name);
  auto const usual = detail::usual_stages_per_rank(family), stages = stages_per_rank.value_or(usual);
  if (usual > 1 && stages == 1)
    throw shape_error(std::string(name_of(family)), {shape_fault::kind::stages_per_rank, 1, 2});
  return make_schedule(family, {.ranks = ranks, .stages_per_rank = stages, .microbatches = microbatches});
}

}  // namespace cleave
