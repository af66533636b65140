// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/schedule/list/pass_lists.hpp"
#include "cleave/schedule/list/pass_timer.hpp"
#include "cleave/schedule/list/placed_step.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave::detail {

/// The beginning of a schedule, as an exact search sees it.
struct exact_state {
  std::vector<std::uint16_t> done;  ///< of each stage: forward passes, gradients, weight gradients put off
  /// When each rank is free, and each pair of ranks may send again; then of each edge and microbatch when
  /// activations are there, and gradients, from when they are sent until they are read. Else 0.
  std::vector<double> times;

  exact_state() = default;
  explicit exact_state(placed_step const& step)
      : done(3 * step.stages.size()),
        times(first_message(step) + 2 * step.forward.size() * step.microbatches) {}

  std::uint16_t forward(std::uint32_t s) const { return done[std::size_t{3} * s]; }
  std::uint16_t gradient(std::uint32_t s) const { return done[std::size_t{3} * s + 1]; }
  std::uint16_t put_off(std::uint32_t s) const { return done[std::size_t{3} * s + 2]; }

  /// When the last rank is free.
  double latest(placed_step const& step) const {
    return *std::max_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(step.locals.size()));
  }
  /// Of two that have done the same: whether this one is nowhere later.
  bool is_no_later(exact_state const& other) const {
    for (std::size_t i = 0; i < times.size(); ++i)
      if (times[i] > other.times[i]) return false;
    return true;
  }

  /// What a rank keeps for microbatches.
  std::uint64_t kept(placed_step const& step, std::uint32_t rank) const {
    std::uint64_t sum = 0;
    for (auto const s : step.locals[rank]) {
      auto const& bytes = step.stages[s].bytes;
      auto const in_flight = static_cast<std::uint64_t>(forward(s) - gradient(s));
      sum += in_flight * bytes.stash + put_off(s) * bytes.weight_stash;
    }
    return sum;
  }

  /// When the next forward pass of a stage can begin, or its next gradient; `no_end` where it waits.
  double forward_ready(placed_step const& step, std::uint32_t s) const {
    if (forward(s) == step.microbatches) return no_end;
    double begin = times[step.stages[s].rank];
    for (auto const e : step.stages[s].before) {
      if (forward(step.feeding(e)) <= forward(s)) return no_end;
      begin = (std::max)(begin, times[activation(step, e, forward(s))]);
    }
    return begin;
  }
  double gradient_ready(placed_step const& step, std::uint32_t s) const {
    if (gradient(s) == forward(s)) return no_end;
    double begin = times[step.stages[s].rank];
    for (auto const e : step.stages[s].after) {
      if (gradient(step.fed(e)) <= gradient(s)) return no_end;
      begin = (std::max)(begin, times[activation(step, e, gradient(s)) + gradients(step)]);
    }
    return begin;
  }

  /// Does a pass as soon as it can be done; false where it cannot be done, or its rank would keep too much.
  bool carry_out(placed_step const& step, listed_pass p) {
    auto const& stage = step.stages[p.stage];
    auto& free = times[stage.rank];
    if (p.kind == action_kind::weight_gradient) {
      if (put_off(p.stage) == 0) return false;
      --done[3 * p.stage + 2];
      free += stage.cost.weight_gradient;
    } else {
      bool const goes_down = p.kind == action_kind::forward;
      auto const begin = goes_down ? forward_ready(step, p.stage) : gradient_ready(step, p.stage);
      if (begin == no_end) return false;
      auto const microbatch = done[3 * p.stage + (goes_down ? 0 : 1)]++;
      if (p.kind == action_kind::input_gradient) ++done[3 * p.stage + 2];
      free = begin + stage.cost.of(p.kind);
      auto const shift = goes_down ? 0 : gradients(step);
      for (auto const e : goes_down ? stage.before : stage.after)
        times[activation(step, e, microbatch) + shift] = 0;
      for (auto const e : goes_down ? stage.after : stage.before)
        times[activation(step, e, microbatch) + shift] =
            send(step, goes_down ? step.forward[e] : step.backward[e], free);
    }
    forget_past(step, stage.rank);
    return kept(step, stage.rank) <= step.room(stage.rank);
  }

 private:
  static std::size_t first_message(placed_step const& step) { return step.locals.size() + step.pairs; }
  static std::size_t gradients(placed_step const& step) { return step.forward.size() * step.microbatches; }
  static std::size_t activation(placed_step const& step, std::uint32_t edge, std::uint32_t microbatch) {
    return first_message(step) + edge * std::size_t{step.microbatches} + microbatch;
  }

  double send(placed_step const& step, placed_message const& m, double now) {
    auto& pair = times[step.locals.size() + m.pair];
    auto const leaves = (std::max)(pair, now);
    if (m.leaving > 0) pair = leaves + m.leaving;
    return leaves + m.delay;
  }

  /// What was there before its reader is free might as well have come now: so that beginnings are equal that
  /// go on alike.
  void forget_past(placed_step const& step, std::uint32_t rank) {
    auto const now = times[rank];
    auto const settle = [now](double& t) {
      if (t > 0) t = (std::max)(t, now);
    };
    for (auto const s : step.locals[rank]) {
      for (auto const e : step.stages[s].after) settle(times[step.locals.size() + step.forward[e].pair]);
      for (auto const e : step.stages[s].before) settle(times[step.locals.size() + step.backward[e].pair]);
      for (auto const e : step.stages[s].before)
        for (std::uint32_t k = forward(s); k < step.microbatches; ++k) settle(times[activation(step, e, k)]);
      for (auto const e : step.stages[s].after)
        for (std::uint32_t k = gradient(s); k < step.microbatches; ++k)
          settle(times[activation(step, e, k) + gradients(step)]);
    }
  }
};

}  // namespace cleave::detail
