// SPDX-License-Identifier: MIT
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/simulate/step_simulation.hpp"
#include "cleave/schedule/text/listed_schedule.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "cleave/schedule/verify/verify.hpp"
#include "conformance_runner/outcome.hpp"

/// Compares the verifier's faults for altered schedules, and for those that the reference system validates.
namespace cleave::conformance {

using namespace detail;
namespace {

schedule read_listed(json const& input) {
  std::vector<std::vector<action>> rows;
  for (json const& row : input["rows"]) rows.push_back(read_row(row.get<std::string>(), rows.size()));
  return listed_schedule(
      std::move(rows),
      {.ranks = input["ranks"], .stages = input["stages"], .microbatches = input["microbatches"]});
}

/// Returns the fault in the recordings' words; empty if they have no words for it.
std::string recorded_words(schedule_fault const& f) {
  using enum schedule_fault::kind;
  auto const text = action_text(f.at);
  auto const pair = std::to_string(index(f.at.stage)) + "," + std::to_string(index(f.at.microbatch));
  switch (f.what) {
    case unknown_stage:
      return "stage out of range: " + text;
    case unknown_microbatch:
      return "microbatch out of range: " + text;
    case other_rank:
      return "stage on two ranks: " + std::to_string(index(f.at.stage));
    case repeated:
      return "runs " + std::to_string(f.count) + " times: " + text;
    case forward_missing:
      return "never runs: " + text;
    case backward_missing:
      return "no backward: " + pair;
    case backward_and_halves:
      return "both B and I/W: " + pair;
    case input_gradient_missing:
      return "W without I: " + pair;
    case weight_gradient_missing:
      return "I without W: " + pair;
    default:
      return {};
  }
}

/// Returns the faults in the recordings' words. A wrong order on one rank and a deadlock of several are both
/// "stuck".
std::set<std::string> fault_words(schedule const& s, std::vector<schedule_fault> const& faults) {
  std::set<std::string> words;
  for (auto const& f : faults)
    if (auto const text = recorded_words(f); !text.empty()) words.insert(text);
  std::string stuck;
  if (auto const found = find_deadlock(s))
    for (auto const& w : found->waiting)
      stuck += (stuck.empty() ? "stuck at rank " : ", rank ") + std::to_string(index(w.rank)) + ": " +
               action_text(w.at);
  if (!stuck.empty()) words.insert(stuck);
  return words;
}

void compare_faults(json const& expected, std::set<std::string> const& ours, outcome& result) {
  bool const only_stuck = expected.size() == 1;
  std::set<std::string> wanted, ours_compared;
  for (json const& f : expected)
    if (auto const text = f.get<std::string>(); only_stuck || !text.starts_with("stuck at"))
      wanted.insert(text);
  for (auto const& f : ours)
    if (only_stuck || !f.starts_with("stuck at")) ours_compared.insert(f);
  // If the only recorded fault is another one, a deadlock in addition is optional.
  if (only_stuck && !wanted.begin()->starts_with("stuck at"))
    std::erase_if(ours_compared, [](std::string const& f) { return f.starts_with("stuck at"); });
  bool const same =
      expected.size() < 6 ? wanted == ours_compared : std::ranges::includes(ours_compared, wanted);
  if (!same) result.differences.push_back({"faults", shortened(expected), shortened(json(ours_compared))});
}

}  // namespace

outcome run_schedules_mutations(test_case const& c, json const& body) {
  auto const s = read_listed(c.input());
  auto const faults = schedule_faults(s);
  outcome result;
  json const& expect = body["expect"];
  compare(expect["executable"], json(faults.empty()), "executable", result.differences);
  if (expect.contains("faults")) compare_faults(expect["faults"], fault_words(s, faults), result);
  // For invalid schedules the recorded steps are the reference system's mistake; unreadable ones have none.
  if (faults.empty() && expect.contains("simulate") && expect["simulate"].is_object())
    compare(expect["simulate"], json{{"steps", simulate_steps(send_in_rounds(s)).steps}}, "simulate",
            result.differences);
  return result;
}

}  // namespace cleave::conformance
