// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/schedule/list/backward_choice.hpp"
#include "cleave/schedule/list/pass_lists.hpp"
#include "cleave/schedule/list/pass_timer.hpp"
#include "cleave/schedule/list/placed_step.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/search/search_schedule.hpp"

namespace cleave::inline v0_2::detail {

/// A partial schedule, as a state of the exact search.
struct exact_state {
  std::vector<std::uint16_t> done;  ///< per stage: forward passes, gradients, and pending weight gradients
  /// Times: when each rank is free; when each pair of ranks may send again; and for each edge and microbatch
  /// the arrival of activations, then of gradients. An arrival is 0 before the send and after the read.
  std::vector<double> times;

  exact_state() = default;
  explicit exact_state(placed_step const& step)
      : done(3 * step.stages.size()),
        times(first_message(step) + 2 * step.forward.size() * step.microbatches) {}

  std::uint16_t forward(std::uint32_t s) const { return done[std::size_t{3} * s]; }
  std::uint16_t gradient(std::uint32_t s) const { return done[std::size_t{3} * s + 1]; }
  std::uint16_t put_off(std::uint32_t s) const { return done[std::size_t{3} * s + 2]; }

  /// Returns the time at which the last rank becomes free.
  double latest(placed_step const& step) const {
    return *std::max_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(step.locals.size()));
  }
  /// Returns true if no time of this state is later. Precondition: both have done the same passes.
  bool is_no_later(exact_state const& other) const {
    for (std::size_t i = 0; i < times.size(); ++i)
      if (times[i] > other.times[i]) return false;
    return true;
  }

  /// Returns the bytes that a rank keeps for microbatches.
  std::uint64_t kept(placed_step const& step, std::uint32_t rank) const {
    std::uint64_t sum = 0;
    for (auto const s : step.locals[rank]) {
      auto const& bytes = step.stages[s].bytes;
      auto const in_flight = static_cast<std::uint64_t>(forward(s) - gradient(s));
      sum += in_flight * bytes.saved + put_off(s) * bytes.saved_for_weights;
    }
    return sum;
  }

  /// Returns the time at which the next forward pass of a stage can begin, or `no_end` if it has to wait.
  double forward_ready(placed_step const& step, std::uint32_t s) const {
    if (forward(s) == step.microbatches) return no_end;
    double begin = times[step.stages[s].rank];
    for (auto const e : step.stages[s].before) {
      if (forward(step.feeding(e)) <= forward(s)) return no_end;
      begin = (std::max)(begin, times[activation(step, e, forward(s))]);
    }
    return begin;
  }
  /// Returns the time at which the next gradient pass of a stage can begin, or `no_end` if it has to wait.
  double gradient_ready(placed_step const& step, std::uint32_t s) const {
    if (gradient(s) == forward(s)) return no_end;
    double begin = times[step.stages[s].rank];
    for (auto const e : step.stages[s].after) {
      if (gradient(step.fed(e)) <= gradient(s)) return no_end;
      begin = (std::max)(begin, times[activation(step, e, gradient(s)) + gradients(step)]);
    }
    return begin;
  }

  /// Runs a pass as early as possible. Returns false if it is not ready, or if its rank would exceed its
  /// memory.
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

  /// Raises past times to the time at which their reader is free. This does not change the continuations, and
  /// makes equivalent states equal.
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

/// A lower bound on the makespan of any completion of a partial schedule.
class exact_bound {
 public:
  exact_bound(placed_step const& step, backward_choice form)
      : step_(step), back_(step.stages.size()), up_(step.stages.size()), down_(step.stages.size()) {
    for (auto const s : step.order) {
      back_[s] = least_backward_of(step.stages[s].cost, form);
      up_[s] = back_[s].rest;
      for (auto const e : step.stages[s].before) {
        auto const to = step.feeding(e);
        up_[s] = (std::max)(up_[s], step.backward[e].delay + back_[to].first + up_[to]);
      }
    }
    for (auto it = step.order.rbegin(); it != step.order.rend(); ++it) {
      down_[*it] = back_[*it].first + up_[*it];
      for (auto const e : step.stages[*it].after) {
        auto const to = step.fed(e);
        down_[*it] = (std::max)(down_[*it], step.forward[e].delay + step.stages[to].cost.forward + down_[to]);
      }
    }
  }

