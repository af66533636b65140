// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/list/list_schedule.hpp"
#include "support/rng.hpp"

namespace cleave::testing {

using namespace detail;

/// Places stages with forward edges, a chain or not, on up to five ranks.
inline stage_placement random_placement(rng& random) {
  stage_placement p{static_cast<std::uint32_t>(1 + random.below(5)), {}, {}};
  auto const stages = static_cast<std::uint32_t>(1 + random.below(9));
  for (std::uint32_t s = 0; s < stages; ++s)
    p.rank_of.push_back(rank_id{static_cast<std::uint32_t>(random.below(p.ranks))});
  bool const chain = random.one_in(3);
  for (std::uint32_t from = 0; from < stages; ++from)
    for (std::uint32_t to = from + 1; to < stages; ++to)
      if (chain ? to == from + 1 : random.one_in(3)) p.edges.push_back({stage_id{from}, stage_id{to}});
  return p;
}

/// Returns costs from an eighth to two, in eighths, so that sums are exact.
inline std::vector<stage_cost> random_costs(rng& random, std::uint32_t stages) {
  std::vector<stage_cost> costs;
  auto const time = [&] { return static_cast<double>(1 + random.below(16)) / 8; };
  for (std::uint32_t s = 0; s < stages; ++s)
    costs.push_back(
        {.forward = time(), .backward = time(), .input_gradient = time(), .weight_gradient = time()});
  return costs;
}

/// Returns a compute-only schedule made by list scheduling with random costs.
inline schedule random_list_schedule(rng& random) {
  auto const place = random_placement(random);
  return list_schedule(place, static_cast<std::uint32_t>(1 + random.below(6)),
                       {.costs = random_costs(random, place.stages()),
                        .base_latency = static_cast<double>(random.below(4)) / 8,
                        .backward = random.one_in(2) ? backward_form::whole : backward_form::split});
}

/// Returns a schedule of a family. Most families accept any shape in which the ranks divide the microbatches.
inline schedule family_schedule(schedule_family family, std::uint32_t ranks, std::uint32_t microbatches) {
  return make_schedule(family, {ranks, stages_per_rank_of(family).value_or(2), microbatches});
}

}  // namespace cleave::testing
