// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/one_or_each.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/stage_cost.hpp"

namespace cleave::inline v0_2 {

/// The expected durations of passes and messages, in any one unit. The order of messages is optimised for
/// them. It is valid and free of deadlocks for any actual durations.
struct nominal_times {
  /// One per stage, or one for all stages. If empty, F, I and W take 1 and B takes 2.
  std::vector<stage_cost> costs = {};
  double base_latency = 0.125;  ///< of each message between two ranks

  bool operator==(nominal_times const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Invalid times.
struct nominal_time_fault {
  static constexpr char subject[] = "times: ";
  enum class kind : std::uint8_t {
    cost_count,  ///< `at` costs were given for `allowed` stages
    cost,        ///< a cost of stage `at` is out of range
    base_latency,
  };
  kind what;
  std::uint64_t at = 0, allowed = 0;

  bool operator==(nominal_time_fault const&) const = default;
};

/// Returns a sentence that names the fault and a remedy.
inline std::string describe(nominal_time_fault const& f) {
  using enum nominal_time_fault::kind;
  auto const at = std::to_string(f.at);
  switch (f.what) {
    case cost_count:
      return at + " costs for " + std::to_string(f.allowed) +
             " stages; give one per stage, one for all, or none";
    case cost:
      return "each cost of stage " + at + " must be a time from 0 to 1e100";
    case base_latency:
      return "base_latency must be a time from 0 to 1e100";
  }
  return {};
}

using nominal_time_error = fault_error<nominal_time_fault>;

/// Returns the first fault of the times for `stages` stages, or nothing. O(costs).
inline std::optional<nominal_time_fault> find_nominal_time_fault(nominal_times const& t,
                                                                 std::uint32_t stages) {
  using enum nominal_time_fault::kind;
  if (!one_or_each(t.costs).covers(stages)) return nominal_time_fault{cost_count, t.costs.size(), stages};
  if (auto const f = find_stage_cost_fault(t.costs)) return nominal_time_fault{cost, index(f->stage)};
  if (!(t.base_latency >= 0 && t.base_latency <= longest_cost)) return nominal_time_fault{base_latency};
  return std::nullopt;
}

/// Checks the times for `stages` stages. \throws nominal_time_error
inline void require_nominal_times(nominal_times const& t, std::uint32_t stages) {
  if (auto const f = find_nominal_time_fault(t, stages)) throw nominal_time_error(*f);
}

}  // namespace cleave::detail
