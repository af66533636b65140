// SPDX-License-Identifier: MIT
// cleave place MODEL.onnx --devices FILE --copies: stages with several copies. All copies of a stage are on
// devices that are alike.
//
// --json writes one object:
//   file, devices       the model, and the number of devices
//   goal                throughput or step
//   unit                of all times; empty if the graph gives none
//   period              time between two microbatches, with a share of the sums of gradients
//   step, microbatches, schedule
//   bound, optimal      lower bound on what the goal minimizes; whether it is met
//   stages              [{devices, copies, begin, end, first, last, forward, backward, sums, kept, memory, sends}]: nodes
//                       by position and name; the time of the sums of gradients, once a step; the microbatches that
//                       each copy keeps, and the bytes of each device with them
//   unused              names of devices
//   without_copies      the period or step of the best placement without copies; absent if no such placement fits
//   saved               the share of `without_copies` that copies save
//   rehearsed           with --rehearse: the measured step without sums, in `unit`
//   gains               with --gains: [{what, value, saved}]; devices that are alike change together
#include <algorithm>
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/formats/units.hpp>
#include <cleave/place.hpp>
#include <cleave/schedule/simulate/simulate.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "describe.hpp"
#include "fact_sheet.hpp"
#include "place_task.hpp"
#include "terminal.hpp"

namespace tool {

namespace {

/// A placement with copies in words and numbers.
class copies_output {
 public:
  copies_output(named_row const& r, cleave::device_network const& net, cleave::replicated_placement const& p)
      : row_(r), net_(net), p_(p) {}

  double scaled(double t) const { return t * row_.scale; }
  std::string time(double t) const { return cleave::amount_text(scaled(t), row_.unit); }
  std::uint32_t first_of_stage(std::size_t s) const { return row_.row.first_node[p_.stages[s].begin]; }
  std::uint32_t end_of_stage(std::size_t s) const { return row_.row.first_node[p_.stages[s].end]; }
  std::string nodes_of(std::size_t s) const {
    return names_of_nodes(row_, first_of_stage(s), end_of_stage(s));
  }
  std::vector<std::string> devices_of(std::size_t s) const {
    std::vector<std::string> names;
    for (auto const d : p_.stages[s].devices) names.push_back(net_.devices[d].name);
    return names;
  }
  std::vector<std::string> unused() const {
    std::vector<char> is_used(net_.devices.size());
    for (auto const& s : p_.stages)
      for (auto const d : s.devices) is_used[d] = 1;
    std::vector<std::string> names;
    for (std::size_t d = 0; d < is_used.size(); ++d)
      if (!is_used[d]) names.push_back(net_.devices[d].name);
    return names;
  }
  bool has_sums() const {
    return std::ranges::any_of(p_.stages, [](auto const& s) { return s.sum_time > 0; });
  }
  std::string schedule() const {
    return std::string(cleave::name_of(trains() ? cleave::schedule_family::one_f_one_b
                                                : cleave::schedule_family::forward_only));
  }

  void add_to(fact_sheet& told) const {
    bool const sums = has_sums();
    told.line("period", time(p_.period) + " between microbatches" +
                            (sums ? ", with a share of the sums of gradients" : ""));
    told.line("step", time(p_.step) + " for " + plural(p_.microbatches, "microbatch") + " in " + schedule() +
                          (sums ? ", with the sums of gradients" : ""));
    auto const goal = std::string(placement_goals[static_cast<std::size_t>(p_.goal)]);
    told.line("proved", p_.is_optimal()
                            ? "no slices and copies on these devices have a better " + goal
                            : "the best " + goal + " is at most " +
                                  cleave::short_text(100 * (p_.value() / p_.bound - 1)) + " % better");
    for (std::size_t s = 0; s < p_.stages.size(); ++s) {
      auto const& stage = p_.stages[s];
      told.line("stage " + std::to_string(s),
                (stage.width > 1 ? std::to_string(stage.width) + " copies on " : "") +
                    first_of(devices_of(s), 4, [&](auto const& d) { return cleave::printable(d, 40); }) +
                    ": " + nodes_of(s) + "; " + time(stage.time.forward + stage.time.backward) + ", " +
                    cleave::bytes_text(stage.memory) +
                    (trains() ? " with " + plural(stage.kept, "microbatch") + " kept" : "") +
                    (stage.sum_time > 0 ? ", sums in " + time(stage.sum_time) : "") +
                    (s + 1 < p_.stages.size() ? ", sends " + cleave::bytes_text(stage.sent.activation) : ""));
    }
    for (auto const& d : unused()) told.line("not used", cleave::printable(d, 40));
  }

