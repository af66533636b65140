// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/nearest_names.hpp"
#include "cleave/core/printable.hpp"

namespace cleave::inline v0_2 {

/// The schedule families that can be generated from counts.
enum class schedule_family : std::uint8_t {
  gpipe,
  one_f_one_b,
  eager_1f1b,
  looped_bfs,
  depth_first,
  interleaved_1f1b,
  megatron_interleaved,
  zb_h1,
  zb_h2,
  interleaved_zero_bubble,
  zbv,
  v_half,
  v_min,
  dual_pipe,
  dual_pipe_v,
  hanayo,
  chimera,
  forward_only,
};

/// The names, indexed by family.
inline constexpr std::array<std::string_view, 18> schedule_names = {"GPipe",
                                                                    "1F1B",
                                                                    "Eager1F1B",
                                                                    "LoopedBFS",
                                                                    "DepthFirst",
                                                                    "Interleaved1F1B",
                                                                    "MegatronInterleaved",
                                                                    "ZBH1",
                                                                    "ZBH2",
                                                                    "InterleavedZeroBubble",
                                                                    "ZBVZeroBubble",
                                                                    "VHalf",
                                                                    "VMin",
                                                                    "DualPipe",
                                                                    "DualPipeV",
                                                                    "Hanayo",
                                                                    "Chimera",
                                                                    "ForwardOnly"};

/// Returns the name of a family, such as `1F1B`.
constexpr std::string_view name_of(schedule_family f) { return schedule_names[static_cast<std::size_t>(f)]; }

/// PyTorch's name and class of a schedule. The two base classes have no family, because they run any given
/// order.
struct pytorch_schedule {
  std::string_view name, class_name;
  std::optional<schedule_family> family;
};

inline constexpr std::array<pytorch_schedule, 9> pytorch_schedules{{
    {"1F1B", "Schedule1F1B", schedule_family::one_f_one_b},
    {"Interleaved1F1B", "ScheduleInterleaved1F1B", schedule_family::interleaved_1f1b},
    {"GPipe", "ScheduleGPipe", schedule_family::gpipe},
    {"LoopedBFS", "ScheduleLoopedBFS", schedule_family::looped_bfs},
    {"InterleavedZeroBubble", "ScheduleInterleavedZeroBubble", schedule_family::interleaved_zero_bubble},
    {"PipelineScheduleSingle", "PipelineScheduleSingle", std::nullopt},
    {"PipelineScheduleMulti", "PipelineScheduleMulti", std::nullopt},
    {"ZBVZeroBubble", "ScheduleZBVZeroBubble", schedule_family::zbv},
    {"DualPipeV", "ScheduleDualPipeV", schedule_family::dual_pipe_v},
}};

/// Returns an ASCII letter in lower case; other characters are unchanged.
constexpr char lower_case(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// Returns true if two names differ at most in the case of the letters A to Z.
constexpr bool same_letters(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (lower_case(a[i]) != lower_case(b[i])) return false;
  return true;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the family with this name in any case, or nothing.
constexpr std::optional<schedule_family> find_schedule_family(std::string_view name) {
  for (std::size_t f = 0; f < schedule_names.size(); ++f)
    if (same_letters(schedule_names[f], name)) return static_cast<schedule_family>(f);
  return std::nullopt;
}

/// Returns PyTorch's schedule with this name in any case, or nothing.
constexpr std::optional<pytorch_schedule> find_pytorch_schedule(std::string_view name) {
  for (auto const& s : pytorch_schedules)
    if (same_letters(s.name, name)) return s;
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Thrown for a name that is not a schedule. The witness lists the names that share half of its letters,
/// nearest first.
using schedule_name_error = tagged_error<struct schedule_name_tag, std::vector<std::string>>;

/// Returns the family with this name, in any case. \throws schedule_name_error
inline schedule_family schedule_family_of(std::string_view name) {
  if (auto const family = detail::find_schedule_family(name)) return *family;
  auto const lower = [](std::string_view mixed) {
    std::string text;
    for (char const c : mixed) text += lower_case(c);
    return text;
  };
  std::vector<std::string> known, nearest;
  for (auto const s : schedule_names) known.push_back(lower(s));
  for (auto const& s : near_names(lower(name), known))
    nearest.emplace_back(name_of(*detail::find_schedule_family(s)));
  throw schedule_name_error("no schedule is called " + quoted(name) + suggestion(nearest), nearest);
}

/// The size of a schedule.
struct schedule_shape {
  std::uint32_t ranks = 1;
  std::uint32_t stages_per_rank = 1;
  std::uint32_t microbatches = 1;

  bool operator==(schedule_shape const&) const = default;
};

/// A shape that a schedule family does not accept, with the count that is wrong.
struct shape_fault {
  enum class kind : std::uint8_t {
    stages_per_rank,        ///< must be `needed`
    odd_stages_per_rank,    ///< must be even
    odd_ranks,              ///< must be even
    too_few_microbatches,   ///< must be `needed` or more
    odd_microbatches,       ///< must be even
    uneven_rounds,          ///< microbatches must be a multiple of `needed`
    group_too_small,        ///< microbatches per group must be `needed` or more
    group_too_large,        ///< microbatches per group must be `needed` or fewer
    last_group_too_small,   ///< the last group of microbatches must be empty or have `needed` or more
    stages_not_everywhere,  ///< stages must be a multiple of the number of ranks, `needed`
  };
  kind what;
  std::uint32_t got = 0, needed = 0;

  bool operator==(shape_fault const&) const = default;
};

/// Returns a sentence that names the fault and a remedy.
inline std::string describe(shape_fault const& f) {
  using enum shape_fault::kind;
  auto const needed = std::to_string(f.needed), got = ", not " + std::to_string(f.got);
  switch (f.what) {
    case stages_per_rank:
      return "each rank must have " + needed + (f.needed == 1 ? " stage" : " stages") + got;
    case odd_stages_per_rank:
      return "each rank must have an even number of stages" + got;
    case odd_ranks:
      return "the number of ranks must be even" + got;
    case too_few_microbatches:
      return "there must be " + needed + " microbatches or more" + got;
    case odd_microbatches:
      return "the number of microbatches must be even, half for each direction" + got;
    case uneven_rounds:
      return "the number of microbatches must be a multiple of " + needed + got +
             "; a multiple of the number of ranks always fits";
    case group_too_small:
      return "a group must have " + needed + " microbatches or more" + got;
    case group_too_large:
      return "a group must have " + needed + " microbatches or fewer, as many as there are" + got;
    case last_group_too_small:
      return "the last group must have no microbatches, or " + needed + " or more" + got;
    case stages_not_everywhere:
      return "the number of stages must be a multiple of " + needed + ", the number of ranks" + got;
  }
  return {};
}

/// Thrown for a shape that a schedule family does not accept.
using shape_error = fault_error<shape_fault>;

}  // namespace cleave