  double of(exact_state const& state) const {
    double most = 0;
    for (std::size_t r = 0; r < step_.locals.size(); ++r) {
      double gradients = 0, rest = 0, up = no_end;
      for (auto const s : step_.locals[r]) {
        auto const m = step_.microbatches;
        auto const& cost = step_.stages[s].cost;
        auto const forward = m - state.forward(s), gradient = m - state.gradient(s);
        gradients += forward * cost.forward + gradient * back_[s].first;
        rest += gradient * back_[s].rest + state.put_off(s) * cost.weight_gradient;
        if (gradient > 0) up = (std::min)(up, up_[s]);
        if (auto const t = state.forward_ready(step_, s); t < no_end)
          most = (std::max)(most, t + forward * cost.forward + down_[s]);
        if (auto const t = state.gradient_ready(step_, s); t < no_end)
          most = (std::max)(most, t + gradient * back_[s].first + up_[s]);
      }
      most = (std::max)(most, state.times[r] + gradients + rest);
      if (up < no_end) most = (std::max)(most, state.times[r] + gradients + up);
    }
    return most;
  }

 private:
  placed_step const& step_;
  std::vector<least_backward> back_;
  std::vector<double> up_,
      down_;  // time from the end of a stage's gradient pass (up) or forward pass (down) to the end of all
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Options of `find_exact_schedule`.
struct exact_options {
  backward_choice form = backward_choice::either;
  std::uint64_t most_states = 2'000'000;  ///< limit on stored states, about 100 bytes each
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Branch and bound over the sets of passes done, for `exact_passes`.
///
/// The numbers of passes done by each stage determine a state except for its times. A state is dominated by
/// another with the same numbers if none of the other's times is later.
class exact_search {
 public:
  exact_search(placed_step const& step, double below, exact_options const& options)
      : step_(step), options_(options), bound_(step, options.form), best_(below), layers_(last() + 1) {}

  /// Runs the search. Returns true if it was exhaustive.
  bool run() {
    exact_state first(step_);
    states_.push_back({no_state, {}, first});
    layers_[0][first.done].push_back(0);
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      for (auto const& [done, members] : layers_[l])
        for (auto const id : members)
          if (!expand(l, id)) return false;
      layers_[l].clear();
    }
    return true;
  }

  /// Returns the best lists that end before `below`, if any.
  std::optional<pass_lists> best() const {
    if (best_state_ == no_state) return std::nullopt;
    pass_lists lists(step_.locals.size());
    for (auto at = best_state_; states_[at].parent != no_state; at = states_[at].parent)
      lists[step_.stages[states_[at].what.stage].rank].push_back(states_[at].what);
    for (auto& list : lists) std::ranges::reverse(list);
    return lists;
  }

 private:
  static constexpr std::uint32_t no_state = 0xffffffff;
  struct entry {
    std::uint32_t parent;
    listed_pass what;
    exact_state state;
  };

  std::size_t last() const { return 3 * step_.stages.size() * step_.microbatches; }

  /// Adds all extensions of a state; returns false if there are too many states.
  bool expand(std::size_t layer, std::uint32_t id) {
    using enum action_kind;
    if (states_[id].state.times.empty()) return true;  // dominated since it was added
    for (std::uint32_t s = 0; s < step_.stages.size(); ++s)
      for (auto const kind : {forward, backward, input_gradient, weight_gradient}) {
        if (kind == backward && options_.form == backward_choice::split) continue;
        if (kind == input_gradient && options_.form == backward_choice::whole) continue;
        auto next = states_[id].state;
        if (!next.carry_out(step_, {s, kind})) continue;
        auto const done = layer + (kind == backward ? 2 : 1);
        if (done == last()) {
          finish(id, {s, kind}, std::move(next));
        } else if (bound_.of(next) < best_ - tolerance()) {
          if (states_.size() >= options_.most_states) return false;
          add(done, id, {s, kind}, std::move(next));
        }
      }
    return true;
  }

