// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>

#include "cleave/core/error.hpp"

namespace cleave {

/// How large a schedule is.
struct schedule_shape {
  std::uint32_t ranks = 1;
  std::uint32_t stages_per_rank = 1;
  std::uint32_t microbatches = 1;

  bool operator==(schedule_shape const&) const = default;
};

/// Why a kind of schedule does not take a shape: some count would have to be another.
struct shape_fault {
  enum class kind : std::uint8_t {
    stages_per_rank,        ///< must be `needed`
    odd_stages_per_rank,    ///< must be even
    odd_ranks,              ///< must be even
    too_few_microbatches,   ///< must be `needed` or more
    odd_microbatches,       ///< must be even
    uneven_rounds,          ///< microbatches must be a multiple of `needed`
    group_too_small,        ///< microbatches a group must be `needed` or more
    group_too_large,        ///< microbatches a group must be `needed` or fewer
    last_group_too_small,   ///< the last group of microbatches must be empty or have `needed` or more
    stages_not_everywhere,  ///< stages must be a multiple of the ranks, `needed`
  };
  kind what;
  std::uint32_t got = 0, needed = 0;

  bool operator==(shape_fault const&) const = default;
};

/// What and how to mend it.
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
      return "the number of microbatches must be a multiple of " + needed + got;
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

/// A shape that a kind of schedule does not take.
class shape_error : public witness_error<shape_fault> {
 public:
  shape_error(std::string const& schedule, shape_fault f) : witness_error(schedule + ": " + describe(f), f) {}
};
}  // namespace cleave
