// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/executor/detail/overlapped_pairs.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/custom_stage.hpp"
#include "cleave/run/model/recording.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/run/program/packed_program.hpp"
#include "cleave/run/program/pass_memory.hpp"
#include "cleave/run/program/rank_program.hpp"
#include "cleave/run/program/step_values.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave::inline v0_2::detail {

/// Calls the member function of the stages for `call`. `in` and `out` belong to its pass: inputs and results
/// of a forward pass, or gradients of results and of inputs of a backward pass. Precondition: the stages have
/// the member function (`find_lacking_ability`).
template <device D, stage<D> S>
void call_stage(S& stages, typename D::stream& s, rank_call const& call, stage_pass const& p,
                std::span<tensor_view const> in, std::span<tensor_view> out) {
  auto const kind = call.kind;
  auto const action = call.of.kind;
  if (kind == call_kind::forward) return stages.forward(s, p, in, out);
  if constexpr (trained_stage<S, D>)
    if (kind == call_kind::backward) return stages.backward(s, p, in, out);
  if constexpr (split_backward_stage<S, D>) {
    if (kind == call_kind::backward_input) return stages.backward_input(s, p, in, out);
    if (kind == call_kind::backward_weight) return stages.backward_weight(s, p);
  }
  if constexpr (sharded_stage<S, D>) {
    if (kind == call_kind::unshard) return stages.unshard(s, call.of.stage);
    if (kind == call_kind::reshard) return stages.reshard(s, call.of.stage);
  }
  if constexpr (offloaded_stage<S, D>) {
    if (action == action_kind::offload) return stages.offload(s, p);
    if (action == action_kind::reload) return stages.reload(s, p);
  }
  if constexpr (recomputed_stage<S, D>)
    if (action == action_kind::recompute) return stages.recompute(s, p, in);
  expects(false, "call_stage: the stages have a member function for the call");
}

/// The passes of a program that run hooks of the whole model, by number of the pass.
struct hooked_passes {
  std::vector<char> first;  ///< passes of a stage that reads no other stage
  std::vector<char> last;   ///< passes of a stage that no other stage reads
};

/// O(passes and their values).
inline hooked_passes hooked_passes_of(packed_passes const& passes) {
  auto const is_sent = [](program_value const& v) { return v.place.where == place_kind::arena; };
  hooked_passes made;
  for (std::uint32_t n = 0; n < passes.size(); ++n) {
    auto const forward = passes.forward(n);
    bool reads = false, sends = false;
    passes.each_in(forward, [&](program_value const& v) { reads |= is_sent(v); });
    passes.each_out(forward, [&](program_value const& v) { sends |= is_sent(v); });
    passes.each_copy(forward, [&](program_copy const& c) { sends |= is_sent(c.to); });
    made.first.push_back(!reads);
    made.last.push_back(!sends);
  }
  return made;
}

/// Tells stages that their work is recorded, as long as it lives.
template <class D, class S>
class recording_notice {
 public:
  /// `s` is the stream whose work is recorded; null: none.
  recording_notice(S& stages, typename D::stream* s) : stages_(stages), stream_(s) {
    if constexpr (told_of_recordings<S, D>)
      if (stream_) stages_.begin_recording(*stream_);
  }
  recording_notice(recording_notice&&) = delete;
  ~recording_notice() {
    if constexpr (told_of_recordings<S, D>)
      if (stream_) stages_.end_recording(*stream_);
  }

 private:
  S& stages_;
  typename D::stream* stream_;
};

/// Calls the stages of one rank with the memory of its program. Refers to all arguments of the constructor.
template <device D, stage<D> S>
class stage_caller {
 public:
  /// `reporter` is the number of the rank on the rendezvous.
  stage_caller(S& stages, packed_program const& p, pass_memory<D>& m, rank_id reporter)
      : stages_(stages), program_(p), memory_(m), reporter_(reporter) {
    if constexpr (has_hooks) hooked_ = hooked_passes_of(p.passes());
  }
  stage_caller(S&, packed_program const&&, pass_memory<D>&, rank_id) = delete;

  /// Uses these values for the following calls. They must stay alive until the step ends. `ready` gets the
  /// gradients that stages report; its stage has no meaning.
  void begin_step(step_values const& v, gradient_report ready = {}) {
    weights_ = v.weights;
    ready_ = ready;
  }

  bool trains() const { return program_.trains(); }

  /// Calls the stage of instruction `i` on stream `s`. Attributes exceptions and device errors to the stage
  /// call. If the stream has `about`, it is given the stage call, so that it can attribute later errors. If
  /// the stream has `watch`, the stage is called through it; if it has `range`, its result lives meanwhile.
  /// \throws run_error
  void call(rank_instruction const& i, typename D::stream& s) {
    auto const operation = [&] { return name_of(i.call.kind); };
    issue_attributed(i, operation, s, [&] {
      call_hooks_before(i, s);
      watch(s, [&] { call_stage<D>(stages_, s, i.call, pass_of(i), in_of(i), out_of(i)); });
      call_hooks_after(i, s);
      write_results(i, s);
    });
  }

  /// Calls the stages for an action that they execute themselves, like `call`. `parts` are the parts of the
  /// action, or the action itself.
  void call_custom(action const& what, std::span<rank_instruction const> parts, typename D::stream& s) {
    if constexpr (custom_stage<S, D>) {
      parts_.clear();
      for (auto const& i : parts) parts_.push_back(part_of(i));
      auto const operation = [] { return name_of(call_kind::custom); };
      issue_attributed(parts.front(), operation, s, [&] {
        for (auto const& i : parts) call_hooks_before(i, s);
        watch(s, [&] { stages_.custom(s, what, parts_); });
        for (auto const& i : parts) call_hooks_after(i, s);
        for (auto const& i : parts) write_results(i, s);
      });
    } else {
      expects(false, "stage_caller: stages with custom(stream, action, parts)");
    }
  }

