// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/step_index.hpp"
#include "cleave/schedule/memory/share_slots.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::inline v0_2 {

/// The cells during which a rank keeps the result of one forward pass: from its F to its B or W.
struct pass_lifetime {
  stage_id stage;
  microbatch_id microbatch;
  lifetime alive;

  bool operator==(pass_lifetime const&) const = default;
};

/// The reason why the lifetimes of some passes cannot be computed, and its place.
struct lifetime_fault {
  static constexpr char subject[] = "lifetimes: ";
  enum class kind : std::uint8_t {
    unknown_rank,             ///< the schedule has no list of this rank
    no_stages,                ///< the list of stages is empty
    stage_repeated,           ///< a stage is listed twice
    microbatch_missing,       ///< a pass has no microbatch number
    unknown_microbatch,       ///< the microbatch number is out of range
    repeated,                 ///< an F or I is done twice
    released_again,           ///< a second B or W for the same stage and microbatch
    forward_missing,          ///< there is no F
    release_missing,          ///< there is neither B nor W
    input_gradient_missing,   ///< there is W but no I
    weight_before_input,      ///< W precedes its I, and at least one of the two is outside any compound
    released_before_forward,  ///< B or W precedes its F
  };
  kind what;
  rank_id rank{};
  action at = {};

  bool operator==(lifetime_fault const&) const = default;
};

/// The message for a fault: where it is and how to correct it.
inline std::string describe(lifetime_fault const& f) {
  using enum lifetime_fault::kind;
  auto const rank = "rank " + std::to_string(index(f.rank));
  if (f.what == unknown_rank) return rank + " does not exist in the schedule; name one of its ranks";
  auto const at = rank + ": '" + action_text(f.at) + "' ";
  switch (f.what) {
    case no_stages:
      return rank + ": the list of stages is empty; name at least one stage";
    case stage_repeated:
      return rank + ": stage " + std::to_string(index(f.at.stage)) + " is listed twice; list it once";
    case microbatch_missing:
      return at + "needs a microbatch";
    case unknown_microbatch:
      return at + "names a microbatch that does not exist; number microbatches from 0 to their count minus 1";
    case repeated:
      return at + "is done twice; do it once";
    case released_again:
      return at + "releases activations that an earlier B or W has released; use either B, or I and W";
    case forward_missing:
      return at + "is missing";
    case release_missing:
      return at + "is missing, and so is W; add B, or I and W";
    case input_gradient_missing:
      return at + "is missing although W is done";
    case weight_before_input:
      return at + "comes before its I";
    default:
      return at + "comes before its F";
  }
}

using lifetime_error = fault_error<lifetime_fault>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Finds the cells where the passes of some stages begin and end, for `pass_lifetimes` and
/// `find_lifetime_fault`.
class lifetime_analysis {
 public:
  lifetime_analysis(schedule const& s, rank_id rank, std::span<stage_id const> stages)
      : rank_(rank),
        microbatches_(s.microbatches),
        stages_(stages.begin(), stages.end()),
        numbers_(stages_.size(), 0, s.microbatches) {
    std::ranges::sort(stages_);
    auto const twice = std::ranges::adjacent_find(stages_);
    if (index(rank) >= s.ranks.size())
      fail(unknown_rank, {});
    else if (stages_.empty())
      fail(no_stages, {});
    else if (twice != stages_.end())
      fail(stage_repeated, {.stage = *twice});
    else
      analysis(s.ranks[index(rank)]);
  }

  std::vector<pass_lifetime> lifetimes() const {
    std::vector<pass_lifetime> all;
    all.reserve(pairs_.size());
    for (std::size_t p = 0; p < pairs_.size(); ++p) {
      auto const a = action_of(p, action_kind::forward);
      all.push_back({a.stage, a.microbatch, {pairs_[p].forward, pairs_[p].release}});
    }
    return all;
  }

  std::optional<lifetime_fault> fault;

 private:
  using enum lifetime_fault::kind;
  static constexpr std::uint32_t nowhere = 0xffffffff;
  struct pass_pair {
    std::uint32_t forward = nowhere, input = nowhere, release = nowhere;
    bool by_weight = false;    ///< W ends the lifetime, not B
    bool in_compounds = true;  ///< all of I, W and B seen so far are parts of compounds
  };

  void analysis(std::span<action const> row) {
    // Each pair needs its own F in the list. With more pairs than list entries, one of the first pairs has no
    // F, so this size suffices to find the fault.
    pairs_.resize((std::min)(numbers_.passes(), row.size() + 1));
    std::uint32_t cell = 0;
    each_cell(row, [&](action const& head, std::span<action const> parts) {
      each_action(parts.empty() ? std::span(&head, 1) : parts,
                  [&](action const& a) { note(a, cell, parts.empty()); });
      ++cell;
    });
    for (std::size_t p = 0; p < pairs_.size() && !fault; ++p) check(p);
  }

  void fail(lifetime_fault::kind what, action const& at) {
    if (!fault) fault = lifetime_fault{what, rank_, at};
  }

  action action_of(std::size_t pair, action_kind kind) const {
    auto const [number, m] = numbers_.pass_at(pair);
    return {.kind = kind, .stage = stages_[index(number)], .microbatch = m};
  }

