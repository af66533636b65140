// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "cleave/schedule/lower/passes_done.hpp"
#include "cleave/schedule/lower/sending_lists.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/stray_action.hpp"

namespace cleave::detail {

/// Adds messages to a schedule; `send_in_rounds` is its one use.
class round_sender {
 public:
  explicit round_sender(schedule const& s) : lists_(s), done_(lists_.neighbours(), s.microbatches) {}

  schedule take() {
    while (go_round() || split_a_compound()) {
    }
    return lists_.finish();
  }

 private:
  /// Visits each rank once. Whether any went on.
  bool go_round() {
    bool moved = false;
    for (std::uint32_t r = 0; r < lists_.ranks(); ++r) moved |= visit(r);
    return moved;
  }

  bool visit(std::uint32_t r) {
    if (lists_.at_end(r)) return false;
    auto const rest = lists_.rest_of_cell(r);
    if (done_.do_all(rest) < rest.size()) return false;
    take(r, rest.size());
    return true;
  }

  /// All ranks wait. The first that can do some parts of its compound does them alone: their results may be
  /// what others wait for.
  bool split_a_compound() {
    for (std::uint32_t r = 0; r < lists_.ranks(); ++r) {
      if (lists_.at_end(r)) continue;
      auto const rest = lists_.rest_of_cell(r);
      auto const ready = done_.do_all(rest);
      if (ready == 0) continue;
      done_.do_all(rest.first(ready));
      take(r, ready);
      return true;
    }
    return false;
  }

  void take(std::uint32_t r, std::size_t parts) {
    for (action const& a : lists_.take(r, parts)) lists_.send_results(a, [](std::uint32_t) {});
  }

  sending_lists lists_;
  passes_done done_;
};

/// A schedule that sends and receives, in the order that PyTorch gives messages: visits the ranks in turn,
/// again and again, and takes the next action of each where what it needs is there. What it makes for a stage
/// on another rank is sent right after it (after the whole of a compound), and received next on that rank:
/// all messages have one order, so that it finishes whether sends wait for receives or not. Idle steps are
/// dropped after having taken their turn.
///
/// Parts of a compound may need the ones before them. One that needs another rank's answer to those is split
/// there. O(actions + rounds * ranks), at most as many rounds as actions.
/// \throws stray_action_error, stuck_error
inline schedule send_in_rounds(schedule const& s) {
  demand_no_stray_action(s);
  demand_counts(1, (std::max)(s.place.stages(), 1u), (std::max)(s.microbatches, 1u));
  return round_sender(s).take();
}

}  // namespace cleave::detail
