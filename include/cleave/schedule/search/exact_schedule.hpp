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
      sum += in_flight * bytes.saved + put_off(s) * bytes.saved_for_weights;
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

/// The time before which no end of a beginning is over.
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
      down_;  // from the end of a stage's gradient, of its forward pass, until all is over
};

}  // namespace cleave::detail

namespace cleave {

struct exact_options {
  backward_choice form = backward_choice::either;
  std::uint64_t most_states = 2'000'000;  ///< of some 100 bytes each
};

}  // namespace cleave

namespace cleave::detail {

/// Branch and bound over what has been done; `exact_passes` is its one use.
///
/// How many passes of each kind each stage has done says all of a beginning but its times. Of two beginnings
/// that have done the same, one in which nothing is later makes the other superfluous.
class exact_search {
 public:
  exact_search(placed_step const& step, double below, exact_options const& options)
      : step_(step), options_(options), bound_(step, options.form), best_(below), layers_(last() + 1) {}

  /// Whether all was looked at.
  bool run() {
    exact_state first(step_);
    states_.push_back({nobody, {}, first});
    layers_[0][first.done].push_back(0);
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      for (auto const& [done, members] : layers_[l])
        for (auto const id : members)
          if (!expand(l, id)) return false;
      layers_[l].clear();
    }
    return true;
  }

  /// Lists that end before `below`, or nothing where there are none.
  std::optional<pass_lists> best() const {
    if (best_state_ == nobody) return std::nullopt;
    pass_lists lists(step_.locals.size());
    for (auto at = best_state_; states_[at].parent != nobody; at = states_[at].parent)
      lists[step_.stages[states_[at].what.stage].rank].push_back(states_[at].what);
    for (auto& list : lists) std::ranges::reverse(list);
    return lists;
  }

 private:
  static constexpr std::uint32_t nobody = 0xffffffff;
  struct entry {
    std::uint32_t parent;
    listed_pass what;
    exact_state state;
  };

  std::size_t last() const { return 3 * step_.stages.size() * step_.microbatches; }

  /// Adds all that a beginning can go on with; false where there are too many.
  bool expand(std::size_t layer, std::uint32_t id) {
    using enum action_kind;
    if (states_[id].state.times.empty()) return true;  // superfluous by now
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

  placed_step const& step_;
  exact_options const& options_;
  exact_bound bound_;
  double best_;
  std::uint32_t best_state_ = nobody;
  std::vector<entry> states_;
  std::vector<std::map<std::vector<std::uint16_t>, std::vector<std::uint32_t>>> layers_;  // by passes done
};

/// What an exact search found.
struct exact_lists {
  std::optional<pass_lists> lists;  ///< that end first of all, or nothing where none end before `below`
  bool is_proved = true;            ///< whether all was looked at; else `lists` may not be the best
};

/// The lists of a step that end first under its caps, if they end before `below`: all orders are looked at,
/// but those that a bound or an equal beginning rules out. For a few ranks and microbatches. Exponential.
inline exact_lists exact_passes(placed_step const& step, double below, exact_options const& options = {}) {
  exact_search search(step, below, options);
  bool const is_proved = search.run();
  return {search.best(), is_proved};
}

}  // namespace cleave::detail

namespace cleave {

/// The schedule of a step that ends first under its caps, on any placement that it may have; or nothing where
/// `options.most_states` are too few to tell. For some 3 ranks and 4 microbatches. Exponential.
/// \throws search_error, schedule_count_error, byte_cap_error
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
  found.certificate.reason = "all orders";
  detail::note_beginning(candidates.front(), made.best_family(), found.certificate);
  return found;
}
}  // namespace cleave
