// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_needs.hpp"
#include "cleave/schedule/verify/fault_list.hpp"

namespace cleave::detail {

/// Finds weights that are gathered, let go and reduced when they must not be, and forward passes that are
/// used while they are offloaded. A stage that is never unsharded has its weights all the time.
class weight_survey {
 public:
  explicit weight_survey(schedule const& s, schedule_needs const& needs)
      : schedule_(s), needs_(needs), stages_(s.place.stages()) {
    each_placed(s.ranks, [&](placed_action const& p) {
      if (index(p.what.stage) >= stages_.size()) return;
      auto& stage = stages_[index(p.what.stage)];
      stage.is_sharded |= p.what.kind == action_kind::unshard;
      if (ends_backward(p.what)) ++stage.gradients_to_come;
      any_offload_ |= p.what.kind == action_kind::offload || p.what.kind == action_kind::reload;
    });
    if (any_offload_) offloaded_.resize(needs.pairs());
  }

  void report(fault_list& to) {
    each_placed(schedule_.ranks, [&](placed_action const& p) {
      if (index(p.what.stage) >= stages_.size()) return;
      report_shards(p, stages_[index(p.what.stage)], to);
      report_reduction(p, stages_[index(p.what.stage)], to);
      if (any_offload_ && needs_.in_range(p.what)) report_offload(p, to);
    });
    for (auto const& stage : stages_) {
      if (stage.is_gathered) to.add(reshard_missing, stage.gathered_by);
      if (stage.is_reduced && !stage.is_waited) to.add(reduce_wait_missing, stage.reduced_by);
      if (stage.open_ties > 0) to.add(reduce_wait_missing, stage.tied_by);
    }
  }

 private:
  using enum schedule_fault::kind;
  struct stage_state {
    bool is_sharded = false, is_gathered = false, is_reduced = false, is_waited = false;
    std::uint64_t gradients_to_come = 0;
    std::uint64_t open_ties = 0;  // begun and not waited for
    placed_action gathered_by = {}, reduced_by = {}, tied_by = {};
  };

  static bool ends_backward(action const& a) {
    return a.kind == action_kind::backward || a.kind == action_kind::weight_gradient;
  }

  void report_shards(placed_action const& p, stage_state& stage, fault_list& to) const {
    using enum action_kind;
    if (p.what.kind == unshard) {
      if (stage.is_gathered) to.add(unshard_repeated, p);
      stage.is_gathered = true;
      stage.gathered_by = p;
    } else if (p.what.kind == reshard) {
      if (!stage.is_gathered) to.add(reshard_repeated, p);
      stage.is_gathered = false;
    } else if (is_compute(p.what.kind) && stage.is_sharded && !stage.is_gathered) {
      to.add(used_resharded, p);
    }
  }

  void report_reduction(placed_action const& p, stage_state& stage, fault_list& to) const {
    using enum action_kind;
    if (ends_backward(p.what)) --stage.gradients_to_come;
    if (p.what.kind == reduce_gradient) {
      if (stage.is_reduced) to.add(reduce_repeated, p);
      if (stage.gradients_to_come > 0) to.add(reduce_early, p);
      stage.is_reduced = true;
      stage.reduced_by = p;
    } else if (p.what.kind == wait_reduce_gradient) {
      if (!stage.is_reduced || stage.is_waited) to.add(waited_not_reduced, p);
      stage.is_waited = stage.is_reduced;
    } else if (p.what.kind == reduce_tie) {
      if (stage.gradients_to_come > 0) to.add(reduce_early, p);
      ++stage.open_ties;
      stage.tied_by = p;
    } else if (p.what.kind == wait_reduce_tie) {
      if (stage.open_ties == 0) to.add(waited_not_reduced, p);
      if (stage.open_ties > 0) --stage.open_ties;
    }
  }

  void report_offload(placed_action const& p, fault_list& to) {
    using enum action_kind;
    auto& away = offloaded_[needs_.forward_done(index(p.what.stage), p.what.microbatch)];
    bool const is_away = away != 0;
    bool const uses = p.what.kind == offload || p.what.kind == action_kind::backward ||
                      p.what.kind == input_gradient || p.what.kind == weight_gradient;
    if ((uses && is_away) || (p.what.kind == reload && !is_away)) to.add(offload_misuse, p);
    if (p.what.kind == offload) away = 1;
    if (p.what.kind == reload) away = 0;
  }

  schedule const& schedule_;
  schedule_needs const& needs_;
  std::vector<stage_state> stages_;
  std::vector<char> offloaded_;  // of a stage and microbatch
  bool any_offload_ = false;
};

}  // namespace cleave::detail
