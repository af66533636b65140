// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/search/step_bounds.hpp"

namespace cleave {

/// What is known of a schedule that was found for a step. The times of `simulate`, and the faults of
/// `schedule_faults`, of which there are none.
struct schedule_certificate {
  double makespan = 0;
  double bound = 0;    ///< no schedule of the step ends earlier, on any placement it may have
  std::string reason;  ///< of the bound: work, path, rank or memory
  step_bounds bounds;  ///< on the placement of the schedule
  std::vector<std::uint64_t> peak_bytes;  ///< of each rank, with what is resident

  std::string began_with;                 ///< the best that was made by a rule
  std::optional<schedule_family> family;  ///< of that
  double began_at = 0;                    ///< its makespan
  std::string best_family;                ///< the best of the families alone; empty where none fits
  double best_family_makespan = 0;
  std::uint64_t effort = 0;  ///< how many passes were timed in all

  /// By which share the makespan can be too long at most.
  double gap() const { return bound > 0 ? makespan / bound - 1 : 0; }
  bool operator==(schedule_certificate const&) const = default;
};

struct found_schedule {
  schedule order;
  schedule_certificate certificate;
};
}  // namespace cleave
