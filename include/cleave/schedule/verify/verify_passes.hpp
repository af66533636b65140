// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/step_index.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_dependencies.hpp"
#include "cleave/schedule/verify/detail/fault_list.hpp"

namespace cleave::inline v0_2 {

/// The passes that each stage must do for each microbatch.
enum class expected_passes : std::uint8_t { forward_and_backward, forward_alone };

/// Returns the kind of passes in a schedule: forward passes alone, or backward passes too. O(actions).
inline expected_passes passes_of(schedule const& s) {
  for (auto const& row : s.ranks)
    for (action const& a : row)
      if (is_compute(a.kind) && a.kind != action_kind::forward) return expected_passes::forward_and_backward;
  return expected_passes::forward_alone;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Finds passes that are not done exactly once.
class pass_analysis {
 public:
  pass_analysis(schedule const& s, schedule_dependencies const& dependencies)
      : schedule_(s), numbers_(step_index_of(s)), times_(dependencies.pairs()) {
    each_placed(s.ranks, [&](placed_action const& p) {
      if (is_compute(p.what.kind) && dependencies.in_range(p.what))
        ++times_[numbers_.pass(p.what.stage, p.what.microbatch)][slot(p.what.kind)];
    });
  }

  void report(expected_passes expected, fault_list& to) const {
    for (std::uint32_t s = 0; s < schedule_.place.stages() && !to.is_full(); ++s)
      for (std::uint32_t m = 0; m < schedule_.microbatches; ++m)
        report_pair(stage_id{s}, microbatch_id{m}, expected, to);
  }

 private:
  using enum schedule_fault::kind;
  static std::size_t slot(action_kind k) {
    return static_cast<std::size_t>(k) - static_cast<std::size_t>(action_kind::forward);
  }

  void report_pair(stage_id s, microbatch_id m, expected_passes expected, fault_list& to) const {
    using enum action_kind;
    auto const& times = times_[numbers_.pass(s, m)];
    auto const add = [&](schedule_fault::kind what, action_kind kind, std::uint64_t count = 0) {
      to.add(what, {schedule_.place.rank_of[index(s)], 0, {.kind = kind, .stage = s, .microbatch = m}}, {},
             count);
    };
    for (auto const k : {action_kind::forward, action_kind::backward, input_gradient, weight_gradient})
      if (times[slot(k)] > 1) add(repeated, k, times[slot(k)]);
    bool const f = times[0] > 0, b = times[1] > 0, i = times[2] > 0, w = times[3] > 0;
    if (!f) add(forward_missing, action_kind::forward);
    if (b && (i || w)) return add(backward_and_halves, action_kind::backward);
    if (w && !i) add(input_gradient_missing, input_gradient);
    if (i && !w) add(weight_gradient_missing, weight_gradient);
    if (!b && !i && !w && expected == expected_passes::forward_and_backward)
      add(backward_missing, action_kind::backward);
  }

  schedule const& schedule_;
  step_index numbers_;
  std::vector<std::array<std::uint32_t, 4>> times_;  // counts of F, B, I, W by stage and microbatch
};

/// Reports, for each rank, the first forward pass after which it keeps the saved activations of more than
/// `most_kept` passes. 0 is no limit.
inline void report_memory(schedule const& s, schedule_dependencies const& dependencies,
                          std::uint64_t most_kept, fault_list& to) {
  if (most_kept == 0) return;
  std::vector<std::uint64_t> kept(s.ranks.size());
  std::vector<char> is_reported(s.ranks.size());
  each_placed(s.ranks, [&](placed_action const& p) {
    if (!is_compute(p.what.kind) || !dependencies.in_range(p.what)) return;
    auto& count = kept[index(p.rank)];
    if (p.what.kind == action_kind::forward) {
      if (++count <= most_kept || is_reported[index(p.rank)]) return;
      is_reported[index(p.rank)] = 1;
      to.add(schedule_fault::kind::memory, p, {}, count);
    } else if (p.what.kind != action_kind::input_gradient && count > 0) {
      --count;
    }
  });
}

}  // namespace cleave::detail
