// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/verify/schedule_fault.hpp"

namespace cleave::inline v0_2::detail {

/// An action and its place in a schedule.
struct placed_action {
  rank_id rank;
  std::size_t position;
  action what;
};

/// The faults found so far, up to a maximum number.
class fault_list {
 public:
  explicit fault_list(std::size_t most) : most_(most) {}

  void add(schedule_fault::kind what, placed_action const& at, action const& other = {},
           std::uint64_t count = 0) {
    add({what, at.rank, at.position, at.what, other, count, {}});
  }
  void add(schedule_fault f) {
    if (!is_full()) found_.push_back(std::move(f));
  }
  bool is_full() const { return found_.size() >= most_; }
  bool empty() const { return found_.empty(); }
  std::vector<schedule_fault> take() { return std::move(found_); }

 private:
  std::size_t most_;
  std::vector<schedule_fault> found_;
};

/// Calls `f(action with its place)` for each action except idle steps and heads of compounds, rank after
/// rank. O(actions).
template <class F>
void each_placed(std::vector<std::vector<action>> const& ranks, F f) {
  for (std::uint32_t r = 0; r < ranks.size(); ++r)
    for (std::size_t i = 0; i < ranks[r].size(); ++i) {
      action const& a = ranks[r][i];
      if (a.kind != action_kind::idle && !is_compound(a)) f(placed_action{rank_id{r}, i, a});
    }
}

}  // namespace cleave::detail
