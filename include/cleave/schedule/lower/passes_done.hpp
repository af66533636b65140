// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/stage_neighbours.hpp"

namespace cleave::detail {

/// Which passes have been done, and so which can be done next: a forward pass needs those of the stages
/// before it, B and I their own forward pass and the gradients of the stages after it, W its own I. All other
/// actions can always be done. Precondition throughout: stages and microbatches are in range.
class passes_done {
 public:
  /// Precondition: `neighbours` lives as long. O(stages * microbatches).
  passes_done(stage_neighbours const& neighbours, std::uint32_t microbatches)
      : neighbours_(neighbours), microbatches_(microbatches), done_(neighbours.stages() * microbatches) {}

  /// O(neighbours of the stage).
  bool is_ready(action const& a) const {
    using enum action_kind;
    if (!is_compute(a.kind)) return true;
    auto const s = index(a.stage);
    if (a.kind == forward) return all_have(neighbours_.before(s), a.microbatch, forward_mark);
    if (a.kind == weight_gradient) return (done_[number(s, a.microbatch)] & input_mark) != 0;
    return (done_[number(s, a.microbatch)] & forward_mark) != 0 &&
           all_have(neighbours_.after(s), a.microbatch, gradient_mark);
  }

  /// Does one part after the other; nothing unless all can be done. How many can.
  std::size_t do_all(std::span<action const> parts) {
    before_.clear();
    for (action const& a : parts) {
      if (!is_ready(a)) {
        undo(parts);
        return before_.size();
      }
      before_.push_back(is_compute(a.kind) ? mark(a) : std::uint8_t{0});
    }
    return parts.size();
  }

 private:
  static constexpr std::uint8_t forward_mark = 1, gradient_mark = 2, input_mark = 4;

  std::size_t number(std::uint32_t stage, microbatch_id i) const {
    return std::size_t{stage} * microbatches_ + index(i);
  }
  bool all_have(std::span<std::uint32_t const> stages, microbatch_id i, std::uint8_t what) const {
    for (auto const s : stages)
      if ((done_[number(s, i)] & what) == 0) return false;
    return true;
  }
  /// What was marked before.
  std::uint8_t mark(action const& a) {
    using enum action_kind;
    auto& done = done_[number(index(a.stage), a.microbatch)];
    auto const before = done;
    int const marks = a.kind == forward          ? forward_mark
                      : a.kind == backward       ? gradient_mark
                      : a.kind == input_gradient ? gradient_mark | input_mark
                                                 : 0;
    done = static_cast<std::uint8_t>(done | marks);
    return before;
  }
  void undo(std::span<action const> parts) {
    for (std::size_t i = before_.size(); i-- > 0;)
      if (is_compute(parts[i].kind)) done_[number(index(parts[i].stage), parts[i].microbatch)] = before_[i];
  }

  stage_neighbours const& neighbours_;
  std::size_t microbatches_;
  std::vector<std::uint8_t> done_;    ///< by stage and microbatch
  std::vector<std::uint8_t> before_;  ///< what was marked before each part that is being done
};

}  // namespace cleave::detail
