// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/one_or_each.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule_dependencies.hpp"
#include "cleave/schedule/model/simulate_options.hpp"
#include "cleave/schedule/model/stage_cost.hpp"

namespace cleave::inline v0_2 {

/// The number of copies of the model on the ranks. With two, a second chain runs in the opposite direction
/// with half of the microbatches.
enum class model_copies : std::uint8_t { one, two };

/// A training step for which a schedule is sought. Its stages form a chain unless `place` gives other edges.
/// Times may be in any unit, and so may bytes.
struct search_problem {
  std::uint32_t ranks = 1;
  std::uint32_t microbatches = 1;
  std::vector<stage_cost> costs = {};  ///< per stage; the number of costs is the number of stages
  schedule_bytes bytes = {};  ///< kept by stages and sent along edges; in a chain, edge s follows stage s
  std::vector<std::uint64_t> resident =
      {};  ///< bytes that each stage always occupies, such as weights; if empty, 0
  std::vector<std::uint64_t> memory_limit =
      {};                          ///< bytes per rank: one for each, one for all, or empty for no limit
  std::vector<double> speed = {};  ///< of ranks: one for each or one for all; a stage takes its cost / speed
  double base_latency = 0;         ///< as in `simulate_options`
  std::vector<rank_link> links = {};          ///< as in `simulate_options`
  model_copies copies = model_copies::one;    ///< the number of copies allowed if `place` is not given
  std::optional<stage_placement> place = {};  ///< the ranks of the stages, if they are fixed

  bool operator==(search_problem const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The reason why a step is invalid.
struct search_fault {
  static constexpr char subject[] = "search: ";
  enum class kind : std::uint8_t {
    no_ranks,
    no_microbatches,
    too_few_stages,      ///< only `at` stages, fewer than ranks
    placement,           ///< invalid; see `find_stage_placement_fault`
    placed_ranks,        ///< `place` has `at` ranks
    placed_stages,       ///< `place` has `at` stages
    times,               ///< see `of_times`
    sizes,               ///< see `of_sizes`
    resident_count,      ///< `at` entries; expected none or one per stage
    resident_too_large,  ///< the sum up to stage `at` overflows
    memory_limit_count,  ///< `at` entries; expected none, one, or one per rank
    speed_count,         ///< likewise
    speed,               ///< of rank `at`
  };
  kind what;
  std::size_t at = 0;
  simulate_option_fault of_times = {};
  schedule_bytes_fault of_sizes = {};

  bool operator==(search_fault const&) const = default;
};

/// The message for a fault: where it is and how to correct it.
inline std::string describe(search_fault const& f) {
  using enum search_fault::kind;
  auto const at = std::to_string(f.at);
  switch (f.what) {
    case no_ranks:
      return "the number of ranks must be 1 or more";
    case no_microbatches:
      return "the number of microbatches must be 1 or more";
    case too_few_stages:
      return "costs are given for only " + at + " stages; give at least one stage per rank";
    case placement:
      return "the placement is invalid; find_stage_placement_fault gives the reason";
    case placed_ranks:
      return "the placement has " + at + " ranks, which differs from the step's number of ranks";
    case placed_stages:
      return "the placement has " + at + " stages; give costs for each of them";
    case times:
      return describe(f.of_times);
    case sizes:
      return describe(f.of_sizes);
    case resident_count:
      return at + " entries of resident bytes are given; expected one per stage, or none";
    case resident_too_large:
      return "the resident bytes up to stage " + at + " overflow when summed; use smaller values";
    case memory_limit_count:
      return at + " memory limits are given; expected one for each rank, one for all, or none";
    case speed_count:
      return at + " speeds are given; expected one for each rank, one for all, or none";
    case speed:
      return "the speed of rank " + at + " must be a number from 1e-100 to 1e100";
  }
  return {};
}

using search_error = fault_error<search_fault>;

/// Returns the given placement, or the chain of the stages around the ranks.
inline stage_placement placement_of(search_problem const& p) {
  if (p.place) return *p.place;
  auto const stages = static_cast<std::uint32_t>(p.costs.size());
  stage_placement loop{p.ranks, {}, chain_edges(stages)};
  for (std::uint32_t s = 0; s < stages; ++s) loop.rank_of.push_back(rank_id{s % p.ranks});
  return loop;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the options with which `simulate` times the step on its own placement.
inline simulate_options simulate_options_of(search_problem const& p) {
  simulate_options o{
      .costs = p.costs, .base_latency = p.base_latency, .links = p.links, .bytes = p.bytes.edges};
  if (p.speed.empty()) return o;
  auto const place = detail::placement_of(p);
  for (std::size_t s = 0; s < o.costs.size(); ++s)
    o.costs[s] = detail::at_speed(o.costs[s], detail::one_or_each(p.speed)[index(place.rank_of[s])]);
  return o;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the first fault of a step, or nothing. O(stages + edges + links).
inline std::optional<search_fault> find_search_fault(search_problem const& p) {
  using enum search_fault::kind;
  if (p.ranks == 0) return search_fault{no_ranks};
  if (p.microbatches == 0) return search_fault{no_microbatches};
  if (p.place) {
    if (find_stage_placement_fault(*p.place)) return search_fault{search_fault::kind::placement};
    if (p.place->ranks != p.ranks) return search_fault{placed_ranks, p.place->ranks};
    if (p.place->stages() != p.costs.size()) return search_fault{placed_stages, p.place->stages()};
  }
  if (p.costs.empty() || (!p.place && p.costs.size() < p.ranks))
    return search_fault{too_few_stages, p.costs.size()};
  if (!one_or_each(p.speed).covers(p.ranks)) return search_fault{speed_count, p.speed.size()};
  for (std::size_t r = 0; r < p.speed.size(); ++r)
    if (!(p.speed[r] >= 1 / longest_cost && p.speed[r] <= longest_cost))
      return search_fault{search_fault::kind::speed, r};
  auto const place = placement_of(p);
  auto on_slowest = p;  // whatever rank a stage gets, it takes no longer
  if (!p.speed.empty()) on_slowest.speed = {(std::ranges::min)(p.speed)};
  if (auto const f = find_simulate_option_fault(simulate_options_of(on_slowest), place))
    return search_fault{times, 0, *f};
  auto const actions = 8 * std::uint64_t{place.stages()} * p.microbatches;
  if (auto const f = find_schedule_bytes_fault(p.bytes, place, actions))
    return search_fault{sizes, 0, {}, *f};
  if (!p.resident.empty() && p.resident.size() != p.costs.size())
    return search_fault{resident_count, p.resident.size()};
  std::uint64_t left = std::uint64_t{1} << 61;
  for (std::size_t s = 0; s < p.resident.size(); ++s) {
    if (p.resident[s] > left / 2) return search_fault{resident_too_large, s};
    left -= 2 * p.resident[s];
  }
  if (!one_or_each(p.memory_limit).covers(p.ranks))
    return search_fault{memory_limit_count, p.memory_limit.size()};
  return std::nullopt;
}

/// Checks a step. \throws search_error
/// \throws schedule_count_error if there would be too many passes
inline void require_problem(search_problem const& p) {
  if (p.ranks > 0 && p.microbatches > 0)
    require_counts(p.ranks, p.costs.size() / p.ranks + 1, p.microbatches);
  if (auto const f = find_search_fault(p)) throw search_error(*f);
}

}  // namespace cleave::detail
