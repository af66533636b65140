// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "cleave/schedule/families/chimera.hpp"
#include "cleave/schedule/families/dual_pipe.hpp"
#include "cleave/schedule/families/forward_only.hpp"
#include "cleave/schedule/families/gpipe.hpp"
#include "cleave/schedule/families/hanayo.hpp"
#include "cleave/schedule/families/interleaved_1f1b.hpp"
#include "cleave/schedule/families/interleaved_zero_bubble.hpp"
#include "cleave/schedule/families/one_f_one_b.hpp"
#include "cleave/schedule/families/v_schedules.hpp"
#include "cleave/schedule/families/zbv.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_names.hpp"

namespace cleave::inline v0_2 {

/// Returns the number of stages that each rank has in a family, or nothing if any number is accepted.
constexpr std::optional<std::uint32_t> stages_per_rank_of(schedule_family family) {
  using enum schedule_family;
  switch (family) {
    case gpipe:
    case one_f_one_b:
    case eager_1f1b:
    case zb_h1:
    case zb_h2:
      return 1;
    case zbv:
    case v_half:
    case v_min:
    case dual_pipe:
    case dual_pipe_v:
    case chimera:
      return 2;
    case looped_bfs:
    case depth_first:
    case interleaved_1f1b:
    case megatron_interleaved:
    case interleaved_zero_bubble:
    case hanayo:
    case forward_only:
      break;
  }
  return std::nullopt;
}

/// Returns the schedule of a family that is chosen at run time.
/// \throws shape_error for a shape that the family does not accept, and the errors of its generator
inline schedule make_schedule(schedule_family family, schedule_shape const& shape) {
  auto const [p, v, m] = shape;
  if (auto const needed = stages_per_rank_of(family); needed && v != *needed)
    throw shape_error(std::string(name_of(family)), {shape_fault::kind::stages_per_rank, v, *needed});
  switch (family) {
    case schedule_family::gpipe:
      return gpipe(p, m);
    case schedule_family::one_f_one_b:
      return one_f_one_b(p, m);
    case schedule_family::eager_1f1b:
      return eager_1f1b(p, m);
    case schedule_family::looped_bfs:
      return looped_bfs(p, v, m);
    case schedule_family::depth_first:
      return depth_first(p, v, m);
    case schedule_family::interleaved_1f1b:
      return interleaved_1f1b(p, v, m);
    case schedule_family::megatron_interleaved:
      return megatron_interleaved(p, v, m);
    case schedule_family::zb_h1:
      return zb_h1(p, m);
    case schedule_family::zb_h2:
      return zb_h2(p, m);
    case schedule_family::interleaved_zero_bubble:
      return interleaved_zero_bubble(p, v, m);
    case schedule_family::zbv:
      return zbv(p, m);
    case schedule_family::v_half:
      return v_half(p, m);
    case schedule_family::v_min:
      return v_min(p, m);
    case schedule_family::dual_pipe:
      return dual_pipe(p, m);
    case schedule_family::dual_pipe_v:
      return dual_pipe_v(p, m);
    case schedule_family::hanayo:
      return hanayo(p, v, m);
    case schedule_family::chimera:
      return chimera(p, m);
    case schedule_family::forward_only:
      return forward_only(p, v, m);
  }
  return {};
}
}  // namespace cleave
