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

namespace cleave::inline v0_2 {

/// A gradient, by its stage and its position in that stage.
struct stage_gradient {
  stage_id stage;
  std::uint32_t number;

  auto operator<=>(stage_gradient const&) const = default;
};

/// The gradients of all copies of one parameter, in summation order, which is stage order.
using tied_gradients = std::vector<stage_gradient>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The ties that span the same stages; they are summed together.
struct tie_set {
  std::vector<stage_id> stages;  ///< ascending
  std::vector<tied_gradients> ties;

  bool operator==(tie_set const&) const = default;
};

/// Returns the first tie whose gradients are not strictly ascending, or nothing.
inline std::optional<std::size_t> find_tie_out_of_order(std::span<tied_gradients const> ties) {
  for (std::size_t t = 0; t < ties.size(); ++t)
    if (std::ranges::adjacent_find(ties[t], std::ranges::greater_equal{}) != ties[t].end()) return t;
  return std::nullopt;
}

/// Returns the first stage id in `set` that is out of range, or nothing. O(stages of the set).
inline std::optional<stage_id> find_missing_tied_stage(tie_set const& set, std::size_t stages) {
  for (auto const s : set.stages)
    if (index(s) >= stages) return s;
  return std::nullopt;
}

/// Returns the first gradient of stage `s` in `set` whose number is not below `count`, or nothing.
/// O(gradients of the set).
inline std::optional<stage_gradient> find_missing_tied_gradient(tie_set const& set, stage_id s,
                                                                std::size_t count) {
  for (auto const& tie : set.ties)
    for (auto const& g : tie)
      if (g.stage == s && g.number >= count) return g;
  return std::nullopt;
}

/// Thrown if the gradients of a tie are not in order. Carries the index of the tie.
using tie_order_error = tagged_error<struct tie_order_tag, std::size_t>;

/// Thrown if a tie names a gradient that its stage does not have. Carries that gradient.
using tie_gradient_error = witness_error<stage_gradient>;

/// Thrown if a tie names a stage that does not exist. Carries that stage.
using tie_stage_error = tagged_error<struct tie_stage_tag, stage_id>;

/// Groups ties by the set of their stages. Sets are in order of first appearance. O(gradients + ties * sets).
/// \throws tie_order_error if the gradients of a tie are not strictly ascending
inline std::vector<tie_set> tie_sets_of(std::span<tied_gradients const> ties) {
  if (auto const t = find_tie_out_of_order(ties))
    throw tie_order_error("ties: the gradients of tie #" + std::to_string(*t) +
                              " are not in ascending order without repetitions; sort them by stage",
                          *t);
  std::vector<tie_set> sets;
  for (auto const& t : ties) {
    std::vector<stage_id> stages;
    for (auto const& g : t)
      if (stages.empty() || stages.back() != g.stage) stages.push_back(g.stage);
    auto set = std::ranges::find(sets, stages, &tie_set::stages);
    if (set == sets.end()) set = sets.insert(set, {stages, {}});
    set->ties.push_back(t);
  }
  return sets;
}

/// Returns the ranks that hold stages of a set, ascending. O(stages log stages).
/// \throws tie_stage_error if a stage of the set does not exist
inline std::vector<rank_id> ranks_of(tie_set const& set, std::span<rank_id const> rank_of) {
  if (auto const s = find_missing_tied_stage(set, rank_of.size()))
    throw tie_stage_error(
        "ties: there is no stage " + std::to_string(index(*s)) + "; stages are numbered from 0", *s);
  std::vector<rank_id> ranks;
  for (auto const s : set.stages) ranks.push_back(rank_of[index(s)]);
  std::ranges::sort(ranks);
  ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
  return ranks;
}

}  // namespace cleave::detail
