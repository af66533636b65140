// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/schedule/list/search_problem.hpp"
#include "cleave/schedule/search/bottleneck_cut.hpp"
#include "cleave/schedule/search/search_schedule.hpp"
#include "cleave/schedule/search/unit_row.hpp"

namespace cleave {

/// A step whose stages are to be cut out of a row. Members as in `search_problem`.
struct cut_step {
  std::uint32_t ranks = 1;
  std::uint32_t microbatches = 1;
  std::vector<std::uint32_t> stages_per_rank = {1};  ///< each is tried
  std::vector<std::uint64_t> most_bytes = {};
  double hop = 0;
  std::vector<rank_link> links = {};
};

struct cut_options {
  search_options search = {};
  std::uint64_t seed = 1;
  std::uint64_t effort = 20'000'000;  ///< how many passes are timed to compare cuts
  std::uint64_t try_all = 2'000;      ///< up to so many cuts, each is tried
};

}  // namespace cleave

namespace cleave::detail {

/// The step with these stages. Precondition: nothing is wrong with the row, and the cut is one.
inline search_problem search_problem_of(unit_row const& row, cut_step const& step, row_cut const& cut) {
  search_problem p{.ranks = step.ranks, .microbatches = step.microbatches};
  p.most_bytes = step.most_bytes;
  p.hop = step.hop;
  p.links = step.links;
  for (std::size_t s = 0; s + 1 < cut.size(); ++s) {
    auto const from = cut[s], to = cut[s + 1];
    p.costs.push_back(cost_between(row.cost[from], row.cost[to]));
    if (!row.bytes.empty())
      p.bytes.stages.push_back({row.bytes[to].stash - row.bytes[from].stash,
                                row.bytes[to].weight_stash - row.bytes[from].weight_stash,
                                row.bytes[to].input - row.bytes[from].input});
    if (!row.resident.empty()) p.resident.push_back(row.resident[to] - row.resident[from]);
    if (!row.crossing.empty() && s > 0) p.bytes.edges.push_back(row.crossing[from]);
  }
  return p;
}

/// \throws unit_row_error, search_error, schedule_count_error
inline void demand_cut_step(unit_row const& row, cut_step const& step) {
  expects(!step.stages_per_rank.empty(), "cut_for_schedule: how many stages a rank are to be tried");
  if (auto const f = find_unit_row_fault(row)) throw unit_row_error(*f);
  for (auto const per_rank : step.stages_per_rank) {
    demand_counts(step.ranks, per_rank, step.microbatches);
    auto const stages = per_rank * step.ranks;
    if (auto const f = find_unit_row_fault(row, stages)) throw unit_row_error(*f);
    demand_problem(search_problem_of(row, step, bottleneck_cut(row, stages)));
  }
}

}  // namespace cleave::detail
