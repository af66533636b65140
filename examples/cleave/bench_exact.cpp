// SPDX-License-Identifier: MIT
// The exact search, for the bench.
#include <cleave/partition/exact/exact.hpp>
#include <functional>

#include "bench_algorithms.hpp"
#include "bench_dag.hpp"

namespace tool {

std::function<bench_answer()> exact_answer(bench_task const& task) {
  cleave::exact_balance_options const options{.balance = seeded(task), .most_steps = 1'000'000'000};
  return [task, options] {
    auto const p = cleave::partition_exact(task.dag->snapshot.graph, task.parts, options);
    return bench_answer{.part_of = in_file_order(p, task.dag->snapshot.position),
                        .claimed_bottleneck = p.bottleneck,
                        .bound = p.bound};
  };
}

}  // namespace tool
