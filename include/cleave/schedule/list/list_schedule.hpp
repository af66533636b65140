// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/one_or_each.hpp"
#include "cleave/schedule/list/backward_choice.hpp"
#include "cleave/schedule/list/list_passes.hpp"
#include "cleave/schedule/list/pass_lists.hpp"
#include "cleave/schedule/list/placed_step.hpp"
#include "cleave/schedule/list/search_problem.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/stage_cost.hpp"

namespace cleave::inline v0_2::detail {

/// The form of backward passes: B, or I and W.
enum class backward_form : std::uint8_t { whole, split };

/// Options of `list_schedule`.
struct list_options {
  std::vector<stage_cost> costs = {};  ///< one for each stage, or one for all
  double base_latency = 0;             ///< latency of a message between two ranks
  backward_form backward = backward_form::whole;
  std::vector<std::uint64_t> kept =
      {};  ///< kept by each stage per microbatch until its last gradient; if empty, 1
  std::uint64_t most_kept = (std::numeric_limits<std::uint64_t>::max)();  ///< limit of each rank at any time
};

/// Thrown if a rank cannot keep one microbatch in each of its stages.
class list_memory_error : public infeasible_error {
 public:
  list_memory_error(rank_id rank, std::uint64_t needed, std::uint64_t memory_limit)
      : infeasible_error("list schedule: rank " + std::to_string(index(rank)) + " must keep " +
                         std::to_string(needed) +
                         " bytes for one microbatch in each of its stages, but its limit is " +
                         std::to_string(memory_limit)) {}
};

/// Returns for each rank the bytes kept by one microbatch in each of its stages.
inline std::vector<std::uint64_t> kept_together(placed_step const& step) {
  std::vector<std::uint64_t> kept(step.locals.size());
  for (auto const& s : step.stages) kept[s.rank] += s.bytes.saved;
  return kept;
}

/// Returns the step for which a list schedule is made. Precondition: as for `list_schedule`.
inline placed_step listed_step(stage_placement const& place, std::uint32_t microbatches,
                               list_options const& options) {
  search_problem p{.ranks = place.ranks, .microbatches = microbatches};
  p.costs.assign(place.stages(), options.costs.empty() ? stage_cost{} : options.costs[0]);
  if (options.costs.size() > 1) p.costs = options.costs;
  for (auto const kept : options.kept) p.bytes.stages.push_back({kept, kept, 0});
  p.memory_limit = {options.most_kept};
  p.base_latency = options.base_latency;
  p.place = place;
  return place_step(p, place, microbatches);
}

/// Returns a schedule for any placement and costs, in which each rank always runs the pass that can begin
/// first. Ties go to backward passes, then to deeper stages. Weight gradients run when a rank would otherwise
/// wait. No rank keeps more than `options.most_kept`. Graham, 1969. O(actions * (stages per rank + edges per
/// stage + log ranks)). Precondition: costs for each stage, one for all or none; `kept` for each stage or
/// none.
/// \throws schedule_count_error, stage_cost_error, list_memory_error
/// \throws infeasible_error if stages wait for each other or memory lets no rank continue
inline schedule list_schedule(stage_placement const& place, std::uint32_t microbatches,
                              list_options const& options = {}) {
  require_counts(place.ranks, (std::max)(1u, place.stages() / (std::max)(1u, place.ranks)), microbatches);
  expects(one_or_each(options.costs).covers(place.stages()),
          "list_schedule: costs need one entry for each stage, one for all, or none");
  expects(options.kept.empty() || options.kept.size() == place.stages(),
          "list_schedule: kept needs one entry for each stage, or none");
  if (auto const fault = find_stage_cost_fault(options.costs)) throw stage_cost_error(*fault);

  auto const step = listed_step(place, microbatches, options);
  auto const least = kept_together(step);
  for (std::uint32_t r = 0; r < least.size(); ++r)
    if (least[r] > options.most_kept) throw list_memory_error(rank_id{r}, least[r], options.most_kept);
  bool const split = options.backward == backward_form::split;
  if (auto const lists = list_passes(step, {.form = split ? backward_choice::split : backward_choice::whole}))
    return schedule_of(place, microbatches, *lists);
  throw infeasible_error("list schedule: the memory limit blocks every rank; raise it");
}

}  // namespace cleave::detail
