// SPDX-License-Identifier: MIT
// cleave partition FILE -k 8: cuts a graph in a file into parts with few edges between them.
#include "partition_task.hpp"

#include <algorithm>
#include <array>
#include <cleave/core/error.hpp>
#include <cleave/formats/graph_files/text.hpp>
#include <cleave/graph/adjacency.hpp>
#include <cleave/partition/kway/kway.hpp>
#include <cleave/partition/kway/machine.hpp>
#include <cleave/partition/kway/map_kway.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hypergraphs.hpp"
#include "options.hpp"
#include "own_files.hpp"
#include "subcommands.hpp"

namespace tool {

namespace {

/// Describes the connected pieces of parts: `1 per part`, or the parts that have several.
std::string pieces_text(std::vector<std::size_t> const& pieces) {
  auto const several = std::ranges::count_if(pieces, [](std::size_t n) { return n > 1; });
  if (several == 0) return "1 per part";
  std::string text;
  for (std::size_t part = 0, told = 0; part < pieces.size() && told < 4; ++part)
    if (pieces[part] > 1)
      text +=
          (told++ > 0 ? ", " : "") + cleave::count_text(pieces[part]) + " in part " + std::to_string(part);
  return text + (several > 4 ? ", several in " + std::to_string(several - 4) + " more" : "");
}

/// Reads numbers that colons separate, as in `4:8:2`.
template <class Number>
bool read_levels(std::string_view text, std::vector<Number>& to, Number least, Number most) {
  to.clear();
  for (std::size_t at = 0; at <= text.size();) {
    auto const end = (std::min)(text.find(':', at), text.size());
    if (!read_number(text.substr(at, end - at), to.emplace_back(), least, most)) return false;
    at = end + 1;
  }
  return true;
}

cleave::machine machine_of(partition_task const& task) {
  return cleave::machine::hierarchy(task.group_sizes, task.distances);
}

/// Reads the imbalances of all weights, which commas separate.
bool read_imbalances(std::string_view text, partition_task& task) {
  std::vector<double> all;
  for (std::size_t at = 0; at <= text.size();) {
    auto const end = (std::min)(text.find(',', at), text.size());
    if (!read_number(text.substr(at, end - at), all.emplace_back(), 0.0, most_imbalance)) return false;
    at = end + 1;
  }
  task.options.imbalance = all.front();
  task.further_imbalances.assign(all.begin() + 1, all.end());
  return true;
}

/// Sets the weights of the nodes beyond the first, with their imbalances.
void set_further_weights(partition_task& task, std::vector<std::vector<double>> lists) {
  auto& to = task.options.further_weights;
  to.clear();
  if (!task.further_imbalances.empty() && task.further_imbalances.size() != lists.size())
    throw usage_error("the nodes of " + task.graph.name() + " have " + plural(lists.size() + 1, "weight") +
                      ", but --eps has " + plural(task.further_imbalances.size() + 1, "number") +
                      "; give one for all, or one for each");
  for (std::size_t i = 0; i < lists.size(); ++i)
    to.push_back({std::move(lists[i]),
                  task.further_imbalances.empty() ? task.options.imbalance[0] : task.further_imbalances[i]});
}

/// Checks the balance of the weights beyond the first, and tells it in a line for each. Returns whether all
/// are balanced.
template <class View>
bool add_further(fact_sheet& to, partition_task const& task, View view, cleave::partition const& p) {
  bool sound = true;
  if (!task.options.further_weights.empty()) to.json().key("further_weights").open_array();
  for (std::size_t i = 0; i < task.options.further_weights.size(); ++i) {
    auto const& w = task.options.further_weights[i];
    auto const most = w.imbalance[0];
    auto const told = [&](auto const& v) {
      sound = sound && v.sound();
      to.line("weight " + std::to_string(i + 2), imbalance_text(v.imbalance, most));
      to.json().open_object().member("imbalance", v.imbalance).member("most_imbalance", most).close_object();
      for (std::size_t f = 0; f < v.findings.size() && f < 10; ++f) to.wrong(cleave::describe(v.findings[f]));
    };
    auto const verified = [&](auto const& weights) {
      cleave::adjacency_view const other{view.offsets, view.targets, weights, view.edge_weight};
      told(cleave::verify_partition(other, p, {.imbalance = most}));
    };
    bool const whole = std::ranges::all_of(
        w.of, [](double x) { return x < 0x1p53 && static_cast<double>(static_cast<std::int64_t>(x)) == x; });
    if (whole)  // shares of whole weights are rounded up
      verified(std::vector<std::int64_t>(w.of.begin(), w.of.end()));
    else
      verified(w.of);
  }
  if (!task.options.further_weights.empty()) to.json().close_array();
  return sound;
}

/// Takes the number of parts from the machine, if there is one.
void require_machine(partition_task& task) {
  if (task.group_sizes.empty() != task.distances.empty())
    throw usage_error("--machine and --distances go together, as in --machine 4:8 --distances 1:10");
  if (task.group_sizes.empty()) return;
  auto const places = machine_of(task).places();
  if (task.parts != 0 && task.parts != places)
    throw usage_error("the machine has " + plural(places, "place") + ", but -k asks for " +
                      plural(task.parts, "part") + "; leave out -k");
  task.parts = places;
}

template <class Weight>
int cut_graph(partition_task& task) {
  progress const doing;
  doing("reading " + task.graph.name());
  partition_clock clock;
  std::vector<std::vector<double>> further;
  task.reading.further_weights = task.group_sizes.empty() ? &further : nullptr;
  auto const g = read_graph_of<std::uint32_t, Weight>(task.graph, limited(task.reading));
  set_further_weights(task, std::move(further));
  auto const view = g.view();
  clock.has_read();
  require_parts(task, view.nodes());
  fact_sheet told(task.graph.file, {{"node", view.nodes()}, {"edge", view.directed_edges() / 2}});
  cleave::partition p;
  partition_times took;
  if (task.verify.empty()) {
    doing("cutting into " + plural(task.parts, "part"));
    if (task.group_sizes.empty())
      p = cleave::partition_kway(view, task.parts, task.options);
    else
      p = cleave::map_kway(view, machine_of(task), task.options);
    took = clock.times();
    add_made(told, task);
    write_parts(task, p);
  } else {
    p = read_parts(task, view.nodes());
    add_read(told, task, p);
  }
  doing.clear();
  auto const v = cleave::verify_partition(
      view, p, {.imbalance = task.options.imbalance[0], .connected = task.options.connected});
  told.line("cut", number_text(v.cut) + " (" + plural(v.cut_edges, "edge") + ")");
  told.member("cut", v.cut), told.member("cut_edges", v.cut_edges);
  if (!task.group_sizes.empty() && v.part_size.size() == p.parts) {
    auto const cost = cleave::communication_cost(view, p, machine_of(task));
    told.line("cost", number_text(cost) + ", edges times distances");
    told.member("cost", cost);
  }
  if (task.options.connected) {
    told.line("pieces", pieces_text(v.pieces));
    told.list("pieces", v.pieces);
  }
  add_balance(told, v, task);
  bool const further_sound = add_further(told, task, view, p);
  auto const empty = view.nodes() < p.parts ? empty_parts_of(task, p, false) : empty_parts_fact{};
  if (empty.wrong) empty.add_to(told);  // if there are enough nodes, the verdict names the empty parts
  took.add_to(told);
  return finish(told, task, v.sound() && further_sound && !empty.wrong);
}

/// Returns whether the file is cut as a directed graph.
bool is_of_operations(partition_task const& task) {
  using enum partition_goal;
  if (task.goal == edges) return false;
  bool const directed = cleave::is_directed(cleave::graph_format_of(task.graph.suffixed(), "c"));
  if (task.goal == connectivity || task.goal == cut_nets)
    throw usage_error("--goal " + std::string(goal_names[static_cast<std::size_t>(task.goal)]) +
                      " needs a hypergraph (.hgr, .u, .patoh)");
  if (!directed && task.goal != by_file)
    throw usage_error("--goal " + std::string(goal_names[static_cast<std::size_t>(task.goal)]) +
                      " needs a directed graph (.dag or .json); use --goal edges for an undirected one");
  return directed;
}

/// Checks that the other options fit a graph that is read row by row.
void require_stream(partition_task const& task) {
  if (is_standard(task.graph.file))
    throw usage_error(
        "--stream reads its file more than once, and standard input can be read once; name a file");
  if (!task.graph.suffixed().ends_with(".graph") && !task.graph.suffixed().ends_with(".metis"))
    throw usage_error(
        "--stream reads METIS files (.graph or .metis), which have a row for each node; found " +
        task.graph.name());
  if (task.options.connected || !task.group_sizes.empty())
    throw usage_error("--connected and --machine need the whole graph in memory; leave out --stream");
  if (task.goal != partition_goal::by_file && task.goal != partition_goal::edges)
    throw usage_error("--stream minimises edges; leave out --goal");
}

void add_options(command& c, partition_task& task) {
  c.options.push_back(number_option("-k", "--parts", "N", "number of parts", task.parts, 1, most_parts));
  c.options.push_back(choice_option(
      "--preset", "NAME", preset_names, "time spent on a smaller cut: fast, standard, quality (standard)",
      [&](std::size_t at) { task.options.preset = static_cast<cleave::kway_preset>(at); }));
  c.options.push_back(
      {"", "--eps", "SHARE",
       range_text(0.0, most_imbalance) + ", as in 0.03, or one for each weight, as in 0.03,0.1",
       "imbalance: share by which a part may exceed the average (0.03)",
       [&](auto text) { return read_imbalances(text, task); }});
  c.options.push_back(choice_option(
      "--goal", "WHAT", std::span(goal_names).subspan(1),
      "minimise edges; of directed graphs bottleneck or cut; of hypergraphs connectivity or cut-nets",
      [&](std::size_t at) { task.goal = static_cast<partition_goal>(at + 1); }));
  c.options.push_back(
      number_option("", "--flops-per-byte", "R",
                    "for a graph in JSON: cost of moving a byte between parts, in its unit (0)",
                    task.flops_per_byte, 0, 1e12));
  c.options.push_back({"", "--machine", "SIZES",
                       "whole numbers from 1 to 65536 with colons between them, as in 4:8",
                       "machine to map the parts to, in place of -k: 4:8 is 8 groups of 4 places",
                       [&](auto text) { return read_levels(text, task.group_sizes, 1u, 65'536u); }});
  c.options.push_back(
      {"", "--distances", "LENGTHS",
       "whole numbers from 0 to 1073741824 with colons between them, as in 1:10",
       "distances of places of that machine: 1:10 is 1 in a group, and 10 between groups",
       [&](auto text) { return read_levels(text, task.distances, std::int64_t{0}, std::int64_t{1} << 30); }});
  c.options.push_back(flag("--connected", "make each part connected, or with --verify, check that it is",
                           task.options.connected));
  c.options.push_back(flag("--stream",
                           "read a METIS file row by row and never load the graph, which may exceed memory",
                           task.stream));
  c.options.push_back(number_option(
      "", "--buffer", "N", "of a stream: nodes that are cut together; 0: each node is placed alone (65536)",
      task.buffer, 0, (std::size_t{1} << 31) - 1));
  c.options.push_back(choice_option("--rule", "RULE", rule_names,
                                    "of a stream: how a single node is placed: ldg, fennel (ldg)",
                                    [&](std::size_t at) {
                                      task.rule = static_cast<cleave::stream_rule>(at);
                                      task.rule_given = true;
                                    }));
  c.options.push_back(number_option("", "--seed", "N", "seed of the random choices (1)", task.options.seed, 0,
                                    ~std::uint64_t{0}));
  c.options.push_back(number_option("", "--threads", "N",
                                    "number of threads; the parts do not depend on it (1)",
                                    task.options.threads, 1, 1024));
  c.options.push_back({"",
                       "--out",
                       "PARTS",
                       "a file name, or -",
                       "write the part of each node to this file, one per line; - is stdout",
                       [&](auto text) { return !(task.out.path = text).empty(); },
                       {.what = file_use::kind::written, .form = part_list_form}});
  task.out.form = part_list_form;
  c.options.push_back(file_to_read(
      "--verify", "PARTS", "cut nothing; check the parts in this file, made by any program", task.verify));
  c.options.push_back({"", "--first-node", "0|1", "0 or 1", "number of the first node in a list of edges (0)",
                       [&](auto text) {
                         return read_number(text, task.reading.first_node, std::uint64_t{0},
                                            std::uint64_t{1});
                       }});
  c.options.push_back(
      choice_option("--values", "WHAT", std::array<std::string_view, 3>{"by-type", "weights", "ignored"},
                    "use of a matrix's entries: weights, ignored, or weights if they are integers (by-type)",
                    [&](std::size_t at) { task.reading.values = static_cast<cleave::matrix_values>(at); }));
  add_format_option(c, task.graph, named_formats.size());
  c.options.push_back(json_flag(task.as_json));
}

}  // namespace

int partition(std::span<std::string const> words) {
  partition_task task;
  command c{
      "partition",
      "FILE",
      "Cuts a graph into parts of equal weight with few edges between them. Reports cut and balance,\n"
      "recounted from the file and the parts. FILE is METIS (.graph), Matrix Market (.mtx), an edge list\n"
      "(.edges, .txt) or DIMACS (.dimacs, .col, .gr). A directed acyclic graph (.dag, .json) is cut into\n"
      "parts without cyclic dependencies. A hypergraph (hMETIS .hgr; PaToH .u, .patoh) is cut into\n"
      "parts with few cut nets. FILE - is standard input, whose content tells its format.",
      {}};
  add_options(c, task);
  auto const operands = read_options(c, words).operands;
  std::string const example = ", as in cleave partition mesh.graph -k 8";
  if (operands.empty()) throw usage_error("a graph file is missing" + example);
  if (operands.size() > 1)
    throw usage_error("one graph at a time; found a second operand: " + cleave::printable(operands[1]));
  task.graph.file = operands[0];
  require_machine(task);
  if (task.parts == 0 && task.verify.empty())
    throw usage_error("the number of parts is missing; give it with -k" + example);
  if (!task.verify.empty() && !task.out.empty())
    throw usage_error("--verify checks existing parts and writes nothing; leave out --out");
  auto const require_one_imbalance = [&] {
    if (!task.further_imbalances.empty())
      throw usage_error(
          "--eps takes one number here; several are for undirected graphs with several weights");
  };
  if (task.stream) {
    require_one_imbalance();
    require_stream(task);
    return cut_stream(task);
  }
  if (task.buffer || task.rule_given)
    throw usage_error("--buffer and --rule are for --stream; add it, or leave them out");
  task.graph.find_format();
  bool const is_hypergraph = is_hypergraph_file(task.graph.suffixed()),
             is_directed = !is_hypergraph && is_of_operations(task);
  if (task.options.connected && (is_hypergraph || is_directed))
    throw usage_error("--connected is for undirected graphs; leave it out");
  if (!task.group_sizes.empty() && (is_hypergraph || is_directed))
    throw usage_error("--machine is for undirected graphs; leave it out");
  if (is_hypergraph || is_directed) require_one_imbalance();
  if (is_hypergraph) return cut_hypergraph(task);
  if (is_directed) return cut_operations(task);
  if (task.flops_per_byte)
    throw usage_error(
        "--flops-per-byte is for directed graphs in JSON; leave it out for an undirected graph");
  try {
    return cut_graph<std::int64_t>(task);
  } catch (cleave::fractional_weight_error const&) {
    return cut_graph<double>(task);
  }
}

}  // namespace tool
