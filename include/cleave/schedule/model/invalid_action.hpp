// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::inline v0_2::detail {

/// An action that is invalid at its position, so that tables indexed by rank, stage and microbatch have no
/// entry for it.
struct invalid_action {
  static constexpr char subject[] = "schedule: ";
  enum class kind : std::uint8_t {
    rank_count,  ///< there are `rank` lists, which is not the number of ranks of the placement
    compound,    ///< the parts extend past the end of the list
    stage,       ///< no stage has this number
    other_rank,  ///< the stage is placed on another rank
    microbatch,  ///< no microbatch has this number
    peer,        ///< of a message: no stage has the number of its peer
  };
  kind what;
  std::uint32_t rank = 0;
  std::size_t position = 0;  ///< index in the list of the rank, parts counted
  action at = {};

  bool operator==(invalid_action const&) const = default;
};

/// Returns a sentence that names the fault and its place.
inline std::string describe(invalid_action const& s) {
  using enum invalid_action::kind;
  if (s.what == rank_count)
    return "there are " + std::to_string(s.rank) + " lists; give each rank of the placement one";
  auto const at = "rank " + std::to_string(s.rank) + ", action #" + std::to_string(s.position) + ": '" +
                  action_text(s.at) + "' ";
  switch (s.what) {
    case compound:
      return at + "has more parts than the list has actions left";
    case stage:
      return at + "names a stage that does not exist";
    case other_rank:
      return at + "names a stage that is placed on another rank";
    case microbatch:
      return at + "names a microbatch that does not exist";
    default:
      return at + "names a peer stage that does not exist";
  }
}

using invalid_action_error = fault_error<invalid_action>;

/// Returns the first invalid action, or nothing. O(actions).
inline std::optional<invalid_action> find_invalid_action(schedule const& s) {
  using enum invalid_action::kind;
  auto const lists = static_cast<std::uint32_t>(s.ranks.size());
  if (lists != s.place.ranks) return invalid_action{rank_count, lists};
  for (std::uint32_t r = 0; r < lists; ++r) {
    auto const& row = s.ranks[r];
    for (std::size_t i = 0; i < row.size(); ++i) {
      action const& a = row[i];
      auto const invalid = [&](invalid_action::kind what) { return invalid_action{what, r, i, a}; };
      if (a.parts >= row.size() - i) return invalid(compound);
      if (a.kind == action_kind::idle || is_compound(a)) continue;
      if (index(a.stage) >= s.place.stages()) return invalid(stage);
      if (index(s.place.rank_of[index(a.stage)]) != r) return invalid(other_rank);
      if (has_microbatch(a.kind) && index(a.microbatch) >= s.microbatches) return invalid(microbatch);
      if (is_message(a.kind) && index(a.peer) >= s.place.stages()) return invalid(peer);
    }
  }
  return std::nullopt;
}

/// Checks that every action is valid. O(actions). \throws invalid_action_error
inline void require_valid_actions(schedule const& s) {
  if (auto invalid = find_invalid_action(s)) throw invalid_action_error(*invalid);
}

}  // namespace cleave::detail
