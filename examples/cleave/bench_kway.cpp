// SPDX-License-Identifier: MIT
// The presets of partition_kway, for the bench.
#include <algorithm>
#include <cleave/partition/kway/kway.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "bench_algorithms.hpp"

namespace tool {

namespace {

template <cleave::kway_preset Preset, bool Connected = false>
std::function<bench_answer()> prepare(bench_task const& task) {
  std::vector<std::uint32_t> part_of(task.graph.nodes());
  cleave::kway_options options{.preset = Preset,
                               .imbalance = task.eps,
                               .connected = Connected,
                               .seed = task.seed,
                               .threads = task.threads};
  for (auto const& list : task.further) options.further_weights.push_back({list, task.eps});
  return [task, options, part_of]() mutable {
    auto const p = cleave::partition_kway(task.graph, task.parts, options);
    std::ranges::transform(p.of, part_of.begin(), [](cleave::part_id id) { return cleave::index(id); });
    return bench_answer{std::move(part_of), p.cut};
  };
}

}  // namespace

std::vector<bench_algorithm> kway_algorithms() {
  using enum cleave::kway_preset;
  return {{.name = "cleave-fast",
           .about = "multilevel k-way, preset fast",
           .prepare = prepare<fast>,
           .has_threads = true,
           .several_weights = true},
          {.name = "cleave-standard",
           .about = "multilevel k-way, preset standard",
           .prepare = prepare<standard>,
           .has_threads = true,
           .several_weights = true},
          {.name = "cleave-quality",
           .about = "multilevel k-way, preset quality",
           .prepare = prepare<quality>,
           .has_threads = true,
           .several_weights = true},
          {.name = "cleave-fast-connected",
           .about = "preset fast, connected parts",
           .prepare = prepare<fast, true>,
           .has_threads = true,
           .several_weights = true},
          {.name = "cleave-standard-connected",
           .about = "preset standard, connected parts",
           .prepare = prepare<standard, true>,
           .has_threads = true,
           .several_weights = true}};
}

}  // namespace tool
