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
#include "cleave/schedule/search/exact_bound.hpp"
#include "cleave/schedule/search/exact_state.hpp"

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