  void note(action const& a, std::uint32_t cell, bool is_alone) {
    if (!is_compute(a.kind)) return;
    auto const at = std::ranges::lower_bound(stages_, a.stage);
    if (at == stages_.end() || *at != a.stage) return;
    if (a.microbatch == no_microbatch) return fail(microbatch_missing, a);
    if (index(a.microbatch) >= microbatches_) return fail(unknown_microbatch, a);
    auto const number = numbers_.pass(static_cast<std::size_t>(at - stages_.begin()), a.microbatch);
    if (number >= pairs_.size()) return;
    auto& pair = pairs_[number];
    bool const releases = a.kind == action_kind::backward || a.kind == action_kind::weight_gradient;
    auto& place = releases ? pair.release : a.kind == action_kind::forward ? pair.forward : pair.input;
    if (place != nowhere) return fail(releases ? released_again : repeated, a);
    place = cell;
    if (a.kind != action_kind::forward) pair.in_compounds = pair.in_compounds && !is_alone;
    if (releases) pair.by_weight = a.kind == action_kind::weight_gradient;
  }

  void check(std::size_t p) {
    using enum action_kind;
    auto const& pair = pairs_[p];
    auto const release = pair.by_weight ? weight_gradient : backward;
    if (pair.forward == nowhere) return fail(forward_missing, action_of(p, forward));
    if (pair.release == nowhere) return fail(release_missing, action_of(p, backward));
    if (pair.release < pair.forward) return fail(released_before_forward, action_of(p, release));
    if (!pair.by_weight) return;
    if (pair.input == nowhere) return fail(input_gradient_missing, action_of(p, input_gradient));
    // The order of the parts of a compound is checked by verification.
    if (pair.release < pair.input && !pair.in_compounds)
      fail(weight_before_input, action_of(p, weight_gradient));
  }

  rank_id rank_;
  std::uint32_t microbatches_;
  std::vector<stage_id> stages_;
  step_index numbers_;
  std::vector<pass_pair> pairs_;  ///< indexed by stage, then microbatch
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the first reason why the passes of `stages` on this rank have no lifetimes, or nothing. O(actions
/// log(stages)).
inline std::optional<lifetime_fault> find_lifetime_fault(schedule const& s, rank_id rank,
                                                         std::span<stage_id const> stages) {
  return detail::lifetime_analysis(s, rank, stages).fault;
}

/// Returns how long a rank keeps the result of each forward pass of `stages`, ordered by stage, then
/// microbatch. A cell is one entry of the rank's list; an idle cell and a compound each count as one cell.
/// O(actions log(stages)).
/// \throws lifetime_error if a pass is missing, repeated or out of order, or if `rank` or `stages` is invalid
inline std::vector<pass_lifetime> pass_lifetimes(schedule const& s, rank_id rank,
                                                 std::span<stage_id const> stages) {
  detail::lifetime_analysis const analysis(s, rank, stages);
  if (analysis.fault) throw lifetime_error(*analysis.fault);
  return analysis.lifetimes();
}

/// The unit to which a slot is assigned.
enum class slot_grain : std::uint8_t {
  stage_and_microbatch,  ///< one slot for each forward pass
  microbatch,  ///< one slot for all stages of the rank per microbatch, kept until the last of them is
               ///< released
};

/// A forward pass, the cells during which its slot is taken, and the number of the slot.
struct activation_slot {
  pass_lifetime pass;
  std::uint32_t slot = 0;

  bool operator==(activation_slot const&) const = default;
};

/// The slots of a rank's forward passes; slots are numbered from 0 to `count` - 1.
struct activation_slots {
  std::uint32_t count = 0;
  std::vector<activation_slot> passes;  ///< ordered by stage, then microbatch

  bool operator==(activation_slots const&) const = default;
};

/// Assigns slots to the results of the forward passes of some stages of a rank. Uses the fewest slots
/// possible; each pass gets the lowest free slot. O(actions log actions).
/// \throws lifetime_error as `pass_lifetimes`
inline activation_slots slots_of_activations(schedule const& s, rank_id rank,
                                             std::span<stage_id const> stages,
                                             slot_grain grain = slot_grain::stage_and_microbatch) {
  auto const passes = pass_lifetimes(s, rank, stages);
  bool const together = grain == slot_grain::microbatch;
  std::vector<lifetime> alive(together && !passes.empty() ? s.microbatches : passes.size());
  auto const number = [&](std::size_t p) { return together ? std::size_t{index(passes[p].microbatch)} : p; };
  for (std::size_t p = 0; p < passes.size(); ++p) {
    auto& all = alive[number(p)];
    bool const is_first = p < alive.size();
    all.first = is_first ? passes[p].alive.first : (std::min)(all.first, passes[p].alive.first);
    all.last = is_first ? passes[p].alive.last : (std::max)(all.last, passes[p].alive.last);
  }
  auto const slots = detail::share_slots(alive);
  activation_slots found{detail::count_slots(slots), {}};
  for (std::size_t p = 0; p < passes.size(); ++p) {
    auto const& l = alive[number(p)];
    found.passes.push_back({{passes[p].stage, passes[p].microbatch, l}, slots[number(p)]});
  }
  return found;
}

}  // namespace cleave
