// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/schedule/model/stage_cost.hpp"

namespace cleave::inline v0_2 {

/// A sequence of units that can be cut into stages, each after its predecessors, such as the nodes of a graph
/// in topological order. Place i lies before unit i, so there is one more place than units. All lists except
/// `crossing` are prefix sums over the units before a place, and begin with 0.
struct unit_row {
  std::vector<stage_cost> cost = {};   ///< time of the units before each place
  std::vector<pass_bytes> bytes = {};  ///< kept per microbatch; if empty, 1 per stage whatever it contains
  std::vector<std::uint64_t> resident = {};  ///< in bytes; if empty, 0
  std::vector<edge_bytes> crossing = {};     ///< sent if the row is cut at this place; if empty, 0

  std::size_t units() const { return cost.empty() ? 0 : cost.size() - 1; }
};

/// The boundaries of stages in a row of units: stage s has the units from place s to place s + 1 of this
/// list.
using row_cut = std::vector<std::uint32_t>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The reason why a row is invalid.
struct unit_row_fault {
  static constexpr char subject[] = "row: ";
  enum class kind : std::uint8_t {
    no_units,
    length,     ///< a list has `place` entries, not one more than units
    first_sum,  ///< the first entry of a list is not 0
    cost,       ///< the cost before `place` is less than at the previous place, or not a valid time
    bytes,      ///< the bytes before `place` are less than at the previous place
    too_few,    ///< fewer units than `place` stages
  };
  kind what;
  std::size_t place = 0;

  bool operator==(unit_row_fault const&) const = default;
};

/// The message for a fault: where it is and how to correct it.
inline std::string describe(unit_row_fault const& f) {
  using enum unit_row_fault::kind;
  auto const place = std::to_string(f.place);
  switch (f.what) {
    case no_units:
      return "the row has no units; give prefix sums of costs, one more entry than units";
    case length:
      return "a list has " + place + " entries; expected one more than units, or none";
    case first_sum:
      return "the first entry of each prefix sum must be 0";
    case cost:
      return "the costs of the units before place " + place +
             " must not be less than at the previous place, nor above 1e100";
    case bytes:
      return "the bytes of the units before place " + place + " must not be less than at the previous place";
    case too_few:
      return "the row has fewer units than the " + place + " requested stages; request fewer";
  }
  return {};
}

using unit_row_error = fault_error<unit_row_fault>;

/// Returns the cost of the units between two prefix sums.
constexpr stage_cost cost_between(stage_cost const& from, stage_cost const& to) {
  return {(std::max)(0.0, to.forward - from.forward), (std::max)(0.0, to.backward - from.backward),
          (std::max)(0.0, to.input_gradient - from.input_gradient),
          (std::max)(0.0, to.weight_gradient - from.weight_gradient)};
}

/// Returns the first fault of a row that is to be cut into `stages`, or nothing. O(units).
inline std::optional<unit_row_fault> find_unit_row_fault(unit_row const& row, std::size_t stages = 1) {
  using enum unit_row_fault::kind;
  if (row.cost.size() < 2) return unit_row_fault{no_units};
  for (auto const size : {row.bytes.size(), row.resident.size(), row.crossing.size()})
    if (size != 0 && size != row.cost.size()) return unit_row_fault{length, size};
  if (row.units() < stages) return unit_row_fault{too_few, stages};
  auto const passes = {action_kind::forward, action_kind::backward, action_kind::input_gradient,
                       action_kind::weight_gradient};
  for (auto const kind : passes)
    if (row.cost[0].of(kind) != 0) return unit_row_fault{first_sum};
  if (!row.bytes.empty() && row.bytes[0] != pass_bytes{0, 0, 0}) return unit_row_fault{first_sum};
  if (!row.resident.empty() && row.resident[0] != 0) return unit_row_fault{first_sum};
  for (std::size_t i = 1; i < row.cost.size(); ++i) {
    for (auto const kind : passes)
      if (auto const c = row.cost[i].of(kind); !(c >= row.cost[i - 1].of(kind) && c <= longest_cost))
        return unit_row_fault{cost, i};
    bool grows = row.resident.empty() || row.resident[i] >= row.resident[i - 1];
    if (!row.bytes.empty())
      grows = grows && row.bytes[i].saved >= row.bytes[i - 1].saved &&
              row.bytes[i].saved_for_weights >= row.bytes[i - 1].saved_for_weights &&
              row.bytes[i].input >= row.bytes[i - 1].input;
    if (!grows) return unit_row_fault{bytes, i};
  }
  return std::nullopt;
}

}  // namespace cleave::detail