  /// Calls the stages for a forward and a backward pass that run as one, like `call`.
  void call_overlapped(rank_instruction const& forward, rank_instruction const& backward,
                       typename D::stream& s) {
    if constexpr (overlapped_stage<S, D>) {
      auto const operation = [&] { return overlapped_text(forward.call.of, backward.call.of); };
      issue_attributed(forward, operation, s, [&] {
        call_hooks_before(forward, s);
        watch(s, [&] { stages_.overlapped(s, part_of(forward), part_of(backward)); });
        call_hooks_after(forward, s);
        call_hooks_after(backward, s);
        write_results(forward, s);
      });
    } else {
      expects(false, "stage_caller: stages with overlapped(stream, forward, backward)");
    }
  }

 private:
  static constexpr bool has_hooks =
      hooked_before_forward<S, D> || hooked_after_forward<S, D> || hooked_after_backward<S, D>;

  /// Calls `issue`. `operation()` returns the text for failures.
  template <class Operation, class F>
  void issue_attributed(rank_instruction const& i, Operation operation, typename D::stream& s, F issue) {
    stage_call const at{i.call.of.stage, i.call.of.microbatch};
    auto const placed = [&](failure f) {
      f.at = at;
      f.reporter = f.culprit = reporter_;
      f.operation = operation();
      return run_error(std::move(f));
    };
    if constexpr (requires { s.about(at); }) s.about(at);
    [[maybe_unused]] auto const shown = range_of(s, at, operation);
    try {
      issue();
    } catch (run_error const& e) {
      if (e.info.code != failure_code::device || e.info.at) throw;
      throw placed(e.info);
    } catch (...) {
      throw placed(current_failure(at));
    }
  }
  /// Returns what shows a stage call to profilers as long as it lives, if the stream has that.
  template <class Operation>
  static auto range_of(typename D::stream& s, stage_call const& at, Operation const& operation) {
    if constexpr (requires { s.range(at, operation); })
      return s.range(at, operation);
    else
      return 0;
  }
  template <class F>
  static void watch(typename D::stream& s, F const& issue) {
    if constexpr (requires { s.watch(issue); })
      s.watch(issue);
    else
      issue();
  }

  void call_hooks_before(rank_instruction const& i, typename D::stream& s) {
    if constexpr (hooked_before_forward<S, D>)
      if (i.call.of.kind == action_kind::forward && hooked_.first[i.pass] != 0)
        call_hook("before_forward", i, s, [&](stage_pass const& p) { stages_.before_forward(s, p); });
  }
  void call_hooks_after(rank_instruction const& i, typename D::stream& s) {
    [[maybe_unused]] auto const kind = i.call.of.kind;
    if constexpr (hooked_after_forward<S, D>)
      if (kind == action_kind::forward && hooked_.last[i.pass] != 0)
        call_hook("after_forward", i, s, [&](stage_pass const& p) { stages_.after_forward(s, p); });
    if constexpr (hooked_after_backward<S, D>)
      if ((kind == action_kind::backward || kind == action_kind::weight_gradient) &&
          hooked_.first[i.pass] != 0)
        call_hook("after_backward", i, s, [&](stage_pass const& p) { stages_.after_backward(s, p); });
  }
  template <class F>
  void call_hook(char const* name, rank_instruction const& i, typename D::stream& s, F const& hook) {
    issue_attributed(i, [&] { return name; }, s, [&] { watch(s, [&] { hook(pass_of(i)); }); });
  }

  void write_results(rank_instruction const& i, typename D::stream& s) {
    if (is_forward_pass(i.call)) memory_.write_results(s, i.pass, i.call.of.microbatch);
  }

  custom_part part_of(rank_instruction const& i) { return {i.call.of, pass_of(i), in_of(i), out_of(i)}; }
  stage_pass pass_of(rank_instruction const& i) const {
    auto const& a = i.call.of;
    if (i.pass == rank_instruction::none) return {.stage = a.stage, .microbatch = a.microbatch};
    return {.stage = a.stage,
            .microbatch = a.microbatch,
            .weight = weights_.empty() ? weight_of_each(program_.scale(), program_.microbatches())
                                       : weights_[index(a.microbatch)],
            .from_loss = i.call.from_loss,
            .last = i.call.last,
            .trains = trains(),
            .saved = memory_.saved(i.pass),
            .saved_for_weights = memory_.saved_for_weights(i.pass),
            .ready = i.call.last ? gradient_report{ready_.call, ready_.to, a.stage} : gradient_report()};
  }

  /// Returns the inputs of a pass. Calls that are no pass of their own, such as RECOMPUTE, get the inputs of
  /// the forward pass.
  std::span<tensor_view const> in_of(rank_instruction const& i) {
    if (i.pass == rank_instruction::none) return {};
    return has_views(i.call) ? memory_.in(i.pass) : memory_.in_of_forward(i.pass);
  }
  std::span<tensor_view> out_of(rank_instruction const& i) {
    return has_views(i.call) ? memory_.out(i.pass) : std::span<tensor_view>();
  }
  static bool has_views(rank_call const& c) { return is_forward_pass(c) || is_backward_pass(c); }

  S& stages_;
  packed_program const& program_;
  pass_memory<D>& memory_;
  rank_id reporter_;
  std::span<double const> weights_;
  gradient_report ready_;
  std::vector<custom_part> parts_;  // of the current action
  hooked_passes hooked_;            // empty for stages without hooks
};

}  // namespace cleave::detail
