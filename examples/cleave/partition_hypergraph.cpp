// SPDX-License-Identifier: MIT
// cleave partition FILE.hgr -k 8: cuts a hypergraph in a file into parts with few cut nets.
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/formats/graph_files/text.hpp>
#include <cleave/partition/kway/hypergraph_cut.hpp>
#include <cleave/partition/kway/hypergraph_options.hpp>
#include <cleave/partition/kway/partition_hypergraph.hpp>
#include <cleave/partition/model/partition.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include "files.hpp"
#include "hypergraphs.hpp"
#include "options.hpp"
#include "partition_task.hpp"
#include "terminal.hpp"

namespace tool {

namespace {

cleave::hypergraph_options options_of(partition_task const& task) {
  return {.preset = task.options.preset,
          .objective = task.goal == partition_goal::cut_nets ? cleave::hypergraph_objective::cut_nets
                                                             : cleave::hypergraph_objective::connectivity,
          .imbalance = task.options.imbalance,
          .seed = task.options.seed,
          .threads = task.options.threads};
}

template <class Weight>
int cut_file(partition_task const& task) {
  progress const doing;
  doing("reading " + task.file);
  partition_clock clock;
  auto const h = read_hypergraph_file<Weight>(task.file);
  auto const view = h.view();
  clock.has_read();
  require_parts(task, view.nodes);
  auto text = bold(cleave::printable(task.file, 200)) + ": " + plural(view.nodes, "node") + ", " +
              plural(view.nets(), "net") + ", " + plural(view.pins.size(), "pin") + "\n";
  cleave::partition p;
  std::string took;
  if (task.verify.empty()) {
    doing("cutting into " + plural(task.parts, "part"));
    p = cleave::partition_hypergraph(view, task.parts, options_of(task));
    took = clock.facts();
    text += made_fact(task);
    write_parts(task, p);
  } else {
    p = read_parts(task, view.nodes);
    text += read_fact(task, p);
  }
  doing.clear();
  auto const costs = cleave::measure_cut(view, p);
  text += fact("lambda - 1", number_text(costs.connectivity));
  text += fact("cut nets", number_text(costs.cut_net_weight) + " (" + plural(costs.cut_nets, "net") + ")");
  auto const v = verify_balance(view, p, task.options.imbalance[0]);
  auto const empty = view.nodes < p.parts ? empty_parts_of(task, p, false) : empty_parts_fact{};
  text += balance_facts(v, task);
  if (empty.wrong) text += empty.text;  // if there are enough nodes, the verdict names the empty parts
  text += took;
  if (!task.out.empty() && task.out.path != "-") text += fact("written", shown(task.out.path));
  say(task, text);
  return v.sound() && !empty.wrong ? 0 : 1;
}

}  // namespace

int cut_hypergraph(partition_task const& task) {
  using enum partition_goal;
  if (task.goal != by_file && task.goal != connectivity && task.goal != cut_nets)
    throw usage_error("--goal " + std::string(goal_names[static_cast<std::size_t>(task.goal)]) +
                      " is for graphs; a hypergraph has --goal connectivity or cut-nets");
  if (task.flops_per_byte)
    throw usage_error("--flops-per-byte is for directed graphs in JSON; leave it out for a hypergraph");
  try {
    return cut_file<std::int64_t>(task);
  } catch (cleave::fractional_weight_error const&) {
    return cut_file<double>(task);
  }
}

}  // namespace tool
