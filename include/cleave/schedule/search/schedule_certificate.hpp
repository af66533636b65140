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

namespace cleave::inline v0_2 {

/// The proven facts about a schedule that was found for a step. Times are those of `simulate`;
/// `schedule_faults` has found no fault.
struct schedule_certificate {
  double makespan = 0;  ///< in the unit of the costs
  double bound = 0;     ///< lower bound on the makespan of any schedule of the step, on any allowed placement
  std::string reason;   ///< the kind of bound: work, path, rank or memory
  step_bounds bounds;   ///< for the placement of the schedule
  std::vector<std::uint64_t> peak_bytes;  ///< per rank, resident bytes included

  std::string began_with;  ///< name of the best constructed schedule, from which the local search started
  std::optional<schedule_family> family;  ///< its family, if it belongs to one
  double began_at = 0;                    ///< its makespan
  std::string best_family;                ///< name of the best schedule of a family; empty if none fits
  double best_family_makespan = 0;
  std::uint64_t effort = 0;  ///< total number of passes timed

  /// Returns the optimality gap: the makespan is at most this fraction above the optimum.
  double gap() const { return bound > 0 ? makespan / bound - 1 : 0; }
  bool operator==(schedule_certificate const&) const = default;
};

/// A schedule, and the proven facts about it.
struct found_schedule {
  schedule order;
  schedule_certificate certificate;
};
}  // namespace cleave
