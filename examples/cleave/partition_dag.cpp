// SPDX-License-Identifier: MIT
// cleave partition FILE.dag -k 8: cuts a directed acyclic graph into parts without cyclic dependencies.
#include <algorithm>
#include <array>
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/formats/graph_files/cost_dag.hpp>
#include <cleave/partition/acyclic/acyclic.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "certificate.hpp"
#include "options.hpp"
#include "partition_task.hpp"

namespace tool {

namespace {

/// \throws cleave::error with the file's name if the graph has a cycle
cleave::dag_snapshot snapshot_of(cleave::cost_dag const& d, std::string const& file) {
  try {
    return cleave::snapshot_of_dag(d);
  } catch (cleave::dag_cycle_error const& e) {
    throw cleave::error(file + ": " + e.what());
  }
}

cleave::acyclic_options options_of(partition_task const& task, cleave::dag_snapshot const& s) {
  constexpr std::array<double, 3> effort = {0.25, 1, 4};  // by preset
  bool const cut = task.goal == partition_goal::cut;
  cleave::acyclic_options o;
  o.goal = cut ? cleave::acyclic_goal::cut : cleave::acyclic_goal::bottleneck;
  o.counted = cleave::cut_measure::edge_bytes;
  o.epsilon = task.options.imbalance[0];
  o.effort = effort[static_cast<std::size_t>(task.options.preset)];
  o.limits = s.options;
  o.limits.seed = task.options.seed;
  return o;
}

/// Tells about the parts. The numbers are counted from the file and the parts alone.
void add_facts(fact_sheet& to, cleave::cost_dag const& d, cleave::partition const& p,
               cleave::dag_partition_report const& v, std::optional<double> bound) {
  certificate const proof{.objective = objective_of(d.arc_price()),
                          .bottleneck = v.bottleneck,
                          .bound = bound,
                          .parts = plural(p.parts, "part"),
                          .lacking = d.lacking,
                          .counts_nodes = d.lacking.nodes > 0 && d.lacking.nodes == d.lacking.of_nodes};
  to.lines("  " + sentence_of(proof) + "\n");
  to.member("bottleneck", v.bottleneck);
  if (bound) to.member("bound", *bound);
  to.line("cut", cleave::short_text(v.cut) + " (arcs); " + cleave::short_text(v.traffic) +
                     " if each part receives a value once");
  to.member("cut", v.cut), to.member("traffic", v.traffic);
  std::vector<double> work(p.parts);
  double total = 0;
  for (std::size_t n = 0; n < p.of.size(); ++n) work[index(p.of[n])] += d.work[n], total += d.work[n];
  auto const heaviest = work.empty() ? 0 : *std::ranges::max_element(work);
  auto const above = total > 0 ? heaviest * p.parts / total - 1 : 0;
  to.line("imbalance", cleave::fixed_text(100 * above, 2) + "\u00a0% of work");
  to.member("imbalance", above);
  for (auto const& f : v.findings) to.wrong(cleave::describe(f));
  for (std::size_t i = 0; i < v.cycle.size(); ++i)
    to.lines((i == 0 ? "             " : " -> ") + std::to_string(index(v.cycle[i])) +
             (i + 1 == v.cycle.size() ? "\n" : ""));
  if (v.cycle.empty()) return;
  to.json().key("cycle").open_array();
  for (auto const part : v.cycle) to.json().value(index(part));
  to.json().close_array();
}

}  // namespace

int cut_operations(partition_task const& task) {
  progress const doing;
  doing("reading " + task.graph.name());
  partition_clock clock;
  auto const d = read_cost_dag_of(task.graph, task.flops_per_byte.value_or(0));
  if (task.flops_per_byte && !d.cost_per_byte)
    throw usage_error("--flops-per-byte is for files that give bytes; this file gives the costs of arcs");
  clock.has_read();
  require_parts(task, d.nodes());
  fact_sheet told(task.graph.file, {{"node", d.nodes()}, {"arc", d.arcs.size()}});
  cleave::partition p;
  std::optional<double> bound;
  bool balanced = true;
  partition_times took;
  if (task.verify.empty()) {
    doing("cutting into " + plural(task.parts, "part"));
    auto const s = snapshot_of(d, task.graph.name());
    auto const made = cleave::partition_acyclic(s.graph, task.parts, options_of(task, s));
    took = clock.times();
    balanced = made.balanced, p.parts = made.parts;
    for (auto const at : s.position) p.of.push_back(made.of[at]);
    bool const cut = task.goal == partition_goal::cut;
    if (!cut) bound = made.bound;
    auto const goal = goal_names[static_cast<std::size_t>(cut ? task.goal : partition_goal::bottleneck)];
    told.line("parts", cleave::count_text(made.parts) + ", goal " + std::string(goal) + ", seed " +
                           std::to_string(task.options.seed));
    told.member("parts", made.parts), told.member("goal", goal), told.member("seed", task.options.seed);
    write_parts(task, p);
  } else {
    p = read_parts(task, d.nodes());
    add_read(told, task, p);
  }
  doing.clear();
  auto const v = cleave::verify_partition(d, p);
  auto const empty = empty_parts_of(task, p, p.parts <= d.nodes() && d.together.empty());
  add_facts(told, d, p, v, bound);
  empty.add_to(told);
  took.add_to(told);
  if (!balanced) told.wrong("no parts within the requested imbalance were found");
  return finish(told, task, v.sound() && !empty.wrong && balanced);
}

}  // namespace tool
