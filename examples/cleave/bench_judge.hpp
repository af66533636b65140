// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/core/ids.hpp>
#include <cleave/partition/kway/hypergraph_cut.hpp>
#include <cleave/partition/model/partition.hpp>
#include <cleave/partition/verify/verify_partition.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench_algorithms.hpp"
#include "bench_row.hpp"
#include "bench_run.hpp"
#include "hypergraphs.hpp"

namespace tool {

/// Bytes of a graph or hypergraph in CSR arrays with 32-bit entries, the unit of memory for all algorithms.
inline double row_bytes(bench_task const& task) {
  if (auto const* const h = task.hypergraph)
    return 4 * static_cast<double>(h->offsets.size() + h->pins.size() + h->node_weight.size() +
                                   h->net_weight.size());
  auto const words =
      task.nodes() + 1 + 2 * task.edges() + task.graph.node_weight.size() + task.graph.edge_weight.size();
  return 4 * static_cast<double>(words);
}

inline cleave::partition partition_of(run_outcome const& run, std::uint32_t parts) {
  cleave::partition p{.of = {}, .parts = parts};
  p.of.reserve(run.part_of.size());
  for (auto const part : run.part_of) p.of.push_back(cleave::part_id{part});
  return p;
}

/// Returns the fault that makes parts invalid: a part that does not exist, or a cycle of parts. Heavy and
/// empty parts are valid.
inline std::optional<std::string> broken(std::vector<cleave::partition_finding> const& findings) {
  for (auto const& f : findings)
    if (f.what != cleave::partition_fault::overweight && f.what != cleave::partition_fault::empty_part)
      return "error: " + describe(f);
  return {};
}

/// For a DAG, the imbalance is that of the work without transfers.
inline std::optional<std::string> judge_dag(bench_row& row, bench_dag const& dag, run_outcome const& run,
                                            cleave::partition const& p) {
  auto const v = cleave::verify_partition(dag.file, p);
  if (auto const fault = broken(v.findings)) return fault;
  std::vector<double> work(row.parts);
  std::vector<std::size_t> nodes(row.parts);
  double total = 0;
  for (std::size_t n = 0; n < p.of.size(); ++n) {
    work[index(p.of[n])] += dag.file.work[n];
    ++nodes[index(p.of[n])];
    total += dag.file.work[n];
  }
  row.cut = v.cut;
  row.imbalance = total > 0 ? *std::ranges::max_element(work) * row.parts / total - 1 : 0;
  row.empty = static_cast<std::uint32_t>(std::ranges::count(nodes, std::size_t{0}));
  if (run.claimed_bottleneck) {
    row.bottleneck = v.bottleneck;
    if (std::abs(*run.claimed_bottleneck - v.bottleneck) > 1e-6 * v.bottleneck)
      row.status = "bottleneck reported wrongly";
  }
  if (dag.file.lacking.leaves_bounds()) row.bound = run.bound;
  return {};
}

/// With several weights, the imbalance is the largest of any weight.
inline std::optional<std::string> judge_graph(bench_row& row, bench_task const& task, run_outcome const& run,
                                              cleave::partition const& p) {
  auto const& g = task.graph;
  auto const v = cleave::verify_partition(g, p, {.imbalance = row.eps});
  if (auto const fault = broken(v.findings)) return fault;
  row.cut = static_cast<double>(v.cut);
  row.imbalance = v.total > 0 ? v.imbalance : 0;
  row.empty = v.empty;
  for (auto const& list : task.further) {
    std::vector<std::int64_t> weight;
    for (double const w : list) weight.push_back(std::llround(w));
    cleave::adjacency_view const other{g.offsets, g.targets, weight, g.edge_weight};
    auto const one = cleave::verify_partition(other, p, {.imbalance = row.eps});
    if (auto const fault = broken(one.findings)) return fault;
    if (one.total > 0) row.imbalance = std::max(row.imbalance, one.imbalance);
  }
  if (run.claimed_cut) {
    row.claimed_cut = static_cast<double>(*run.claimed_cut);
    if (*run.claimed_cut != v.cut) row.status = "cut reported wrongly";
  }
  return {};
}

/// For a hypergraph, the cut is the objective of the task, counted from the pins.
inline std::optional<std::string> judge_hypergraph(bench_row& row, bench_task const& task,
                                                   run_outcome const& run, cleave::partition const& p) {
  auto const view = task.hypergraph->view();
  auto const v = verify_balance(view, p, row.eps);
  if (auto const fault = broken(v.findings)) return fault;
  auto const cost = cleave::measure_cut(view, p);
  auto const cut =
      task.goal == cleave::hypergraph_objective::connectivity ? cost.connectivity : cost.cut_net_weight;
  row.cut = static_cast<double>(cut);
  row.imbalance = v.total > 0 ? v.imbalance : 0;
  row.empty = v.empty;
  if (run.claimed_cut) {
    row.claimed_cut = static_cast<double>(*run.claimed_cut);
    if (*run.claimed_cut != cut) row.status = "cut reported wrongly";
  }
  return {};
}

/// Fills a run's row with the numbers that the library's verifier counts from the instance and the parts
/// alone.
inline void judge(bench_row& row, bench_task const& task, run_outcome const& run) {
  row.status = run.status;
  if (run.status != "ok") return;
  auto const p = partition_of(run, row.parts);
  auto const fault = task.dag != nullptr          ? judge_dag(row, *task.dag, run, p)
                     : task.hypergraph != nullptr ? judge_hypergraph(row, task, run, p)
                                                  : judge_graph(row, task, run, p);
  if (fault) row.status = *fault;
  row.wall_s = run.wall_s;
  row.cpu_s = run.cpu_s;
  row.memory_csr = static_cast<double>(run.memory_bytes) / row_bytes(task);
}

}  // namespace tool
