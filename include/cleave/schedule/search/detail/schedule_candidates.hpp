// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/families/interleaved_1f1b.hpp"
#include "cleave/schedule/families/v_schedules.hpp"
#include "cleave/schedule/list/backward_choice.hpp"
#include "cleave/schedule/list/list_passes.hpp"
#include "cleave/schedule/list/pass_lists.hpp"
#include "cleave/schedule/list/pass_timer.hpp"
#include "cleave/schedule/list/placed_step.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule_names.hpp"

namespace cleave::inline v0_2::detail {

/// Returns a component number for each stage, equal for stages connected by edges. O((stages + edges) log
/// stages).
inline std::vector<std::uint32_t> connected_stages(placed_step const& step) {
  std::vector<std::uint32_t> root(step.stages.size());
  for (std::uint32_t s = 0; s < root.size(); ++s) root[s] = s;
  auto const root_of = [&](std::uint32_t s) {
    while (root[s] != s) s = root[s] = root[root[s]];
    return s;
  };
  for (std::uint32_t e = 0; e < step.forward.size(); ++e)
    root[root_of(step.fed(e))] = root_of(step.feeding(e));
  for (auto& r : root) r = root_of(r);
  return root;
}

/// Returns the schedule with the least memory and the longest makespan among schedules without needless
/// waits. Each microbatch goes through a chain and back before the next begins. Chains run one after the
/// other. O(passes + stages).
inline pass_lists one_at_a_time(placed_step const& step, backward_choice form = backward_choice::whole) {
  auto const chain_of = connected_stages(step);
  pass_lists lists(step.locals.size());
  auto const add = [&](std::uint32_t s, action_kind kind) {
    lists[step.stages[s].rank].push_back({s, kind});
  };
  for (std::uint32_t chain = 0; chain < chain_of.size(); ++chain) {
    std::vector<std::uint32_t> stages;
    for (auto const s : step.order)
      if (chain_of[s] == chain) stages.push_back(s);
    if (stages.empty()) continue;
    for (std::uint32_t k = 0; k < step.microbatches; ++k) {
      for (auto const s : stages) add(s, action_kind::forward);
      for (auto it = stages.rbegin(); it != stages.rend(); ++it) {
        if (form != backward_choice::split) {
          add(*it, action_kind::backward);
          continue;
        }
        add(*it, action_kind::input_gradient);
        add(*it, action_kind::weight_gradient);
      }
    }
  }
  return lists;
}

/// Lists from which a search can start: those of a schedule family, or made for the step.
struct schedule_candidate {
  std::string name;
  std::optional<schedule_family> family;
  std::size_t step = 0;  ///< index of the placement
  pass_lists lists;
  double makespan = no_end;
};

/// Returns true if all backward passes have the form `form`.
inline bool has_form(pass_lists const& lists, backward_choice form) {
  if (form == backward_choice::either) return true;
  auto const other = form == backward_choice::whole ? action_kind::input_gradient : action_kind::backward;
  for (auto const& list : lists)
    for (auto const& p : list)
      if (p.kind == other) return false;
  return true;
}

/// Collects the candidates that fit within the memory limits.
class candidate_list {
 public:
  candidate_list(std::vector<placed_step> const& steps, backward_choice form) : steps_(steps), form_(form) {
    for (auto const& s : steps) timers_.emplace_back(s);
  }

  /// Adds all families of schedules that are constructed from counts.
  void add_families() {
    auto const& step = steps_.front();
    auto const ranks = step.place.ranks;
    if (step.place.stages() % ranks != 0) return;
    auto const stages_per_rank = step.place.stages() / ranks;
    for (std::size_t f = 0; f < schedule_names.size(); ++f) {
      auto const family = static_cast<schedule_family>(f);
      if (family == schedule_family::forward_only) continue;
      bool const is_double = family == schedule_family::dual_pipe || family == schedule_family::chimera;
      if (is_double && steps_.back().place != bidirectional_placement(ranks)) continue;
      schedule_shape shape{ranks, stages_per_rank, step.microbatches};
      if (is_double) shape = {ranks, 2, 2 * steps_.back().microbatches};
      try_schedule(std::string(name_of(family)), family, [&] { return make_schedule(family, shape); });
    }
    if (stages_per_rank > 1)
      for (auto const group : groups_of(step))
        try_schedule("MegatronInterleaved, group size " + std::to_string(group),
                     schedule_family::megatron_interleaved, [&] {
                       return megatron_interleaved(ranks, stages_per_rank, step.microbatches,
                                                   {.group = group});
                     });
  }

  /// Adds the best building blocks with controllable memory, ranked by their makespan for a few microbatches.
  void add_blocks() {
    constexpr std::size_t most_blocks = 4;
    auto const wave = wave_placement(steps_.front().place.ranks);
    auto const at = std::ranges::find(steps_, wave, &placed_step::place);
    if (at == steps_.end() || form_ == backward_choice::whole) return;
    auto few = *at;
    few.microbatches = (std::min)(few.microbatches, 2 * few.place.ranks);
    pass_timer timer(few);
    auto const family = v_block_family(few.place.ranks);
    std::vector<std::pair<double, std::size_t>> timed;  // makespan, and index of the rule
    for (std::size_t i = 0; i < family.size(); ++i) {
      auto const lists = pass_lists_of(schedule_by(family[i], few));
      passes_timed_ += few.most_passes();
      if (fits(few, lists)) timed.emplace_back(timer.makespan(lists), i);
    }
    std::ranges::sort(timed);
    for (std::size_t i = 0; i < (std::min)(timed.size(), most_blocks); ++i) {
      auto const& rule = family[timed[i].second];
      add({name_of(rule), std::nullopt, static_cast<std::size_t>(at - steps_.begin()),
           pass_lists_of(schedule_by(rule, *at))});
    }
  }

