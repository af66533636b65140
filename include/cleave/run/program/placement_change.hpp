// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/placement.hpp"

namespace cleave {

/// Where another plan of a run puts stages elsewhere than the first. Stages stay where they are.
struct placement_change {
  static constexpr char subject[] = "another plan: ";
  enum class kind : std::uint8_t {
    rank_count,   ///< it has `got` ranks, the first plan `first`
    stage_count,  ///< likewise stages
    moved,        ///< it has `stage` on rank `got`, the first plan on rank `first`
  };
  kind what;
  std::uint32_t got = 0, first = 0;
  stage_id stage = {};

  bool operator==(placement_change const&) const = default;
};

/// What, where and how to mend it.
inline std::string describe(placement_change const& c) {
  auto const got = std::to_string(c.got), first = std::to_string(c.first);
  std::string const mend = "; plan all for the same stages on the same ranks";
  switch (c.what) {
    case placement_change::kind::rank_count:
      return "it has " + got + " ranks, but the first plan " + first + mend;
    case placement_change::kind::stage_count:
      return "it has " + got + " stages, but the first plan " + first + mend;
    case placement_change::kind::moved:
      return "it has stage " + std::to_string(index(c.stage)) + " on rank " + got +
             ", but the first plan on rank " + first + mend;
  }
  return {};
}

using placement_change_error = fault_error<placement_change>;

}  // namespace cleave

namespace cleave::detail {

/// What keeps a plan placed as `other` from running where one placed as `first` does, or nothing; edges may
/// differ. O(stages).
inline std::optional<placement_change> find_placement_change(placement const& first, placement const& other) {
  using enum placement_change::kind;
  if (other.ranks != first.ranks) return placement_change{rank_count, other.ranks, first.ranks};
  if (other.stages() != first.stages()) return placement_change{stage_count, other.stages(), first.stages()};
  for (std::size_t s = 0; s < first.rank_of.size(); ++s)
    if (other.rank_of[s] != first.rank_of[s])
      return placement_change{moved, index(other.rank_of[s]), index(first.rank_of[s]),
                              stage_id{static_cast<std::uint32_t>(s)}};
  return std::nullopt;
}

}  // namespace cleave::detail
