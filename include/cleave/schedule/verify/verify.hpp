// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/delivery.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_dependencies.hpp"
#include "cleave/schedule/verify/deadlock.hpp"
#include "cleave/schedule/verify/detail/fault_list.hpp"
#include "cleave/schedule/verify/detail/rank_channels.hpp"
#include "cleave/schedule/verify/schedule_fault.hpp"
#include "cleave/schedule/verify/verify_passes.hpp"

namespace cleave::inline v0_2::detail {

/// Finds actions that run too early on their own rank, and messages with a missing end.
class event_analysis {
 public:
  event_analysis(schedule const& s, schedule_dependencies const& dependencies)
      : schedule_(s),
        dependencies_(dependencies),
        rank_of_(dependencies.events(), nowhere),
        seen_(dependencies.events()) {
    each_placed(s.ranks, [&](placed_action const& p) {
      each_event(p.what, [&](std::uint32_t event) { rank_of_[event] = index(p.rank); });
      any_waits_ |= is_wait_send(p.what.kind);
    });
  }

  void report(fault_list& to) {
    each_placed(schedule_.ranks, [&](placed_action const& p) {
      if (to.is_full() || !dependencies_.in_range(p.what)) return;
      report_early(p, to);
      each_event(p.what, [&](std::uint32_t event) {
        bool const again = seen_[event] & happened;
        if (again && dependencies_.is_end_of_message(event)) to.add(repeated, p, {}, 2);
        seen_[event] |= happened;
      });
    });
    if (!dependencies_.messages()) return;
    each_placed(schedule_.ranks, [&](placed_action const& p) {
      if (is_send(p.what.kind) || is_receive(p.what.kind)) report_end(p, to);
    });
    report_missing(to);
  }

 private:
  using enum schedule_fault::kind;
  static constexpr std::uint32_t nowhere = 0xffffffff;
  static constexpr unsigned char happened = 1, waited = 2;

  template <class F>
  void each_event(action const& a, F f) const {
    if (is_compute(a.kind)) {
      if (dependencies_.in_range(a)) dependencies_.each_effect(a, f);
    } else if (is_send(a.kind) || is_receive(a.kind)) {
      if (auto const end = dependencies_.message_end(a); end != schedule_dependencies::none) f(end);
    }
  }
  bool is_anywhere(std::uint32_t event) const { return rank_of_[event] != nowhere; }

  void report_early(placed_action const& p, fault_list& to) {
    auto const need = [&](std::uint32_t event) {
      if (rank_of_[event] == index(p.rank) && !(seen_[event] & happened))
        to.add(out_of_order, p, dependencies_.action_of(event));
      return true;
    };
    action const& a = p.what;
    if (is_compute(a.kind)) dependencies_.each_dependency(a, need);
    if (is_send(a.kind)) need(dependencies_.pass_of(a));
    if (a.kind >= action_kind::offload) need(dependencies_.forward_done(index(a.stage), a.microbatch));
    if (!is_wait_send(a.kind)) return;
    auto const end = dependencies_.message_end(a);
    if (end == schedule_dependencies::none) return;
    if (!is_anywhere(end) || (seen_[end] & waited))
      to.add(waited_not_sent, p);
    else
      need(end);
    seen_[end] |= waited;
  }

  /// Reports for one end of a message a missing other end, a missing pass, or a missing wait.
  void report_end(placed_action const& p, fault_list& to) const {
    auto const end = dependencies_.message_end(p.what);
    if (end == schedule_dependencies::none) return;
    bool const sends = is_send(p.what.kind);
    auto const other = schedule_dependencies::other_end(end);
    if (!is_anywhere(other))
      to.add(sends ? receive_missing : send_missing, p, dependencies_.action_of(other));
    if (!is_anywhere(dependencies_.pass_of(p.what))) to.add(sends ? sent_not_made : received_not_used, p);
    if (sends && any_waits_ && !(seen_[end] & waited)) to.add(wait_missing, p);
  }

