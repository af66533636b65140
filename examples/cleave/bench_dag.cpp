// SPDX-License-Identifier: MIT
// The algorithms that cut directed graphs, for the bench.
#include <cleave/partition/acyclic/acyclic.hpp>
#include <cleave/partition/slices/balance.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "bench_algorithms.hpp"
#include "bench_dag.hpp"

namespace tool {

namespace {

std::function<bench_answer()> slices(bench_task const& task) {
  return [task, limits = seeded(task)] {
    auto const p = cleave::balance(task.dag->snapshot.graph, task.parts, limits);
    return bench_answer{.part_of = in_file_order(p, task.dag->snapshot.position),
                        .claimed_bottleneck = p.bottleneck,
                        .bound = p.bound};
  };
}

template <cleave::acyclic_goal Goal>
std::function<bench_answer()> acyclic(bench_task const& task) {
  cleave::acyclic_options const options{
      .goal = Goal, .counted = cleave::cut_measure::edge_bytes, .epsilon = task.eps, .limits = seeded(task)};
  return [task, options] {
    auto const p = cleave::partition_acyclic(task.dag->snapshot.graph, task.parts, options);
    bench_answer answer{.part_of = in_file_order(p, task.dag->snapshot.position)};
    if (Goal == cleave::acyclic_goal::bottleneck) {
      answer.claimed_bottleneck = p.bottleneck;
      answer.bound = p.bound;
    }
    return answer;
  };
}

}  // namespace

std::vector<bench_algorithm> dag_algorithms() {
  using enum bench_algorithm::input;
  return {{"cleave-exact", "exact search for the smallest largest load, about ten seconds at most", dag,
           exact_answer},
          {"cleave-slices", "balance: the best slices of many topological orders", dag, slices},
          {"cleave-acyclic", "multilevel acyclic, least largest load", dag,
           acyclic<cleave::acyclic_goal::bottleneck>},
          {"cleave-acyclic-cut", "multilevel acyclic, least cut within the balance", dag,
           acyclic<cleave::acyclic_goal::cut>}};
}

}  // namespace tool