  void add_to(cleave::json::writer& json) const {
    json.member("devices", net_.devices.size());
    json.member("goal", placement_goals[static_cast<std::size_t>(p_.goal)]).member("unit", row_.unit);
    json.member("period", scaled(p_.period)).member("step", scaled(p_.step));
    json.member("microbatches", p_.microbatches).member("schedule", schedule());
    json.member("bound", scaled(p_.bound)).member("optimal", p_.is_optimal()).key("stages").open_array();
    for (std::size_t s = 0; s < p_.stages.size(); ++s) {
      auto const& stage = p_.stages[s];
      json.open_object().key("devices").open_array();
      for (auto const& d : devices_of(s)) json.value(d);
      json.close_array().member("copies", stage.width);
      json.member("begin", first_of_stage(s)).member("end", end_of_stage(s));
      json.member("first", row_.nodes[first_of_stage(s)]).member("last", row_.nodes[end_of_stage(s) - 1]);
      json.member("forward", scaled(stage.time.forward)).member("backward", scaled(stage.time.backward));
      json.member("sums", scaled(stage.sum_time)).member("kept", stage.kept).member("memory", stage.memory);
      json.member("sends", stage.sent.activation).close_object();
    }
    json.close_array().key("unused").open_array();
    for (auto const& d : unused()) json.value(d);
    json.close_array();
  }

 private:
  bool trains() const {
    return std::ranges::any_of(p_.stages, [](auto const& s) { return s.time.backward > 0; });
  }

  named_row const& row_;
  cleave::device_network const& net_;
  cleave::replicated_placement const& p_;
};

/// Returns what the goal minimizes without copies, or nothing if no such placement fits the memory.
std::optional<double> value_without_copies(named_row const& row, cleave::device_network const& net,
                                           place_task const& task) {
  try {
    return cleave::place(row.row, net, task.options).value();
  } catch (cleave::infeasible_error const&) {
    return std::nullopt;
  }
}

/// Says how much copies save.
void add_saving(fact_sheet& told, copies_output const& shown, std::optional<double> without,
                cleave::replicated_placement const& placed) {
  if (!without) {
    told.line("copies", "are needed: without them no placement fits the memory of the devices");
    return;
  }
  auto const saved = *without > 0 ? 1 - placed.value() / *without : 0;
  auto const share = cleave::short_text(100 * std::abs(saved)) + " %";
  auto const other = placed.goal == cleave::placement_goal::step
                         ? "the step of " + shown.time(*without) + " without them"
                         : "the " + shown.time(*without) + " between microbatches without them";
  told.line("copies", saved > 1e-6    ? "save " + share + " of " + other
                      : saved < -1e-6 ? "take " + share + " more than " + other + "; leave out --copies"
                                      : "save nothing of " + other);
  told.json().member("without_copies", shown.scaled(*without)).member("saved", saved);
}

}  // namespace

void require_copies(place_task const& task) {
  if (task.options.goal == cleave::placement_goal::latency)
    throw usage_error("--copies do not make one pass faster; choose --goal throughput or step");
  if (task.options.schedule)
    throw usage_error("--copies run in 1F1B with --train, forward only without; leave out --schedule");
}

int place_copies(fs::path const& path, named_row const& row, cleave::device_network const& net,
                 place_task const& task, progress const& doing) {
  if (!net.uplinks.empty())
    throw usage_error("--copies knows no uplinks that devices share, such as that of " +
                      cleave::printable(net.uplinks[0].name, 40) + "; leave out --copies");
  doing("placing " + plural(row.row.units.units(), "unit") + " on " + plural(net.devices.size(), "device"));
  cleave::replication_options const options{.microbatches = task.options.microbatches,
                                            .goal = task.options.goal,
                                            .summed = task.trains ? 1 / task.row.state_copies : 0};
  auto const placed = cleave::place_replicated(row.row, net, options);
  auto const without = value_without_copies(row, net, task);
  auto const order = cleave::schedule_of(placed);
  auto const timing = cleave::simulate_options_of(placed, net);
  auto const predicted = cleave::simulate(order, timing).makespan;  // without the sums of gradients
  double rehearsed = 0;
  if (task.rehearsal > 0) rehearsed = rehearsed_step(order, timing, predicted, task, doing);
  copies_output const shown(row, net, placed);
  std::vector<cleave::placement_gain> gains;
  if (task.gains || !task.report.empty()) {
    doing("looking for what would help");
    gains = cleave::replication_gains(row.row, net, options);
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
  add_saving(told, shown, without, placed);
  if (task.rehearsal > 0)
    add_rehearsal(told, row, rehearsed, predicted, shown.has_sums() ? " without the sums of gradients" : "");
  if (task.gains) add_gains(told, row, gains);
  told.written(task.report);
  told.print_as(task.as_json);
  return 0;
}

}  // namespace tool