  /// Reports values that are computed on one rank, used on another, and not sent.
  void report_missing(fault_list& to) const {
    for (std::uint32_t e = 0; e < schedule_.place.edges.size() && !to.is_full(); ++e) {
      if (!dependencies_.crosses_ranks(e)) continue;
      auto const& edge = schedule_.place.edges[e];
      for (std::uint32_t m = 0; m < schedule_.microbatches; ++m) {
        auto const report = [&](edge_flow flow, std::uint32_t user) {
          auto const send = dependencies_.send_done(e, flow, microbatch_id{m});
          auto const receive = schedule_dependencies::receive_of(send);
          if (is_anywhere(user) && !is_anywhere(send) && !is_anywhere(receive)) {
            action const a = dependencies_.action_of(receive);
            to.add(message_missing, {schedule_.place.rank_of[index(a.stage)], 0, a});
          }
        };
        report(edge_flow::activations, dependencies_.forward_done(index(edge.to), microbatch_id{m}));
        report(edge_flow::gradients, dependencies_.gradient_done(index(edge.from), microbatch_id{m}));
      }
    }
  }

  schedule const& schedule_;
  schedule_dependencies const& dependencies_;
  std::vector<std::uint32_t> rank_of_;  // by event: its rank
  std::vector<unsigned char> seen_;
  bool any_waits_ = false;
};

/// Finds weights that are gathered, freed or reduced at the wrong time, and saved activations that are used
/// while offloaded. A stage without UNSHARD has its weights all the time.
class weight_analysis {
 public:
  explicit weight_analysis(schedule const& s, schedule_dependencies const& dependencies)
      : schedule_(s), dependencies_(dependencies), stages_(s.place.stages()) {
    each_placed(s.ranks, [&](placed_action const& p) {
      if (index(p.what.stage) >= stages_.size()) return;
      auto& stage = stages_[index(p.what.stage)];
      stage.is_sharded |= p.what.kind == action_kind::unshard;
      if (ends_backward(p.what)) ++stage.gradients_to_come;
      any_offload_ |= p.what.kind == action_kind::offload || p.what.kind == action_kind::reload;
    });
    if (any_offload_) offloaded_.resize(dependencies.pairs());
  }

  void report(fault_list& to) {
    each_placed(schedule_.ranks, [&](placed_action const& p) {
      if (index(p.what.stage) >= stages_.size()) return;
      report_shards(p, stages_[index(p.what.stage)], to);
      report_reduction(p, stages_[index(p.what.stage)], to);
      if (any_offload_ && dependencies_.in_range(p.what)) report_offload(p, to);
    });
    for (auto const& stage : stages_) {
      if (stage.is_gathered) to.add(reshard_missing, stage.gathered_by);
      if (stage.is_reduced && !stage.is_waited) to.add(reduce_wait_missing, stage.reduced_by);
      if (stage.open_ties > 0) to.add(reduce_wait_missing, stage.blocked_by);
    }
  }

 private:
  using enum schedule_fault::kind;
  struct stage_state {
    bool is_sharded = false, is_gathered = false, is_reduced = false, is_waited = false;
    std::uint64_t gradients_to_come = 0;
    std::uint64_t open_ties = 0;  // reductions begun and not waited for
    placed_action gathered_by = {}, reduced_by = {}, blocked_by = {};
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
      stage.blocked_by = p;
    } else if (p.what.kind == wait_reduce_tie) {
      if (stage.open_ties == 0) to.add(waited_not_reduced, p);
      if (stage.open_ties > 0) --stage.open_ties;
    }
  }

  void report_offload(placed_action const& p, fault_list& to) {
    using enum action_kind;
    auto& away = offloaded_[dependencies_.forward_done(index(p.what.stage), p.what.microbatch)];
    bool const is_away = away != 0;
    bool const uses = p.what.kind == offload || p.what.kind == action_kind::backward ||
                      p.what.kind == input_gradient || p.what.kind == weight_gradient;
    if ((uses && is_away) || (p.what.kind == reload && !is_away)) to.add(offload_misuse, p);
    if (p.what.kind == offload) away = 1;
    if (p.what.kind == reload) away = 0;
  }

