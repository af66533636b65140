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
  doing("reading " + task.graph.name());
  partition_clock clock;
  auto const h = read_hypergraph_file<Weight>(task.graph.file, task.graph.suffixed());
  auto const view = h.view();
  clock.has_read();
  require_parts(task, view.nodes);
  fact_sheet told(task.graph.file, {{"node", view.nodes}, {"net", view.nets()}, {"pin", view.pins.size()}});
  cleave::partition p;
  partition_times took;
  if (task.verify.empty()) {
    doing("cutting into " + plural(task.parts, "part"));
    p = cleave::partition_hypergraph(view, task.parts, options_of(task));
    took = clock.times();
    add_made(told, task);
    write_parts(task, p);
  } else {
    p = read_parts(task, view.nodes);
    add_read(told, task, p);
  }
  doing.clear();
  auto const costs = cleave::measure_cut(view, p);
  told.line("lambda - 1", number_text(costs.connectivity));
  told.line("cut nets", number_text(costs.cut_net_weight) + " (" + plural(costs.cut_nets, "net") + ")");
  told.member("connectivity", costs.connectivity), told.member("cut_net_weight", costs.cut_net_weight);
  told.member("cut_nets", costs.cut_nets);
  auto const v = verify_balance(view, p, task.options.imbalance[0]);
  auto const empty = view.nodes < p.parts ? empty_parts_of(task, p, false) : empty_parts_fact{};
  add_balance(told, v, task);
  if (empty.wrong) empty.add_to(told);  // if there are enough nodes, the verdict names the empty parts
  took.add_to(told);
  return finish(told, task, v.sound() && !empty.wrong);
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
