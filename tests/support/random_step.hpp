// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cleave/core/random.hpp"
#include "cleave/schedule/list/backward_choice.hpp"
#include "cleave/schedule/list/placed_step.hpp"
#include "cleave/schedule/list/search_problem.hpp"
#include "cleave/schedule/search/least_bytes.hpp"

namespace cleave::testing {

using namespace detail;

struct random_step_sizes {
  std::uint32_t most_ranks = 4, most_stages_per_rank = 2, most_microbatches = 6;
};

/// Returns a step with small integer costs and bytes, sometimes with links, without a memory limit.
inline search_problem random_step(splitmix& rng, random_step_sizes const& sizes = {}) {
  auto const up_to = [&](std::size_t most) { return static_cast<std::uint32_t>(1 + rng.below(most)); };
  search_problem p{.ranks = up_to(sizes.most_ranks), .microbatches = up_to(sizes.most_microbatches)};
  auto const stages = p.ranks * up_to(sizes.most_stages_per_rank);
  for (std::uint32_t s = 0; s < stages; ++s) {
    auto const cost = [&] { return static_cast<double>(rng.below(5)); };
    p.costs.push_back({.forward = 1 + cost(),
                       .backward = 2 + cost(),
                       .input_gradient = 1 + cost(),
                       .weight_gradient = cost()});
    p.bytes.stages.push_back({rng.below(6), rng.below(6), 0});
    p.resident.push_back(rng.below(4));
  }
  p.base_latency = static_cast<double>(rng.below(3)) / 2;
  if (rng.below(2) == 0) {
    for (std::uint32_t s = 1; s < stages; ++s) p.bytes.edges.push_back({rng.below(5), rng.below(5)});
    for (std::uint32_t pair = 0; pair < p.ranks * p.ranks; ++pair)
      p.links.push_back({static_cast<double>(rng.below(3)) / 4, static_cast<double>(1 + rng.below(8))});
  }
  return p;
}

/// Returns a memory limit for all ranks under which some placement can run: the smallest one or more.
inline std::uint64_t random_memory_limit(splitmix& rng, search_problem const& p) {
  std::uint64_t least = ~std::uint64_t{0}, all = 0;
  for (auto const& step : placed_steps(p)) {
    auto const needed = least_bytes(step, backward_choice::split);
    std::uint64_t most = 0;
    for (std::size_t r = 0; r < needed.size(); ++r) most = std::max(most, step.resident[r] + needed[r]);
    least = std::min(least, most);
    all = std::max(all, most);
  }
  return least + rng.below(2 + 2 * all);
}

}  // namespace cleave::testing
