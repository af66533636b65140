// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/one_or_each.hpp"
#include "cleave/schedule/list/search_problem.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule_dependencies.hpp"
#include "cleave/schedule/model/stage_cost.hpp"

namespace cleave::inline v0_2::detail {

/// A message along an edge, in one direction.
struct placed_message {
  std::uint32_t reader = 0;  ///< the receiving stage
  std::uint32_t pair = 0;    ///< number of the directed pair of ranks, below `pairs`
  double leaving = 0;        ///< time during which it blocks the next message of the pair: bytes / bandwidth
  double delay = 0;          ///< time from the send to the arrival
};

/// A stage on its rank.
struct placed_stage {
  std::uint32_t rank = 0;
  stage_cost cost;
  pass_bytes bytes;
  std::vector<std::uint32_t> before, after;  ///< edges that end here, and edges that begin here
};

/// A step whose stages have ranks, with all defaults filled in.
struct placed_step {
  stage_placement place;
  std::uint32_t microbatches = 0;  ///< of each chain
  std::vector<placed_stage> stages;
  std::vector<placed_message> forward,
      backward;                      ///< per edge: its activation message, and its gradient message
  std::uint32_t pairs = 0;           ///< number of directed pairs of ranks that have an edge
  std::vector<std::uint32_t> order;  ///< the stages in topological order
  std::vector<std::vector<std::uint32_t>> locals;     ///< the stages of each rank, in that order
  std::vector<std::uint64_t> resident, memory_limit;  ///< per rank, in bytes

