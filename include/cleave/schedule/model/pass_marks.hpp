// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/step_index.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule_dependencies.hpp"

namespace cleave::inline v0_2::detail {

/// Records which passes of a step are done. Precondition throughout: stages and microbatches are in range.
class pass_marks {
 public:
  /// O(passes).
  explicit pass_marks(step_index const& numbers) : numbers_(numbers), done_(numbers.passes()) {}

  std::size_t pairs() const { return done_.size(); }
  /// Returns the index of the (stage, microbatch) pair of an action.
  std::size_t pair_of(action const& a) const { return numbers_.pass(a.stage, a.microbatch); }
  bool is_done(std::uint32_t stage, microbatch_id m, pass_mark which) const {
    return (done_[numbers_.pass(stage, m)] & static_cast<unsigned>(which)) != 0;
  }
  /// Marks a pass as done. W passes and other actions leave no mark.
  void set_done(action const& a) {
    if (auto const marks = marks_of(a.kind); marks != 0)
      done_[pair_of(a)] = static_cast<std::uint8_t>(done_[pair_of(a)] | marks);
  }

  /// Returns the number of leading actions that can be done in order. `is_ready(action)` sees the marks of
  /// the actions before it. All these marks are removed again.
  template <class F>
  std::size_t count_ready(std::span<action const> actions, F is_ready) {
    std::size_t ready = 0;
    for (; ready < actions.size() && is_ready(actions[ready]); ++ready)
      if (auto const& a = actions[ready]; ready + 1 < actions.size() && marks_of(a.kind) != 0) {
        tried_.push_back({pair_of(a), done_[pair_of(a)]});
        set_done(a);
      }
    for (; !tried_.empty(); tried_.pop_back()) done_[tried_.back().first] = tried_.back().second;
    return ready;
  }

 private:
  static constexpr unsigned marks_of(action_kind k) {
    using enum action_kind;
    auto const of = [](pass_mark m) { return static_cast<unsigned>(m); };
    return k == forward          ? of(pass_mark::forward)
           : k == backward       ? of(pass_mark::gradient)
           : k == input_gradient ? of(pass_mark::gradient) | of(pass_mark::half)
                                 : 0;
  }

  step_index numbers_;
  std::vector<std::uint8_t> done_;  // by stage and microbatch
  // Tentatively marked pairs and their previous marks.
  std::vector<std::pair<std::size_t, std::uint8_t>> tried_;
};

}  // namespace cleave::detail
