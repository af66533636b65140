// SPDX-License-Identifier: MIT
#include <array>
#include <utility>

#include "conformance_runner/fields.hpp"
#include "conformance_runner/outcome.hpp"

/// Selects the runner of a schedule case by its fields.
namespace cleave::conformance {

using namespace detail;

outcome run_schedules_mutations(test_case const& c, json const& body);
outcome run_schedules_orders(test_case const& c, json const& body);
outcome run_schedules_csv(test_case const& c, json const& body);
outcome run_schedules_liveness(test_case const& c, json const& body);
outcome run_schedules_lower(test_case const& c, json const& body);
outcome run_schedules_p2p(test_case const& c, json const& body);
outcome run_schedules_passes(test_case const& c, json const& body);
outcome run_schedules_runtime_trace(test_case const& c, json const& body);
outcome run_schedules_simulate(test_case const& c, json const& body);
outcome run_schedules_text(test_case const& c, json const& body);
outcome run_schedules_timeline(test_case const& c, json const& body);
outcome run_schedules_validate(test_case const& c, json const& body);
outcome run_schedules_visual(test_case const& c, json const& body);

namespace {

bool is_text(fields const& c) {
  return c.in("parse") || c.in("grid") || c.in("lookup") || c.in("type") || c.in("map", "stages");
}

bool is_csv(fields const& c) { return c.in("format") || c.in("rows_as_arrays"); }

bool is_p2p(fields const& c) {
  return c.in("ops") || c.in("map") || (c.in("stage_to_rank") && c.input().size() == 1);
}

bool is_passes(fields const& c) { return c.in("pass"); }

bool is_liveness(fields const& c) { return c.in("granularity"); }

bool is_listed(fields const& c) { return c.in("rows", "stages") && c.in("ranks"); }

bool is_mutation(fields const& c) { return is_listed(c) && c.expects("executable"); }

bool is_simulate(fields const& c) { return c.in("passes") || c.in("rows", "stage_to_rank"); }

bool is_timeline(fields const& c) { return c.in("schedule", "cost") || c.in("schedule", "stage_cost"); }

bool is_runtime_trace(fields const& c) { return c.in("schedule", "options") && c.in("rank"); }

bool is_lower(fields const& c) { return c.in("schedule", "options"); }

/// Returns true if the case is a listing. A name with counts alone can be a listing or an order; for refusals
/// the kind of error decides, because an order is rejected as a value.
bool is_visual(fields const& c) {
  if (!c.in("schedule")) return false;
  if (c.in("add_spacing") || c.in("with_comms") || c.in("defer_pp_recv") || c.expects("rows")) return true;
  bool const usual = c.in("stages_per_rank") && c.input()["stages_per_rank"].is_null();
  return usual || (c.has("error") && c["error"].value("type", "") != "ValueError");
}

bool is_order(fields const& c) { return c.in("schedule", "stages_per_rank"); }

/// The first match counts.
constexpr std::array<std::pair<bool (*)(fields const&), area_runner>, 13> runners{{
    {is_text, run_schedules_text},
    {is_csv, run_schedules_csv},
    {is_p2p, run_schedules_p2p},
    {is_passes, run_schedules_passes},
    {is_liveness, run_schedules_liveness},
    {is_mutation, run_schedules_mutations},
    {is_listed, run_schedules_validate},
    {is_simulate, run_schedules_simulate},
    {is_timeline, run_schedules_timeline},
    {is_runtime_trace, run_schedules_runtime_trace},
    {is_lower, run_schedules_lower},
    {is_visual, run_schedules_visual},
    {is_order, run_schedules_orders},
}};

}  // namespace

outcome run_schedules(test_case const& c, json const& body) {
  fields const content(c.body);
  for (auto const& [fits, runner] : runners)
    if (fits(content)) return runner(c, body);
  throw unjudged_error("no runner for " + content.text());
}

}  // namespace cleave::conformance