  double tolerance() const { return best_ < no_end ? 1e-9 * best_ : 0; }

  void finish(std::uint32_t parent, listed_pass what, exact_state state) {
    double const end = state.latest(step_);
    if (end >= best_ - tolerance()) return;
    best_ = end;
    best_state_ = static_cast<std::uint32_t>(states_.size());
    states_.push_back({parent, what, std::move(state)});
  }

  void add(std::size_t layer, std::uint32_t parent, listed_pass what, exact_state state) {
    auto& front = layers_[layer][state.done];
    for (auto const id : front)
      if (states_[id].state.is_no_later(state)) return;
    std::erase_if(front, [&](std::uint32_t id) {
      bool const superfluous = state.is_no_later(states_[id].state);
      if (superfluous) states_[id].state = {};
      return superfluous;
    });
    front.push_back(static_cast<std::uint32_t>(states_.size()));
    states_.push_back({parent, what, std::move(state)});
  }

  /// Lexicographic order. Not the operator of std::vector, which is wrong before g++ 12.4 if the most
  /// significant byte of a number is the first (PR 113960).
  struct before {
    bool operator()(std::vector<std::uint16_t> const& a, std::vector<std::uint16_t> const& b) const {
      return std::ranges::lexicographical_compare(a, b);
    }
  };

  placed_step const& step_;
  exact_options const& options_;
  exact_bound bound_;
  double best_;
  std::uint32_t best_state_ = no_state;
  std::vector<entry> states_;
  std::vector<std::map<std::vector<std::uint16_t>, std::vector<std::uint32_t>, before>>
      layers_;  // indexed by the number of passes done
};

/// The result of an exact search.
struct exact_lists {
  std::optional<pass_lists>
      lists;              ///< the lists with the least makespan, or nothing if none ends before `below`
  bool is_proved = true;  ///< true if the search was exhaustive; otherwise `lists` may not be optimal
};

/// Returns the pass lists of a step with the least makespan within the memory limits, if they end before
/// `below`. All orders are considered except those that a bound or a dominating state rules out. Exponential;
/// intended for few ranks and microbatches.
inline exact_lists exact_passes(placed_step const& step, double below, exact_options const& options = {}) {
  exact_search search(step, below, options);
  bool const is_proved = search.run();
  return {search.best(), is_proved};
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the schedule with the least makespan within the memory limits, over all placements that the step
/// allows.
///
/// Returns nothing if `options.most_states` is too small to decide, or if there are more than 65535
/// microbatches. Exponential; practical for about 3 ranks and 4 microbatches.
/// \throws search_error, schedule_count_error
/// \throws byte_cap_error if no placement fits within the memory limits
inline std::optional<found_schedule> find_exact_schedule(search_problem const& problem,
                                                         exact_options const& options = {}) {
  auto const steps = detail::runnable_steps(problem, options.form);
  if (problem.microbatches > 0xffff) return std::nullopt;
  detail::candidate_list made(steps, options.form);
  made.add_lists();
  auto const candidates = made.take();
  auto best = candidates.front();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    auto found = detail::exact_passes(steps[i], best.makespan, options);
    if (!found.is_proved) return std::nullopt;
    if (!found.lists) continue;
    best.step = i;
    best.lists = std::move(*found.lists);
    best.makespan = detail::pass_timer(steps[i]).makespan(best.lists);
  }
  auto found = detail::certified(problem, steps, best, options.form);
  found.certificate.bound = found.certificate.makespan;
  found.certificate.reason = "exhaustive search";
  detail::note_beginning(candidates.front(), made.best_family(), found.certificate);
  return found;
}
}  // namespace cleave