  /// Returns the bytes that a rank may keep for microbatches.
  std::uint64_t room(std::size_t rank) const {
    return memory_limit[rank] - (std::min)(memory_limit[rank], resident[rank]);
  }
  /// Returns the stage where an edge begins.
  std::uint32_t feeding(std::uint32_t edge) const { return backward[edge].reader; }
  /// Returns the stage where an edge ends.
  std::uint32_t fed(std::uint32_t edge) const { return forward[edge].reader; }
  /// Returns the number of passes if every backward pass is split.
  std::uint64_t most_passes() const { return 3 * std::uint64_t{place.stages()} * microbatches; }
};

inline placed_message place_message(search_problem const& p, rank_id from, rank_id to, std::uint32_t reader,
                                    std::uint64_t bytes) {
  placed_message m{reader, 0, 0, 0};
  if (from == to) return m;
  auto const l = one_or_each(p.links).of(std::size_t{index(from)} * p.ranks + index(to));
  m.leaving = static_cast<double>(bytes) / l.bandwidth;
  m.delay = p.base_latency + l.latency + m.leaving;
  return m;
}

/// Returns the stages ordered by depth, each after its predecessors.
inline std::vector<std::uint32_t> stages_by_depth(stage_placement const& place) {
  auto const depth = stage_neighbours(place).depths();
  std::vector<std::uint32_t> order(place.stages());
  for (std::uint32_t s = 0; s < order.size(); ++s) order[s] = s;
  std::ranges::sort(order,
                    [&](auto a, auto b) { return depth[a] != depth[b] ? depth[a] < depth[b] : a < b; });
  return order;
}

/// Numbers the directed pairs of ranks between which messages move. O(edges log edges).
inline void number_pairs(placed_step& step) {
  auto const ends = [&](std::uint32_t edge, bool is_backward) {
    auto const from = step.stages[step.feeding(edge)].rank, to = step.stages[step.fed(edge)].rank;
    return is_backward ? std::pair(to, from) : std::pair(from, to);
  };
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (std::uint32_t e = 0; e < step.forward.size(); ++e) {
    pairs.push_back(ends(e, false));
    pairs.push_back(ends(e, true));
  }
  std::ranges::sort(pairs);
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  auto const number = [&](std::uint32_t edge, bool is_backward) {
    return static_cast<std::uint32_t>(std::ranges::lower_bound(pairs, ends(edge, is_backward)) -
                                      pairs.begin());
  };
  for (std::uint32_t e = 0; e < step.forward.size(); ++e) {
    step.forward[e].pair = number(e, false);
    step.backward[e].pair = number(e, true);
  }
  step.pairs = static_cast<std::uint32_t>(pairs.size());
}

/// Places a step. If the placement holds the model twice, stage s is a copy of stage s modulo the number of
/// stages. Each chain runs `microbatches` microbatches. O(stages + edges log edges). Precondition: neither
/// argument has a fault.
/// \throws infeasible_error if stages wait for each other
inline placed_step place_step(search_problem const& p, stage_placement place, std::uint32_t microbatches) {
  constexpr auto no_memory_limit = (std::numeric_limits<std::uint64_t>::max)();
  auto const count = static_cast<std::uint32_t>(p.costs.size());
  placed_step step;
  step.place = std::move(place);
  step.microbatches = microbatches;
  step.order = stages_by_depth(step.place);
  step.stages.resize(step.place.stages());
  step.locals.resize(p.ranks);
  step.resident.resize(p.ranks);
  for (std::uint32_t r = 0; r < p.ranks; ++r)
    step.memory_limit.push_back(one_or_each(p.memory_limit).of(r, no_memory_limit));
  for (auto const s : step.order) {
    auto& stage = step.stages[s];
    auto const like = s % count;
    stage.rank = index(step.place.rank_of[s]);
    stage.cost = p.costs[like];
    if (!p.speed.empty()) stage.cost = at_speed(stage.cost, one_or_each(p.speed)[stage.rank]);
    stage.bytes = p.bytes.of_stage(like);
    if (!p.resident.empty()) step.resident[stage.rank] += p.resident[like];
    step.locals[stage.rank].push_back(s);
  }
  for (std::uint32_t e = 0; e < step.place.edges.size(); ++e) {
    auto const [from, to] = step.place.edges[e];
    auto const bytes = p.bytes.of_edge(p.place ? e : index(from) % count);
    auto const here = step.place.rank_of[index(from)], there = step.place.rank_of[index(to)];
    step.forward.push_back(place_message(p, here, there, index(to), bytes.activation));
    step.backward.push_back(place_message(p, there, here, index(from), bytes.gradient));
    step.stages[index(to)].before.push_back(e);
    step.stages[index(from)].after.push_back(e);
  }
  number_pairs(step);
  return step;
}

/// Returns the placements that a step may have: only the given one, if there is one. Otherwise these are the
/// chain around the ranks (looped) and the chain back and forth (wave). Two chains in opposite directions are
/// added if two copies are allowed, each rank has one stage, and the numbers of ranks and microbatches are
/// even.
/// Precondition: the step has no fault. \throws infeasible_error if stages wait for each other
inline std::vector<placed_step> placed_steps(search_problem const& p) {
  std::vector<placed_step> steps{place_step(p, placement_of(p), p.microbatches)};
  if (p.place) return steps;
  auto wave = placement_of(p);
  for (std::uint32_t s = 0; s < wave.stages(); ++s)
    if (s / p.ranks % 2 == 1) wave.rank_of[s] = rank_id{p.ranks - 1 - s % p.ranks};
  if (wave != steps[0].place) steps.push_back(place_step(p, std::move(wave), p.microbatches));
  bool const is_even = p.microbatches % 2 == 0 && p.ranks % 2 == 0;
  if (p.copies == model_copies::two && p.costs.size() == p.ranks && is_even)
    steps.push_back(place_step(p, bidirectional_placement(p.ranks), p.microbatches / 2));
  return steps;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the options with which `simulate` times a placed step.
inline simulate_options simulate_options_of(search_problem const& p, detail::placed_step const& step) {
  auto times = simulate_options_of(p);
  times.costs.clear();
  for (auto const& s : step.stages) times.costs.push_back(s.cost);
  if (times.bytes.size() > 1 && !p.place) {
    times.bytes.clear();
    for (auto const& e : step.place.edges)
      times.bytes.push_back(p.bytes.of_edge(index(e.from) % static_cast<std::uint32_t>(p.costs.size())));
  }
  return times;
}

}  // namespace cleave