  schedule const& schedule_;
  schedule_dependencies const& dependencies_;
  std::vector<stage_state> stages_;
  std::vector<char> offloaded_;  // by stage and microbatch
  bool any_offload_ = false;
};

/// A place where a rank receives messages from another rank in a different order than they are sent. If
/// messages carry no tag, this silently swaps two values.
struct channel_mismatch {
  rank_id from, to;
  std::size_t place;  ///< the number of earlier messages from `from` to `to`
  action sent, received;

  bool operator==(channel_mismatch const&) const = default;
};

/// The messages from each rank to each other rank, in the order of the sends and of the receives.
class channel_analysis {
 public:
  /// \throws stage_placement_error, schedule_count_error
  explicit channel_analysis(schedule const& s)
      : dependencies_(s), channels_(s.place), present_(dependencies_.events()) {
    for (auto const& row : s.ranks) each_end(row, [&](std::uint32_t end, auto) { present_[end] = 1; });
    sent_.resize(channels_.count());
    received_.resize(channels_.count());
    for (auto const& row : s.ranks)
      each_end(row, [&](std::uint32_t end, std::uint32_t c) {
        if (present_[schedule_dependencies::other_end(end)])
          (end % 2 == 0 ? sent_ : received_)[c].push_back(end);
      });
  }

  std::optional<channel_mismatch> find() const {
    for (std::uint32_t c = 0; c < channels_.count(); ++c)
      for (std::size_t i = 0; i < (std::min)(sent_[c].size(), received_[c].size()); ++i)
        if (sent_[c][i] != schedule_dependencies::other_end(received_[c][i]))
          return channel_mismatch{channels_[c].first, channels_[c].second, i,
                                  dependencies_.action_of(sent_[c][i]),
                                  dependencies_.action_of(received_[c][i])};
    return std::nullopt;
  }

 private:
  template <class F>
  void each_end(std::vector<action> const& row, F f) const {
    for (action const& a : row) {
      if (!is_send(a.kind) && !is_receive(a.kind)) continue;
      auto const end = dependencies_.message_end(a);
      if (end == schedule_dependencies::none) continue;
      f(end, channels_.of(dependencies_.edge_of(a), flow_of(a)));
    }
  }

  schedule_dependencies dependencies_;
  rank_channels channels_;
  std::vector<char> present_;
  std::vector<std::vector<std::uint32_t>> sent_, received_;
};

