// SPDX-License-Identifier: MIT
// The classic methods, for the bench.
#include <algorithm>
#include <cleave/partition/classic/named_methods.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench_algorithms.hpp"

namespace tool {

std::vector<bench_algorithm> classic_algorithms() {
  std::vector<bench_algorithm> all;
  for (auto const& m : cleave::classic_methods)
    all.push_back({std::string(m.name), std::string(m.what), bench_algorithm::input::graph,
                   [name = m.name](bench_task const& task) {
                     std::vector<std::uint32_t> part_of(task.graph.nodes());
                     return [task, name, part_of]() mutable {
                       auto const p =
                           cleave::classic_partition(name, task.graph, task.parts,
                                                     {.weights = {.imbalance = task.eps}, .seed = task.seed});
                       std::ranges::transform(p.of, part_of.begin(),
                                              [](cleave::part_id id) { return cleave::index(id); });
                       return bench_answer{std::move(part_of), static_cast<std::int64_t>(p.cut)};
                     };
                   }});
  return all;
}

}  // namespace tool
