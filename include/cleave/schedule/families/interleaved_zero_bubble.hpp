// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/schedule/families/detail/rank_order.hpp"
#include "cleave/schedule/families/interleaved_1f1b.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_names.hpp"

namespace cleave::inline v0_2::detail {

/// Returns the list of rank `r` with rounds of `group` microbatches. Weight gradients follow `r` steps after
/// their input gradients, in the same order.
constexpr std::vector<action> zero_bubble_order(schedule_shape const& n, std::uint32_t group,
                                                std::uint32_t r) {
  auto const all = std::size_t{n.stages_per_rank} * n.microbatches;
  std::size_t const later = n.ranks - 1 - r;
  auto const warm_up = (std::min)((n.stages_per_rank - std::size_t{1}) * group + later, all);
  grouped_walk forwards(n.stages_per_rank, n.microbatches, group), inputs = forwards, weights = forwards;
  rank_order order(3 * all + n.ranks);
  auto const forward = [&] {
    auto const [chunk, microbatch] = forwards.next();
    order.forward(chunk * n.ranks + r, microbatch);
  };
  auto const gradient = [&](action_kind kind, grouped_walk& walk) {
    auto const [chunk, microbatch] = walk.next();
    order.add(kind, (n.stages_per_rank - 1 - chunk) * n.ranks + r, microbatch);
  };

  order.idle(r);
  for (std::size_t i = 0; i < warm_up; ++i) forward();
  order.idle(later);
  for (std::size_t i = 0; i < all; ++i) {
    if (warm_up + i < all) forward();
    gradient(action_kind::input_gradient, inputs);
    if (i >= r) gradient(action_kind::weight_gradient, weights);
  }
  for (std::size_t i = std::min<std::size_t>(r, all); i > 0; --i)
    gradient(action_kind::weight_gradient, weights);
  return order.take();
}

/// Inserts an idle step wherever a forward pass would run before that of the previous stage. Steps through
/// all lists at once. Precondition: the listed orders of forward passes do not deadlock; otherwise this loops
/// forever. O(actions + idle steps).
constexpr void insert_waits(schedule& s) {
  // `done`: by stage, its forward passes before this step. `now`: the stages with a forward pass in this
  // step.
  std::vector<std::uint32_t> done(s.place.rank_of.size(), 0), now;
  std::vector<std::size_t> at(s.ranks.size(), 0);
  std::vector<std::vector<action>> padded(s.ranks.size());  // empty for a rank that has not waited yet
  for (bool any = true; any;) {
    any = false;
    for (std::size_t r = 0; r < s.ranks.size(); ++r) {
      if (at[r] == s.ranks[r].size()) continue;
      any = true;
      action const& a = s.ranks[r][at[r]];
      bool const is_forward = a.kind == action_kind::forward;
      if (is_forward && index(a.stage) > 0 && done[index(a.stage) - 1] <= index(a.microbatch)) {
        if (padded[r].empty())
          padded[r].assign(s.ranks[r].begin(), s.ranks[r].begin() + static_cast<std::ptrdiff_t>(at[r]));
        padded[r].emplace_back();
        continue;
      }
      if (is_forward) now.push_back(index(a.stage));
      if (!padded[r].empty()) padded[r].push_back(a);
      ++at[r];
    }
    for (auto const stage : now) ++done[stage];
    now.clear();
  }
  for (std::size_t r = 0; r < s.ranks.size(); ++r)
    if (!padded[r].empty()) s.ranks[r] = std::move(padded[r]);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns interleaved 1F1B with split backward passes: weight gradients fill idle steps. The bubble is a
/// third of that of interleaved 1F1B. O(actions).
/// Source: Qi et al., ICLR 2024 ("Zero Bubble", ZB1P). Rounds are as in PyTorch.
/// \throws schedule_count_error, and shape_error if `microbatches` is not a multiple of max(1, microbatches
///   div ranks)
constexpr schedule interleaved_zero_bubble(std::uint32_t ranks, std::uint32_t stages_per_rank,
                                           std::uint32_t microbatches) {
  detail::require_counts_with_idle(ranks, stages_per_rank, microbatches);
  if (auto const fault = detail::find_uneven_rounds(ranks, microbatches))
    throw shape_error("interleaved zero bubble", *fault);
  schedule s{loop_placement(ranks, stages_per_rank), microbatches, {}};
  for (std::uint32_t r = 0; r < ranks; ++r)
    s.ranks.push_back(detail::zero_bubble_order({ranks, stages_per_rank, microbatches},
                                                detail::round_size(ranks, microbatches), r));
  detail::insert_waits(s);
  return s;
}

/// Returns the ZB-H1 schedule: zero bubble with one stage per rank and any number of microbatches. It has the
/// memory of 1F1B and a third of its bubble. O(actions).
/// Source: Qi et al., ICLR 2024, §3 ("ZB-H1").
/// \throws schedule_count_error
constexpr schedule zb_h1(std::uint32_t ranks, std::uint32_t microbatches) {
  detail::require_counts_with_idle(ranks, 1, microbatches);
  schedule s{loop_placement(ranks), microbatches, {}};
  for (std::uint32_t r = 0; r < ranks; ++r)
    s.ranks.push_back(detail::zero_bubble_order({ranks, 1, microbatches}, microbatches, r));
  detail::insert_waits(s);
  return s;
}

}  // namespace cleave
