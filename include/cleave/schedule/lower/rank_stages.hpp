// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave::inline v0_2::detail {

/// The stages that occur in a list, numbered from 0 in ascending order. Tables about one rank thus stay as
/// small as its list.
class rank_stages {
 public:
  /// O(actions log(stages)).
  explicit rank_stages(std::span<action const> row) {
    for (action const& a : row) {
      if (a.stage == no_stage) continue;
      auto const at = std::ranges::lower_bound(stages_, a.stage);
      if (at == stages_.end() || *at != a.stage) stages_.insert(at, a.stage);
    }
  }

  std::uint32_t count() const { return static_cast<std::uint32_t>(stages_.size()); }
  /// Returns the number of a stage, or nothing if it does not occur in the list. O(log(stages)).
  std::optional<std::uint32_t> find(stage_id s) const {
    auto const n = number(s);
    return n < count() && stages_[n] == s ? std::optional(n) : std::nullopt;
  }
  stage_id operator[](std::uint32_t number) const { return stages_[number]; }
  /// Returns the number of a stage. Precondition: the stage occurs in the list. O(log(stages)).
  std::uint32_t number(stage_id s) const {
    return static_cast<std::uint32_t>(std::ranges::lower_bound(stages_, s) - stages_.begin());
  }

 private:
  std::vector<stage_id> stages_;
};

}  // namespace cleave::detail
