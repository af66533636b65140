// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/schedule/list/backward_choice.hpp"
#include "cleave/schedule/list/pass_lists.hpp"
#include "cleave/schedule/list/placed_step.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave::inline v0_2::detail {

/// The pass that a rank prefers among those that can begin at the same time.
enum class list_preference : std::uint8_t { gradients, forwards };

/// The time at which weight gradients run.
enum class weight_timing : std::uint8_t {
  when_idle,  ///< if nothing else can begin
  at_once,    ///< right after their I
};

/// The rules of a list schedule.
struct list_rule {
  bool operator==(list_rule const&) const = default;

  backward_choice form = backward_choice::whole;  ///< `whole` or `split`
  list_preference first = list_preference::gradients;
  weight_timing weights = weight_timing::when_idle;
  std::vector<std::uint64_t> room = {};  ///< bytes per rank; if empty, those of the step
};

/// Fills lists pass by pass, for `list_passes`.
///
/// A forward pass may begin only while room is left for one pass of each deeper stage of its rank. Hence, in
/// a chain, the deepest stage that others wait for can always begin.
class pass_lister {
 public:
  pass_lister(placed_step const& step, list_rule const& rule)
      : step_(step),
        rule_(rule),
        stages_(step.stages.size()),
        ranks_(step.locals.size()),
        pairs_(step.pairs),
        activation_(step.forward.size() * step.microbatches),
        gradient_(activation_),
        lists_(ranks_.size()) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      std::uint64_t deeper = 0;
      for (auto it = step.locals[r].rbegin(); it != step.locals[r].rend(); ++it) {
        auto const& bytes = step.stages[*it].bytes;
        auto const more = rule.form == backward_choice::split && bytes.saved_for_weights > bytes.saved
                              ? bytes.saved_for_weights
                              : bytes.saved;
        stages_[*it].kept = more;
        stages_[*it].dependencies = deeper += more;
      }
      ranks_[r].room = rule.room.empty() ? step.room(r) : (std::min)(rule.room[r], step.room(r));
      ranks_[r].can_run = deeper <= ranks_[r].room && step.resident[r] <= step.memory_limit[r];
    }
  }

  /// Returns the lists, or nothing if memory lets no rank continue.
  std::optional<pass_lists> take() {
    for (auto const& r : ranks_)
      if (!r.can_run) return std::nullopt;
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) look_at(r);
    while (!heap_.empty()) {
      auto const next = heap_.front();
      std::ranges::pop_heap(heap_, is_later);
      heap_.pop_back();
      if (next.version == ranks_[next.rank].version) carry_out(next.rank);
    }
    for (auto const& s : stages_)
      if (s.gradient < step_.microbatches || s.put_off > 0) return std::nullopt;
    return std::move(lists_);
  }

 private:
  struct stage_state {
    std::uint32_t forward = 0, gradient = 0, put_off = 0;
    std::uint64_t kept = 0,
                  dependencies = 0;  // dependencies: bytes of its own and of all deeper stages of the rank
  };
  struct candidate {
    double start = no_start;
    listed_pass what;
  };
  struct rank_state {
    double free = 0;
    std::uint64_t now = 0, room = 0;
    bool can_run = true;
    candidate best;
    std::uint32_t version = 0;
  };
  /// A rank's next pass; outdated if the rank's version has changed since.
  struct entry {
    double start;
    std::uint32_t rank, version;
  };
  static constexpr double no_start = std::numeric_limits<double>::infinity();
  static bool is_later(entry const& a, entry const& b) {
    return a.start > b.start || (a.start == b.start && a.rank > b.rank);
  }

  std::size_t cell(std::uint32_t edge, std::uint32_t microbatch) const {
    return edge * std::size_t{step_.microbatches} + microbatch;
  }

  double forward_ready(std::uint32_t s) const {
    auto const& state = stages_[s];
    auto const& rank = ranks_[step_.stages[s].rank];
    if (state.forward == step_.microbatches || rank.now + state.dependencies > rank.room) return no_start;
    double ready = 0;
    for (auto const e : step_.stages[s].before) {
      if (stages_[step_.feeding(e)].forward <= state.forward) return no_start;
      ready = (std::max)(ready, activation_[cell(e, state.forward)]);
    }
    return ready;
  }
  double gradient_ready(std::uint32_t s) const {
    auto const& state = stages_[s];
    if (state.gradient == state.forward) return no_start;
    double ready = 0;
    for (auto const e : step_.stages[s].after) {
      if (stages_[step_.fed(e)].gradient <= state.gradient) return no_start;
      ready = (std::max)(ready, gradient_[cell(e, state.gradient)]);
    }
    return ready;
  }

  /// Returns the next pass of `r`: the one that can begin first; among several the preferred kind, then the
  /// deepest.
  candidate find_next(std::uint32_t r) const {
    candidate best;
    auto const offer = [&](double ready, std::uint32_t s, action_kind kind) {
      auto const start = (std::max)(ready, ranks_[r].free);
      if (start < best.start) best = {start, {s, kind}};
    };
    auto const offer_weights = [&] {
      for_deepest_first(r, [&](std::uint32_t s) {
        if (stages_[s].put_off > 0) offer(0, s, action_kind::weight_gradient);
      });
    };
    auto const offer_gradients = [&] {
      auto const kind =
          rule_.form == backward_choice::split ? action_kind::input_gradient : action_kind::backward;
      for_deepest_first(r, [&](std::uint32_t s) { offer(gradient_ready(s), s, kind); });
    };
    if (rule_.weights == weight_timing::at_once) offer_weights();
    if (rule_.first == list_preference::gradients) offer_gradients();
    for_deepest_first(r, [&](std::uint32_t s) { offer(forward_ready(s), s, action_kind::forward); });
    if (rule_.first == list_preference::forwards) offer_gradients();
    if (rule_.weights == weight_timing::when_idle) offer_weights();
    return best;
  }

  template <class F>
  void for_deepest_first(std::uint32_t r, F f) const {
    for (auto it = step_.locals[r].rbegin(); it != step_.locals[r].rend(); ++it) f(*it);
  }

  void look_at(std::uint32_t r) {
    auto& rank = ranks_[r];
    rank.best = find_next(r);
    ++rank.version;
    if (rank.best.start == no_start) return;
    heap_.push_back({rank.best.start, r, rank.version});
    std::ranges::push_heap(heap_, is_later);
  }

  void carry_out(std::uint32_t r) {
    auto& rank = ranks_[r];
    auto const [start, what] = rank.best;
    auto const& stage = step_.stages[what.stage];
    auto& state = stages_[what.stage];
    lists_[r].push_back(what);
    rank.free = start + stage.cost.of(what.kind);
    if (what.kind == action_kind::forward) {
      rank.now += state.kept;
      for (auto const e : stage.after) send(r, step_.forward[e], activation_[cell(e, state.forward)]);
      ++state.forward;
    } else if (what.kind == action_kind::weight_gradient) {
      --state.put_off;
      rank.now -= let_go_by_weight(what.stage);
    } else {
      bool const split = what.kind == action_kind::input_gradient;
      state.put_off += split;
      rank.now -= split ? state.kept - let_go_by_weight(what.stage) : state.kept;
      for (auto const e : stage.before) send(r, step_.backward[e], gradient_[cell(e, state.gradient)]);
      ++state.gradient;
    }
    look_at(r);
    if (what.kind == action_kind::weight_gradient) return;
    bool const forward = what.kind == action_kind::forward;
    for (auto const e : forward ? stage.after : stage.before) {
      auto const other = step_.stages[forward ? step_.fed(e) : step_.feeding(e)].rank;
      if (other != r) look_at(other);
    }
  }

  std::uint64_t let_go_by_weight(std::uint32_t s) const { return step_.stages[s].bytes.saved_for_weights; }

  void send(std::uint32_t r, placed_message const& m, double& to) {
    auto& pair = pairs_[m.pair];
    auto const leaves = (std::max)(ranks_[r].free, pair);
    pair = leaves + m.leaving;
    to = leaves + m.delay;
  }

  placed_step const& step_;
  list_rule const& rule_;
  std::vector<stage_state> stages_;
  std::vector<rank_state> ranks_;
  std::vector<double> pairs_, activation_, gradient_;
  pass_lists lists_;
  std::vector<entry> heap_;
};

/// Returns a list schedule in which each rank always runs the pass that can begin first. Like
/// `list_schedule`, but with a memory limit per rank, links between ranks, and preferences. Returns nothing
/// if memory lets no rank continue. Graham, 1969. O(passes * (stages per rank + log ranks)).
inline std::optional<pass_lists> list_passes(placed_step const& step, list_rule const& rule = {}) {
  return pass_lister(step, rule).take();
}

}  // namespace cleave::detail
