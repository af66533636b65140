// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/action.hpp"
#include "cleave/schedule/placement.hpp"
#include "cleave/schedule/schedule.hpp"
#include "cleave/schedule/stage_cost.hpp"
#include "cleave/schedule/stage_neighbours.hpp"

namespace cleave {

/// Whether backward passes are cut in two.
enum class backward_form : std::uint8_t { whole, split };

struct list_options {
  std::vector<stage_cost> costs = {};  ///< of each stage, or one for all
  double hop = 0;                      ///< how long a message between two ranks is on its way
  backward_form backward = backward_form::whole;
  std::vector<std::uint64_t> kept = {};  ///< by each stage for a microbatch until its last gradient; else 1
  std::uint64_t most_kept = std::numeric_limits<std::uint64_t>::max();  ///< by each rank at any time
};

/// Memory below which a placement cannot run: a rank and what its stages keep for one microbatch each.
class list_memory_error : public infeasible_error {
 public:
  list_memory_error(rank_id rank, std::uint64_t needed, std::uint64_t cap)
      : infeasible_error("list schedule: rank " + std::to_string(index(rank)) + " must keep " +
                         std::to_string(needed) + " for a microbatch in each of its stages, but may keep " +
                         std::to_string(cap)) {}
};

/// Fills the lists action by action; `list_schedule` is its one use.
///
/// A forward pass is let in only while room is left for one of each deeper stage of its rank. Of a chain,
/// what cannot begin therefore waits for something deeper, and the deepest can begin: the memory cap stops
/// nobody for ever.
class list_scheduler {
 public:
  list_scheduler(placement const& place, std::uint32_t microbatches, list_options const& options)
      : edges_(place),
        options_(options),
        made_{place, microbatches, std::vector<std::vector<action>>(place.ranks)},
        stages_(place.stages()),
        locals_(place.ranks),
        free_at_(place.ranks),
        kept_(place.ranks),
        forward_end_(std::size_t{place.stages()} * microbatches, unknown),
        gradient_end_(forward_end_) {
    for (std::uint32_t s = 0; s < place.stages(); ++s) locals_[index(place.rank_of[s])].push_back(s);
    auto const depth = edges_.depths();
    for (std::uint32_t r = 0; r < place.ranks; ++r) {
      // Deepest first: that is the order of preference, and that in which room is kept.
      std::ranges::sort(locals_[r],
                        [&](auto a, auto b) { return depth[a] != depth[b] ? depth[a] > depth[b] : a < b; });
      std::uint64_t room = 0;
      for (auto const s : locals_[r]) {
        stages_[s] = {r,
                      options.costs.empty()       ? stage_cost{}
                      : options.costs.size() == 1 ? options.costs[0]
                                                  : options.costs[s],
                      options.kept.empty() ? 1 : options.kept[s]};
        room += stages_[s].kept;
        stages_[s].room = room;
      }
      if (room > options.most_kept) throw list_memory_error(rank_id{r}, room, options.most_kept);
    }
  }

  schedule take() {
    for (std::uint32_t r = 0; r < locals_.size(); ++r) look_at(r);
    while (!heap_.empty()) {
      auto const next = heap_.front();
      std::ranges::pop_heap(heap_, is_later);
      heap_.pop_back();
      if (next.version == versions_[next.rank]) carry_out(*best_[next.rank], next.rank);
    }
    for (auto const& s : stages_)
      if (s.forward < made_.microbatches)
        throw infeasible_error("list schedule: the cap on memory lets no rank go on; raise it");
    return std::move(made_);
  }

 private:
  static constexpr double unknown = std::numeric_limits<double>::infinity();

  struct stage_state {
    std::uint32_t rank = 0;
    stage_cost cost;
    std::uint64_t kept = 1, room = 0;  // room: its own and that of all deeper stages of the rank
    std::uint32_t forward = 0, gradient = 0, weight = 0;  // the next microbatch of each
  };
  struct candidate {
    double start;
    action_kind kind;
    std::uint32_t stage;
  };
  /// What a rank would do next, as it was when its version was counted.
  struct entry {
    double start;
    std::uint32_t rank, version;
  };
  static bool is_later(entry const& a, entry const& b) {
    return a.start > b.start || (a.start == b.start && a.rank > b.rank);
  }

  std::size_t cell(std::uint32_t s, std::uint32_t i) const { return s * std::size_t{made_.microbatches} + i; }