/// Returns the first place where a rank receives messages in a different order than they are sent, or
/// nothing. Considers only messages that have both ends. O(actions + edges log edges).
/// \throws stage_placement_error, schedule_count_error
inline std::optional<channel_mismatch> find_channel_mismatch(schedule const& s) {
  return channel_analysis(s).find();
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The way in which a receive finds its send.
enum class message_matching : std::uint8_t {
  in_order,  ///< the next message from that rank, as in NCCL; a different order is a fault
  by_name,   ///< by stage, kind and microbatch
};

/// The rules that a schedule must obey, and the limits of the check.
struct verify_options {
  cleave::delivery delivery = delivery::buffered;
  std::uint32_t buffers = any_number;              ///< as in `delivery_rules`
  message_groups groups = message_groups::listed;  ///< as in `delivery_rules`
  message_matching matching = message_matching::in_order;
  expected_passes passes = expected_passes::forward_and_backward;
  /// The maximum number of forward passes whose saved activations a rank keeps at once; 0: no limit.
  std::uint64_t most_kept = 0;
  std::size_t most_faults = 1000;  ///< the maximum number of faults that are reported
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Reports actions whose stage, microbatch, edge or compound does not exist, or whose stage is on another
/// rank.
inline void report_invalid_actions(schedule const& s, schedule_dependencies const& dependencies,
                                   fault_list& to) {
  using enum schedule_fault::kind;
  std::vector<char> is_reported(s.place.stages());
  for (std::uint32_t r = 0; r < s.ranks.size(); ++r)
    for (std::size_t i = 0; i < s.ranks[r].size(); ++i) {
      action const& a = s.ranks[r][i];
      placed_action const p{rank_id{r}, i, a};
      if (a.parts >= s.ranks[r].size() - i || (a.kind == action_kind::overlap && a.parts == 0))
        to.add(compound, p);
      if (a.kind == action_kind::idle || a.kind == action_kind::overlap || a.parts > 0) continue;
      if (index(a.stage) >= s.place.stages()) {
        to.add(unknown_stage, p);
        continue;
      }
      auto const home = s.place.rank_of[index(a.stage)];
      if (home != p.rank && !std::exchange(is_reported[index(a.stage)], true))
        to.add(other_rank, p, {}, index(home));
      if (has_microbatch(a.kind) && index(a.microbatch) >= s.microbatches)
        to.add(unknown_microbatch, p);
      else if (is_message(a.kind) && dependencies.message_end(a) == schedule_dependencies::none)
        to.add(unknown_edge, p);
    }
}

/// Reports ranks that wait for each other. A rank that waits for itself, or for an action that is never done,
/// has already been reported.
inline void report_deadlock(schedule const& s, delivery_rules const& rules, fault_list& to) {
  auto found = find_deadlock(s, rules);
  if (!found || (found->cycle.size() < 2 && !to.empty())) return;
  auto const& first = found->cycle.empty() ? found->waiting.front() : found->cycle.front();
  to.add({schedule_fault::kind::deadlock, first.rank, first.position, first.at, first.for_what, 0,
          std::move(found)});
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns all faults of a schedule, with or without messages. The result is empty if the schedule can run
/// under the options. Waits for sends are required only if there are any. Unshards are required only for
/// stages that have one. O(actions), plus the shortest cycle of a deadlock.
inline std::vector<schedule_fault> schedule_faults(schedule const& s, verify_options const& options = {}) {
  using enum schedule_fault::kind;
  detail::fault_list faults(options.most_faults);
  if (s.ranks.size() != s.place.ranks) faults.add({.what = rank_count, .count = s.ranks.size()});
  if (auto const f = detail::find_stage_placement_fault(s.place))
    faults.add({.what = placement, .count = f->at});
  if (!detail::schedule_dependencies::fits(s)) faults.add({.what = too_few_actions});
  if (!faults.empty()) return faults.take();

  detail::schedule_dependencies const dependencies(s);
  detail::report_invalid_actions(s, dependencies, faults);
  detail::pass_analysis(s, dependencies).report(options.passes, faults);
  detail::event_analysis(s, dependencies).report(faults);
  if (options.matching == message_matching::in_order && dependencies.messages())
    if (auto const f = detail::find_channel_mismatch(s))
      faults.add(
          {.what = channel_order, .rank = f->from, .at = f->sent, .other = f->received, .count = f->place});
  detail::weight_analysis(s, dependencies).report(faults);
  detail::report_memory(s, dependencies, options.most_kept, faults);
  detail::report_deadlock(s, {options.delivery, options.buffers, options.groups}, faults);
  return faults.take();
}

/// Returns one fault, or nothing. O(actions), plus the shortest cycle of a deadlock.
inline std::optional<schedule_fault> find_schedule_fault(schedule const& s, verify_options options = {}) {
  options.most_faults = 1;
  auto faults = schedule_faults(s, options);
  return faults.empty() ? std::nullopt : std::optional(std::move(faults.front()));
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown if a schedule cannot run. The witness is the first fault.
using schedule_error = fault_error<schedule_fault>;

/// Checks that a schedule can run under the options. \throws schedule_error
inline void require_schedule(schedule const& s, verify_options const& options = {}) {
  if (auto const f = find_schedule_fault(s, options)) throw schedule_error(*f);
}

}  // namespace cleave::detail