  /// Adds list schedules for the given costs, for several amounts of memory.
  void add_lists() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      add({"one at a time", std::nullopt, i, one_at_a_time(steps_[i], form_)});
      for (auto const form : {backward_choice::whole, backward_choice::split}) {
        if (form_ != backward_choice::either && form_ != form) continue;
        for (std::uint32_t const depth : depths_of(steps_[i]))
          for (auto const first : {list_preference::gradients, list_preference::forwards})
            for (auto const weights : {weight_timing::when_idle, weight_timing::at_once}) {
              if (form == backward_choice::whole && weights == weight_timing::at_once) continue;
              list_rule const rule{form, first, weights, room_for(steps_[i], depth)};
              if (auto lists = list_passes(steps_[i], rule))
                add({"list schedule, depth " + std::to_string(depth) +
                         (form == backward_choice::whole ? ", B" : ", I and W"),
                     std::nullopt, i, std::move(*lists)});
            }
      }
    }
  }

  /// Returns the best candidates, the best first.
  std::vector<schedule_candidate> take() { return std::move(found_); }
  /// Returns the best of the families alone, without its lists; nothing if none fits.
  std::optional<schedule_candidate> const& best_family() const { return best_family_; }
  std::uint64_t passes_timed() const { return passes_timed_; }

 private:
  static schedule schedule_by(v_block_rule const& rule, placed_step const& step) {
    auto const ranks = step.place.ranks;
    return v_block_schedule(ranks, step.microbatches, [&](std::uint32_t r) { return rule.block(r, ranks); });
  }

  template <class Make>
  void try_schedule(std::string name, std::optional<schedule_family> family, Make make) {
    std::optional<schedule> made;
    try {
      made = make();
    } catch (shape_error const&) {  // the family does not support this shape
      return;
    } catch (schedule_count_error const&) {  // the idle steps of the family would be too many
      return;
    }
    for (std::size_t i = 0; i < steps_.size(); ++i)
      if (steps_[i].place == made->place && steps_[i].microbatches == made->microbatches)
        return add({std::move(name), family, i, pass_lists_of(*made)});
  }

  void add(schedule_candidate c) {
    if (!has_form(c.lists, form_) || !fits(steps_[c.step], c.lists)) return;
    for (auto const& list : c.lists) passes_timed_ += list.size();
    c.makespan = timers_[c.step].makespan(c.lists);
    if (c.makespan == no_end) return;
    if (c.family && (!best_family_ || c.makespan < best_family_->makespan))
      best_family_ = schedule_candidate{c.name, c.family, c.step, {}, c.makespan};
    for (auto const& known : found_)
      if (known.makespan == c.makespan && known.step == c.step && known.lists == c.lists) return;
    auto const at = std::ranges::upper_bound(found_, c.makespan, {}, &schedule_candidate::makespan);
    found_.insert(at, std::move(c));
    if (found_.size() > most_found) found_.pop_back();
  }

  /// Returns group sizes to try for interleaving, in addition to one microbatch per rank: all if there are
  /// few.
  static std::vector<std::uint32_t> groups_of(placed_step const& step) {
    auto const p = step.place.ranks, most = (std::min)(step.microbatches, 3 * p);
    std::vector<std::uint32_t> groups;
    for (auto group = p + 1; group <= most; group += (p + 7) / 8) groups.push_back(group);
    return groups;
  }

  /// Returns the numbers of microbatches in flight for which list schedules are made.
  static std::vector<std::uint32_t> depths_of(placed_step const& step) {
    auto const p = step.place.ranks, m = step.microbatches;
    std::vector<std::uint32_t> depths{1, (p + 1) / 2, p, p + (p + 1) / 2, 2 * p - 1, 2 * p, 3 * p, m};
    for (auto& d : depths) d = (std::min)(d, m);
    std::ranges::sort(depths);
    depths.erase(std::unique(depths.begin(), depths.end()), depths.end());
    return depths;
  }

  /// Returns per rank the memory for `depth` microbatches in each of its stages.
  static std::vector<std::uint64_t> room_for(placed_step const& step, std::uint32_t depth) {
    std::vector<std::uint64_t> room(step.locals.size());
    for (auto const& s : step.stages)
      room[s.rank] += depth * (std::max)(s.bytes.saved, s.bytes.saved_for_weights);
    return room;
  }

  static constexpr std::size_t most_found = 8;

  std::vector<placed_step> const& steps_;
  backward_choice form_;
  std::vector<pass_timer> timers_;
  std::vector<schedule_candidate> found_;  // the best first
  std::optional<schedule_candidate> best_family_;
  std::uint64_t passes_timed_ = 0;
};

}  // namespace cleave::detail
