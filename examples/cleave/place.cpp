// SPDX-License-Identifier: MIT
// cleave place MODEL.onnx --devices FILE: cuts a model into stages for devices of unlike speed, memory and
// links.
//
// --json writes one object:
//   file, devices       the model, and the number of devices
//   goal                throughput, latency or step
//   unit                of all times; empty if the graph gives none
//   period, latency     time between two microbatches; time of one forward pass
//   step, microbatches, schedule
//   bound, optimal      lower bound on what the goal minimizes; whether it is met
//   limit               {device} or {from, to} or {uplink}: what limits the throughput
//   stages              [{device, begin, end, first, last, forward, backward, memory, sends}]: nodes by position and
//                       name, bytes of activations sent to the next stage
//   unused              names of devices
//   rehearsed           with --rehearse: the measured step, in `unit`
//   gains               with --gains: [{what, value, saved}]
// With --copies, place_copies.cpp says what is in it.
#include <algorithm>
#include <array>
#include <chrono>
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/formats/device_file.hpp>
#include <cleave/formats/units.hpp>
#include <cleave/place.hpp>
#include <cleave/run/rehearsal/rehearse.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "describe.hpp"
#include "fact_sheet.hpp"
#include "graph_facts.hpp"
#include "model.hpp"
#include "own_files.hpp"
#include "place_task.hpp"
#include "subcommands.hpp"

