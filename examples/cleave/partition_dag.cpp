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
    throw cleave::error(cleave::printable(file, 200) + ": " + e.what());
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

/// Describes the parts. The numbers are counted from the file and the parts alone.
std::string facts_of(cleave::cost_dag const& d, cleave::partition const& p,
                     cleave::dag_partition_report const& v, std::optional<double> bound) {
  certificate const proof{.objective = objective_of(d.arc_price()),
                          .bottleneck = v.bottleneck,
                          .bound = bound,
                          .parts = plural(p.parts, "part"),
                          .lacking = d.lacking,
                          .counts_nodes = d.lacking.nodes > 0 && d.lacking.nodes == d.lacking.of_nodes};
  auto text = "  " + sentence_of(proof) + "\n";
  text += fact("cut", cleave::short_text(v.cut) + " (arcs); " + cleave::short_text(v.traffic) +
                          " if each part receives a value once");
  std::vector<double> work(p.parts);
  double total = 0;
  for (std::size_t n = 0; n < p.of.size(); ++n) work[index(p.of[n])] += d.work[n], total += d.work[n];
  auto const heaviest = work.empty() ? 0 : *std::ranges::max_element(work);
  auto const above = total > 0 ? heaviest * p.parts / total - 1 : 0;
  text += fact("imbalance", cleave::fixed_text(100 * above, 2) + "\u00a0% of work");
  for (auto const& f : v.findings) text += fact("wrong", cleave::describe(f));
  for (std::size_t i = 0; i < v.cycle.size(); ++i)
    text += (i == 0 ? "             " : " -> ") + std::to_string(index(v.cycle[i])) +
            (i + 1 == v.cycle.size() ? "\n" : "");
  return text;
}

}  // namespace

int cut_operations(partition_task const& task) {
  progress const doing;
  doing("reading " + task.file);
  partition_clock clock;
  auto const d = cleave::read_cost_dag(task.file, task.flops_per_byte.value_or(0), limited({}));
  if (task.flops_per_byte && !d.cost_per_byte)
    throw usage_error("--flops-per-byte is for files that give bytes; this file gives the costs of arcs");
  clock.has_read();
  require_parts(task, d.nodes());
  auto text = bold(cleave::printable(task.file, 200)) + ": " + plural(d.nodes(), "node") + ", " +
              plural(d.arcs.size(), "arc") + "\n";
  cleave::partition p;
  std::optional<double> bound;
  bool balanced = true;
  std::string took;
  if (task.verify.empty()) {
    doing("cutting into " + plural(task.parts, "part"));
    auto const s = snapshot_of(d, task.file);
    auto const made = cleave::partition_acyclic(s.graph, task.parts, options_of(task, s));
    took = clock.facts();
    balanced = made.balanced, p.parts = made.parts;
    for (auto const at : s.position) p.of.push_back(made.of[at]);
    bool const cut = task.goal == partition_goal::cut;
    if (!cut) bound = made.bound;
    text += fact("parts", cleave::count_text(made.parts) + ", goal " + (cut ? "cut" : "bottleneck") +
                              ", seed " + std::to_string(task.options.seed));
    write_parts(task, p);
  } else {
    p = read_parts(task, d.nodes());
    text += read_fact(task, p);
  }
  doing.clear();
  auto const v = cleave::verify_partition(d, p);
  auto const empty = empty_parts_of(task, p, p.parts <= d.nodes() && d.together.empty());
  text += facts_of(d, p, v, bound) + empty.text + took;
  if (!balanced) text += fact("wrong", "no parts within the requested imbalance were found");
  if (!task.out.empty() && task.out.path != "-") text += fact("written", shown(task.out.path));
  say(task, text);
  return v.sound() && !empty.wrong && balanced ? 0 : 1;
}

}  // namespace tool
