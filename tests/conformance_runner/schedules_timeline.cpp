// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/simulate/simulate.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/schedule_rows.hpp"

/// Compares schedules in time with the recorded evaluation.
namespace cleave::conformance {
namespace {

stage_cost read_cost(json const& j) {
  return {.forward = j["F"].get<double>(),
          .backward = j["B"].get<double>(),
          .input_gradient = j["I"].get<double>(),
          .weight_gradient = j["W"].get<double>()};
}

json write_times(schedule_times const& t) {
  return {{"makespan", t.makespan}, {"busy", t.busy}, {"first", t.first}, {"last", t.last}};
}

json run_even(schedule const& s, json const& input, json const& expect) {
  json got;
  simulate_options options{.costs = {read_cost(input["cost"])}};
  auto const times = simulate(s, options);
  for (auto const& kept : times.most_kept) {
    got["peak_live"].push_back(kept.passes);
    got["peak_microbatches"].push_back(kept.microbatches);
  }
  got["comm0"] = write_times(times);
  options.base_latency = 0.5;
  got["comm0.5"] = write_times(simulate(s, options));
  if (!expect.contains("overlap_max_comm0")) return got;
  options = {.costs = options.costs, .compounds = compound_time::longest_part};
  got["overlap_max_comm0"] = write_times(simulate(s, options));
  return got;
}

json run_uneven(schedule const& s, json const& input) {
  simulate_options options{.base_latency = input["hop"].get<double>()};
  for (json const& cost : input["stage_cost"]) options.costs.push_back(read_cost(cost));
  auto const times = simulate(s, options);
  return {{"makespan", times.makespan}, {"busy", times.busy}, {"last", times.last}};
}

/// Integers may be recorded with or without a decimal point.
json as_real(json const& j) {
  if (j.is_number()) return j.get<double>();
  if (!j.is_array() && !j.is_object()) return j;
  json to = j;
  for (auto& each : to) each = as_real(each);
  return to;
}

}  // namespace

outcome run_schedules_timeline(test_case const& c, json const& body) {
  json const& input = c.input();
  auto const s = read_family(input);
  auto const got = input.contains("stage_cost") ? run_uneven(s, input) : run_even(s, input, body["expect"]);
  outcome result;
  compare(as_real(body["expect"]), as_real(got), "timeline", result.differences);
  return result;
}

}  // namespace cleave::conformance