namespace tool {

namespace {

constexpr std::array<std::string_view, 3> schedules = {"GPipe", "1F1B", "ForwardOnly"};

void add_options(command& c, place_task& task) {
  c.options.push_back(file_to_read(
      "--devices", "FILE",
      "devices and links: JSON as in docs/placing.md, or the output of nvidia-smi topo -m", task.devices));
  c.options.push_back(
      choice_option("--goal", "GOAL", placement_goals,
                    "what is least: throughput (time between microbatches), latency or step",
                    [&](std::size_t at) { task.options.goal = static_cast<cleave::placement_goal>(at); }));
  c.options.push_back(number_option("-m", "--microbatches", "N", "microbatches of a step (8)",
                                    task.options.microbatches, 1, 100'000));
  c.options.push_back(choice_option(
      "--schedule", "NAME", schedules,
      "schedule of a step: GPipe, 1F1B or ForwardOnly (ForwardOnly; 1F1B with --train)",
      [&](std::size_t at) { task.options.schedule = cleave::schedule_family_of(schedules[at]); }));
  c.options.push_back({"", "--train", "", "",
                       "count backward passes too: twice the cost of forward passes, and 4 bytes\n" +
                           std::string(30, ' ') + "of memory for each byte of weights",
                       [&](std::string_view) {
                         task.trains = true;
                         task.row.backward = 2;
                         task.row.state_copies = 4;
                         return true;
                       }});
  c.options.push_back(
      flag("--copies", "let a stage have several devices of one kind; their number divides -m", task.copies));
  c.options.push_back(flag(
      "--gains", "list what 10 % more of each device and link would save, and one more device", task.gains));
  c.options.push_back({"", "--rehearse", "SECONDS", "a number from 0.1 to 3600",
                       "run a step on threads that sleep as long as the devices would compute, with\n" +
                           std::string(30, ' ') +
                           "links as slow; its times are scaled so that it takes about SECONDS",
                       [&](auto text) { return read_number(text, task.rehearsal, 0.1, 3600.0); }});
  c.options.push_back(number_option("", "--effort", "N", "steps of the search; more take longer (30000000)",
                                    task.options.effort, 1'000, 1'000'000'000'000));
  c.options.push_back(number_option("", "--seed", "N", "seed of the random choices (1)", task.options.seed, 0,
                                    ~std::uint64_t{0}));
  c.options.push_back(file_to_write("", "--report",
                                    "write a page with the devices, their loads and the timeline of a step",
                                    task.report, is_own_page));
  c.options.push_back(json_flag(task.as_json));
}

/// Reads devices. \throws cleave::error whose message begins with the name of the file
cleave::device_network devices_in(std::string const& path) {
  auto text = read_text(path);
  try {
    auto const first = text.find_first_not_of(" \t\r\n");
    bool const is_json = first == std::string::npos || text[first] == '{';
    return is_json ? cleave::read_devices(std::move(text)) : cleave::read_gpu_topology(text);
  } catch (cleave::error const& e) {
    throw cleave::error(input_name(path) + ": " + e.what());
  }
}

named_row row_of_graph(fs::path const& path, place_task& task) {
  auto const g = read_graph(path);
  auto const unit = unit_of(g);
  for (auto const n : g.nodes()) task.row.kind.push_back(g.list()[n].target);
  named_row made{
      cleave::placement_row_of(g, task.row), {}, unit.name, unit.of_name, unit.second > 0 ? unit.second : 1};
  for (auto const n : g.nodes()) made.nodes.push_back(g.list()[n].name);
  return made;
}

named_row row_of_model(fs::path const& path, place_task& task, cleave::onnx::type_options const& types,
                       typed_words& typed, progress const& doing) {
  auto const m = read_model(path, types, doing);
  require_external_kept(m, typed);
  for (auto const n : m.graph.nodes()) task.row.kind.push_back(m.graph.proto(n).op_type());
  named_row made{cleave::placement_row_of(m.graph, task.row), {}, "s"};
  for (auto const n : m.graph.nodes()) made.nodes.emplace_back(m.graph.proto(n).name());
  return made;
}

/// Turns the times of links, which are in seconds, into the unit of the costs.
void set_unit(cleave::device_network& net, double second) {
  for (auto& link : net.links) {
    link.latency *= second;
    link.bandwidth /= second;
  }
  for (auto& up : net.uplinks) up.bandwidth /= second;
}

/// Places a row. The error for a unit that fits nowhere names its nodes.
cleave::device_placement place_row(named_row const& r, cleave::device_network const& net,
                                   cleave::placement_options const& options) {
  try {
    return cleave::place(r.row, net, options);
  } catch (cleave::unit_too_large_error const& e) {
    throw cleave::infeasible_error(std::string(e.what()) + ". The unit is node " +
                                   names_of_nodes(r, r.row.first_node[e.unit], r.row.first_node[e.unit + 1]));
  }
}

class placement_output {
 public:
  placement_output(named_row const& r, cleave::device_network const& net, cleave::device_placement const& p)
      : row_(r), net_(net), p_(p) {}

  std::string time(double t) const { return cleave::amount_text(t * row_.scale, row_.unit); }
  std::uint32_t first_of(std::size_t s) const { return row_.row.first_node[p_.stages[s].begin]; }
  std::uint32_t end_of(std::size_t s) const { return row_.row.first_node[p_.stages[s].end]; }
  std::string nodes_of(std::size_t s) const { return names_of_nodes(row_, first_of(s), end_of(s)); }

  void add_to(fact_sheet& told) const {
    told.line("period", time(p_.period) + " between microbatches; limited by the " +
                            cleave::bottleneck_text(p_.bottleneck, net_));
    told.line("latency", time(p_.latency) + " for one forward pass");
    told.line("step", time(p_.step) + " for " + plural(p_.microbatches, "microbatch") + " in " +
                          std::string(cleave::name_of(p_.schedule)));
    auto const goal = std::string(placement_goals[static_cast<std::size_t>(p_.goal)]);
    told.line("proved", p_.is_optimal() ? "no slices on these devices have a better " + goal
                                        : "the best " + goal + " is at most " +
                                              cleave::short_text(100 * p_.gap()) + " % better");
    for (std::size_t s = 0; s < p_.stages.size(); ++s) {
      auto const& stage = p_.stages[s];
      told.line("stage " + std::to_string(s),
                cleave::device_name(net_, stage.device) + ": " + nodes_of(s) + "; " +
                    time(stage.time.forward + stage.time.backward) + ", " + cleave::bytes_text(stage.memory) +
                    (s + 1 < p_.stages.size() ? ", sends " + cleave::bytes_text(stage.sent.activation) : ""));
    }
    for (auto const d : p_.unused) told.line("not used", cleave::device_name(net_, d));
  }

  void add_to(cleave::json::writer& json) const {
    json.member("devices", net_.devices.size())
        .member("goal", placement_goals[static_cast<std::size_t>(p_.goal)]);
    json.member("unit", row_.unit).member("period", scaled(p_.period)).member("latency", scaled(p_.latency));
    json.member("step", scaled(p_.step)).member("microbatches", p_.microbatches);
    json.member("schedule", cleave::name_of(p_.schedule)).member("bound", scaled(p_.bound));
    json.member("optimal", p_.is_optimal()).key("limit").open_object();
    using kind = cleave::placement_bottleneck::kind;
    auto const& b = p_.bottleneck;
    if (b.what == kind::device) json.member("device", net_.devices[b.from].name);
    if (b.what == kind::link)
      json.member("from", net_.devices[b.from].name).member("to", net_.devices[b.to].name);
    if (b.what == kind::uplink) json.member("uplink", net_.uplinks[b.from].name);
    json.close_object().key("stages").open_array();
    for (std::size_t s = 0; s < p_.stages.size(); ++s) {
      auto const& stage = p_.stages[s];
      json.open_object().member("device", net_.devices[stage.device].name);
      json.member("begin", first_of(s)).member("end", end_of(s));
      json.member("first", row_.nodes[first_of(s)]).member("last", row_.nodes[end_of(s) - 1]);
      json.member("forward", scaled(stage.time.forward)).member("backward", scaled(stage.time.backward));
      json.member("memory", stage.memory).member("sends", stage.sent.activation).close_object();
    }
    json.close_array().key("unused").open_array();
    for (auto const d : p_.unused) json.value(net_.devices[d].name);
    json.close_array();
  }

  double scaled(double t) const { return t * row_.scale; }

 private:
  named_row const& row_;
  cleave::device_network const& net_;
  cleave::device_placement const& p_;
};

}  // namespace

double rehearsed_step(cleave::schedule const& order, cleave::simulate_options const& timing, double predicted,
                      place_task const& task, progress const& doing) {
  if (!(predicted > 0))
    throw usage_error("--rehearse: the step takes no time, so that there is nothing to run");
  doing("rehearsing a step for about " + cleave::amount_text(task.rehearsal, "s"));
  std::chrono::duration<double> const unit(task.rehearsal / predicted);
  return cleave::rehearse(order, timing, unit).times.makespan;
}

void add_rehearsal(fact_sheet& told, named_row const& row, double rehearsed, double predicted,
                   std::string const& without) {
  auto const more = 100 * (rehearsed / predicted - 1);
  told.line("rehearsed", "the step took " + cleave::amount_text(rehearsed * row.scale, row.unit) + ", " +
                             cleave::short_text(std::abs(more)) + " % " + (more < 0 ? "less" : "more") +
                             " than predicted" + without);
  told.json().member("rehearsed", rehearsed * row.scale);
}

void add_gains(fact_sheet& told, named_row const& row, std::vector<cleave::placement_gain> const& gains) {
  told.json().key("gains").open_array();
  for (auto const& g : gains) {
    told.line("would save", cleave::short_text(100 * g.saved) + " %: " + cleave::printable(g.what, 100));
    told.json()
        .open_object()
        .member("what", g.what)
        .member("value", g.value * row.scale)
        .member("saved", g.saved)
        .close_object();
  }
  if (gains.empty()) told.line("would save", "nothing: no single device or link does");
  told.json().close_array();
}

int place(std::span<std::string const> words) {
  place_task task;
  task.options.microbatches = 8;
  cleave::onnx::type_options types;
  command c{
      "place",
      "MODEL.onnx | GRAPH.json | LAYERS.csv",
      "Cuts a model into stages for devices of unlike speed, memory and links, and says which device\n"
      "runs which; devices that would slow the others down are left out. Speeds are factors: an ONNX\n"
      "model's costs are estimated for a device of 50 GFLOP/s and 10 GB/s, which has speed 1. Links are\n"
      "in seconds and bytes per second. The file - is standard input.",
      {}};
  add_options(c, task);
  add_type_options(c, types);
  auto typed = read_options(c, words);
  auto const path = only_operand(typed.operands);
  if (task.devices.empty())
    throw usage_error("--devices is missing: a file with devices, as in --devices home.json");
  if (task.copies) require_copies(task);
  auto net = devices_in(task.devices);
  bool const is_graph = is_graph_file(path);
  if (is_graph) require_no_sizes(types);
  progress const doing;
  auto const row = is_graph ? row_of_graph(path, task) : row_of_model(path, task, types, typed, doing);
  if (!is_graph && std::ranges::any_of(net.devices, [](auto const& d) { return d.speed >= 1e6; }))
    note(
        "speeds are factors of a device of 50 GFLOP/s; a speed of 1e6 or more is that of no device: divide "
        "FLOP/s by 5e10");
  set_unit(net, row.second);
  if (task.copies) return place_copies(path, row, net, task, doing);
  doing("placing " + plural(row.row.units.units(), "unit") + " on " + plural(net.devices.size(), "device"));
  auto const placed = place_row(row, net, task.options);
  placement_output const shown(row, net, placed);
  double rehearsed = 0;
  if (task.rehearsal > 0)
    rehearsed = rehearsed_step(cleave::schedule_of(placed), cleave::simulate_options_of(placed, net),
                               placed.step, task, doing);
  std::vector<cleave::placement_gain> gains;
  if (task.gains || !task.report.empty()) {
    doing("looking for what would help");
    gains = cleave::placement_gains(row.row, net, task.options);
  }
  if (!task.report.empty()) {
    std::vector<std::string> stages;
    for (std::size_t s = 0; s < placed.stages.size(); ++s) stages.push_back(shown.nodes_of(s));
    write_placement_page(path, row, net, placed, stages, gains, task);
  }
  doing.clear();
  fact_sheet told(path, {{"node", row.nodes.size()}}, {{"stage", placed.stages.size()}});
  shown.add_to(told);
  shown.add_to(told.json());
  if (task.rehearsal > 0) add_rehearsal(told, row, rehearsed, placed.step);
  if (task.gains) add_gains(told, row, gains);
  told.written(task.report);
  told.print_as(task.as_json);
  return 0;
}

}  // namespace tool
