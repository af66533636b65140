// SPDX-License-Identifier: MIT
// The presets of partition_hypergraph, for the bench.
#include <algorithm>
#include <cleave/partition/kway/hypergraph_options.hpp>
#include <cleave/partition/kway/partition_hypergraph.hpp>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "bench_algorithms.hpp"

namespace tool {

namespace {

template <cleave::kway_preset Preset>
std::function<bench_answer()> prepare_hypergraph(bench_task const& task) {
  std::vector<std::uint32_t> part_of(task.nodes());
  return [task, part_of]() mutable {
    auto const p = cleave::partition_hypergraph(task.hypergraph->view(), task.parts,
                                                {.preset = Preset,
                                                 .objective = task.goal,
                                                 .imbalance = task.eps,
                                                 .seed = task.seed,
                                                 .threads = task.threads});
    std::ranges::transform(p.of, part_of.begin(), [](cleave::part_id id) { return cleave::index(id); });
    auto const cost =
        task.goal == cleave::hypergraph_objective::connectivity ? p.cut.connectivity : p.cut.cut_net_weight;
    return bench_answer{std::move(part_of), cost};
  };
}

}  // namespace

std::vector<bench_algorithm> hypergraph_algorithms() {
  using enum cleave::kway_preset;
  auto const takes = bench_algorithm::input::hypergraph;
  return {{"cleave-fast", "multilevel, preset fast", takes, prepare_hypergraph<fast>, true},
          {"cleave-standard", "multilevel, preset standard", takes, prepare_hypergraph<standard>, true},
          {"cleave-quality", "multilevel, preset quality", takes, prepare_hypergraph<quality>, true}};
}

}  // namespace tool