  /// When what `ends` of stage `from` tells of a microbatch is at stage `to`.
  double arrival(std::vector<double> const& ends, std::uint32_t from, std::uint32_t to,
                 std::uint32_t i) const {
    return ends[cell(from, i)] + (stages_[from].rank == stages_[to].rank ? 0.0 : options_.hop);
  }
  double forward_ready(std::uint32_t s) const {
    auto const& state = stages_[s];
    if (state.forward == made_.microbatches || kept_[state.rank] > options_.most_kept - state.room)
      return unknown;
    double ready = 0;
    for (auto const from : edges_.before(s))
      ready = std::max(ready, arrival(forward_end_, from, s, state.forward));
    return ready;
  }
  double gradient_ready(std::uint32_t s) const {
    auto const& state = stages_[s];
    if (state.gradient == state.forward) return unknown;
    double ready = forward_end_[cell(s, state.gradient)];
    for (auto const from : edges_.after(s))
      ready = std::max(ready, arrival(gradient_end_, from, s, state.gradient));
    return ready;
  }

  /// What `rank` would do next: what can begin first; of several, a gradient before a forward pass before a
  /// weight gradient, the deepest stage.
  std::optional<candidate> find_next(std::uint32_t rank) const {
    std::optional<candidate> best;
    auto const offer = [&](double ready, action_kind kind, std::uint32_t s) {
      auto const start = std::max(ready, free_at_[rank]);
      if (start < (best ? best->start : unknown)) best = candidate{start, kind, s};
    };
    bool const split = options_.backward == backward_form::split;
    for (auto const s : locals_[rank])
      offer(gradient_ready(s), split ? action_kind::input_gradient : action_kind::backward, s);
    for (auto const s : locals_[rank]) offer(forward_ready(s), action_kind::forward, s);
    for (auto const s : locals_[rank])
      if (split && stages_[s].weight < stages_[s].gradient) offer(0, action_kind::weight_gradient, s);
    return best;
  }

  void look_at(std::uint32_t rank) {
    best_[rank] = find_next(rank);
    ++versions_[rank];
    if (!best_[rank]) return;
    heap_.push_back({best_[rank]->start, rank, versions_[rank]});
    std::ranges::push_heap(heap_, is_later);
  }

  void carry_out(candidate c, std::uint32_t rank) {
    auto& s = stages_[c.stage];
    double const end = c.start + s.cost.of(c.kind);
    bool const is_forward = c.kind == action_kind::forward;
    auto& next = is_forward ? s.forward : c.kind == action_kind::weight_gradient ? s.weight : s.gradient;
    made_.ranks[rank].push_back({c.kind, 0, stage_id{c.stage}, microbatch_id{next}, no_stage});
    if (is_forward)
      forward_end_[cell(c.stage, next)] = end, kept_[rank] += s.kept;
    else if (c.kind != action_kind::weight_gradient)
      gradient_end_[cell(c.stage, next)] = end;
    if (c.kind == action_kind::backward || c.kind == action_kind::weight_gradient) kept_[rank] -= s.kept;
    ++next;
    free_at_[rank] = end;

    look_at(rank);
    if (c.kind == action_kind::weight_gradient) return;
    for (auto const other : is_forward ? edges_.after(c.stage) : edges_.before(c.stage))
      if (stages_[other].rank != rank) look_at(stages_[other].rank);
  }

  stage_neighbours edges_;
  list_options const& options_;
  schedule made_;
  std::vector<stage_state> stages_;
  std::vector<std::vector<std::uint32_t>> locals_;  // the stages of each rank, deepest first
  std::vector<double> free_at_;
  std::vector<std::uint64_t> kept_;
  std::vector<double> forward_end_, gradient_end_;
  std::vector<std::optional<candidate>> best_ = std::vector<std::optional<candidate>>(locals_.size());
  std::vector<std::uint32_t> versions_ = std::vector<std::uint32_t>(locals_.size());
  std::vector<entry> heap_;
};

/// An order for any placement and costs, found by letting each rank do what it can begin first: backward
/// passes before forward passes, deeper stages before others, weight gradients where a rank would wait, and
/// no more kept than `options.most_kept`. Graham, 1969. O(actions * (stages a rank + edges a stage + log
/// ranks)).
/// Precondition: costs for each stage, one for all or none; kept for each stage or none.
/// \throws schedule_count_error, stage_cost_error, list_memory_error, and infeasible_error where stages wait
/// for each other
inline schedule list_schedule(placement const& place, std::uint32_t microbatches,
                              list_options const& options = {}) {
  demand_counts(place.ranks, std::max(1u, place.stages() / std::max(1u, place.ranks)), microbatches);
  expects(options.costs.size() <= 1 || options.costs.size() == place.stages(), "costs for each stage");
  expects(options.kept.empty() || options.kept.size() == place.stages(), "what each stage keeps");
  if (auto const fault = find_stage_cost_fault(options.costs)) throw stage_cost_error(*fault);
  return list_scheduler(place, microbatches, options).take();
}

}  // namespace cleave
