// SPDX-License-Identifier: MIT
// cleave partition FILE.hgr -k 8: cuts a hypergraph in a file into parts with few cut nets.
#include <algorithm>
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/formats/graph_files/hmetis_hypergraph.hpp>
#include <cleave/formats/graph_files/text.hpp>
#include <cleave/formats/units.hpp>
#include <cleave/graph/hypergraph.hpp>
#include <cleave/partition/kway/hypergraph_cut.hpp>
#include <cleave/partition/kway/hypergraph_options.hpp>
#include <cleave/partition/kway/partition_hypergraph.hpp>
#include <cleave/partition/model/partition.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "files.hpp"
#include "options.hpp"
#include "partition_task.hpp"
#include "terminal.hpp"

namespace tool {

namespace {

template <class Weight>
cleave::hypergraph<std::uint32_t, Weight> read_hypergraph(std::string const& file) {
  auto const text = read_text(file);
  try {
    return cleave::read_hmetis_hypergraph<std::uint32_t, Weight>(text);
  } catch (cleave::graph_file_error const& e) {
    throw cleave::graph_file_error(file, e);
  }
}

cleave::hypergraph_options options_of(partition_task const& task) {
  return {.preset = task.options.preset,
          .objective = task.goal == partition_goal::cut_nets ? cleave::hypergraph_objective::cut_nets
                                                             : cleave::hypergraph_objective::connectivity,
          .imbalance = task.options.imbalance,
          .seed = task.options.seed,
          .threads = task.options.threads};
}

/// Describes the balance, counted from the weights alone. Sets `wrong` if a part is too heavy.
template <class Weight>
std::string balance_facts(cleave::hypergraph_view<std::uint32_t, Weight, Weight> h,
                          cleave::partition const& p, partition_task const& task, bool& wrong) {
  using sum = cleave::weight_total<Weight>;
  std::vector<sum> weight(p.parts, 0);
  sum total = 0, heaviest_node = 0;
  for (std::size_t n = 0; n < h.nodes; ++n) {
    auto const w = static_cast<sum>(h.weight(n));
    weight[index(p.of[n])] += w;
    total += w;
    heaviest_node = (std::max)(heaviest_node, w);
  }
  auto const fair = cleave::detail::fair_weights(total, p.parts, {});
  double most = 0;
  std::string faults;
  for (std::uint32_t part = 0; part < p.parts; ++part) {
    if (!(fair[part] > 0)) continue;
    auto const above = static_cast<double>(weight[part]) / static_cast<double>(fair[part]) - 1;
    most = (std::max)(most, above);
    if (above <= task.options.imbalance[0] * (1 + 1e-12) + 1e-12 || weight[part] <= heaviest_node) continue;
    wrong = true;
    if (faults.size() < 1000)
      faults += fact("wrong", "part " + std::to_string(part) + " weighs " + number_text(weight[part]) +
                                  ", but its share is " + number_text(fair[part]));
  }
  auto const share = cleave::decimal_text(100 * task.options.imbalance[0], 2) + "\u00a0%";
  return fact("imbalance", cleave::fixed_text(100 * most, 2) + "\u00a0%, of at most " + share) + faults;
}

template <class Weight>
int cut_file(partition_task const& task) {
  progress const doing;
  doing("reading " + task.file);
  partition_clock clock;
  auto const h = read_hypergraph<Weight>(task.file);
  auto const view = h.view();
  clock.has_read();
  require_parts(task, task.parts, view.nodes);
  auto text = bold(cleave::printable(task.file, 200)) + ": " + plural(view.nodes, "node") + ", " +
              plural(view.nets(), "net") + ", " + plural(view.pins.size(), "pin") + "\n";
  cleave::partition p;
  std::string took;
  if (task.verify.empty()) {
    doing("cutting into " + plural(task.parts, "part"));
    p = cleave::partition_hypergraph(view, task.parts, options_of(task));
    took = clock.facts();
    auto const preset = preset_names[static_cast<std::size_t>(task.options.preset)];
    text +=
        fact("parts", cleave::count_text(task.parts) + ", preset " + std::string(preset) + ", seed " +
                          std::to_string(task.options.seed) + ", " + plural(task.options.threads, "thread"));
    write_parts(task, p);
  } else {
    p = read_parts(task, view.nodes);
    text += fact("parts", cleave::count_text(p.parts) + ", of " + cleave::printable(task.verify, 200));
  }
  doing.clear();
  auto const costs = cleave::measure_cut(view, p);
  text += fact("lambda - 1", number_text(costs.connectivity));
  text += fact("cut nets", number_text(costs.cut_net_weight) + " (" + plural(costs.cut_nets, "net") + ")");
  bool wrong = false;
  text += balance_facts(view, p, task, wrong);
  auto const empty = empty_parts_of(task, p, view.nodes >= p.parts);
  text += empty.text + took;
  if (!task.out.empty() && task.out.path != "-") text += fact("written", shown(task.out.path));
  say(task, text);
  return wrong || empty.wrong ? 1 : 0;
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
