// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/lower/defer_receives.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/lower/send_waits.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/simulate/step_simulation.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "conformance_runner/hexadecimal.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/schedule_rows.hpp"
#include "support/integer_interpretation.hpp"

/// Compares the steps of schedules with their recordings.
namespace cleave::conformance {

using namespace detail;
namespace {

schedule run_pass(schedule s, std::string_view pass) {
  if (pass == "add_send_recv") return send_in_rounds(s);
  if (pass == "add_wait_send") return add_send_waits(s);
  return defer_receives(s, receive_order::as_needed);
}

/// Returns the lists of a case, or generates and lowers the schedule that it names.
schedule read_lowered(json const& input) {
  if (input.contains("rows")) return read_rows(input);
  auto s = read_family(input);
  for (json const& pass : input["passes"]) s = run_pass(s, pass.get<std::string>());
  return s;
}

/// Writes the recorded fields that are present: the rows or their hash, and the length of each row or of all.
json write_steps(schedule const& s, json const& expect) {
  auto const steps = simulate_steps(s);
  json rows = json::array(), lengths = json::array();
  std::string text;
  std::size_t total = 0;
  for (auto const& row : step_rows(s, steps)) {
    std::size_t length = 0;
    each_cell(row, [&](action const&, auto) { ++length; });
    text += (rows.empty() ? "" : "\n") + row_text(row);
    rows.push_back(row_text(row));
    lengths.push_back(length);
    total += length;
  }
  json got{{"steps", steps.steps}};
  if (expect.contains("rows")) got["rows"] = rows;
  if (expect.contains("fnv1a64")) got["fnv1a64"] = hexadecimal(testing::fnv(text));
  if (expect.contains("lengths")) got["lengths"] = lengths;
  if (expect.contains("total")) got["total"] = total;
  return got;
}

/// Checks a defect. An action that the reference system cannot read takes one step here. Otherwise rejection
/// is correct, and `better` says at which action.
void check_defect(schedule const& s, json const& body, outcome& result) {
  if (body.contains("error") && !body.contains("better")) {
    json rows = json::array();
    for (auto const& row : s.ranks) rows.push_back(row_text(row));
    json const expect{{"steps", 1}, {"rows", rows}};
    compare(expect, write_steps(s, expect), "steps", result.differences);
    return;
  }
  auto const fault = find_step_fault(s);
  auto const got = fault ? describe(*fault) : "nothing wrong";
  auto wanted = body.value("better", "");
  if (auto const at = wanted.find(" at "); at != wanted.npos) wanted = wanted.substr(at);
  bool const at_place = wanted.starts_with(" at ") && got.find(wanted) == got.npos;
  if (!fault || at_place) result.differences.push_back({"steps", "a refusal" + wanted, got});
}

}  // namespace

outcome run_schedules_simulate(test_case const& c, json const& body) {
  auto const s = read_lowered(c.input());
  outcome result;
  if (body.contains("defect")) {
    check_defect(s, body, result);
    return result;
  }
  json got;
  try {
    got = write_steps(s, body.value("expect", json::object()));
  } catch (step_error const& e) {
    got = json{{"type", "ValueError"}};
  }
  json const expected = body.contains("error") ? json{{"type", body["error"]["type"]}} : body["expect"];
  compare(expected, got, "steps", result.differences);
  return result;
}

}  // namespace cleave::conformance
