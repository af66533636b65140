// SPDX-License-Identifier: MIT
#include <span>
#include <string>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/lower/finish_lowered.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/schedule_options.hpp"
#include "conformance_runner/schedule_rows.hpp"

/// Compares schedules in CSV with their recordings.
namespace cleave::conformance {

using namespace detail;
namespace {

/// Returns the schedule that runs: lowered, or if it is lowered already, with the remaining passes applied.
schedule finish(schedule const& s, row_contents contents, json const& input) {
  auto const options = read_lower_options(input.value("options", json::object()));
  return contents == row_contents::with_communication ? finish_lowered(s, options) : lower(s, options);
}

json run_load(json const& input) {
  auto const contents = csv_format_of(input["format"].get<std::string>());
  bool const lowered = contents == row_contents::with_communication;
  bool const runtime = input["class"] == "runtime";
  if (!runtime && lowered) return {{"refused", "AssertionError"}};
  auto const s = read_schedule_csv(
      input["text"].get<std::string>(), contents,
      {.ranks = input["ranks"], .stages = input["stages"], .microbatches = input["microbatches"]});
  json got;
  for (auto const r : s.place.rank_of) got["stage_to_rank"].push_back(index(r));
  if (!lowered) got["order"] = write_rows(s.ranks);
  if (runtime) got["program"] = write_rows(finish(s, contents, input).ranks);
  return got;
}

json run_dump(json const& input) {
  if (input.contains("rows_as_arrays")) {
    std::vector<std::vector<action>> rows;
    for (json const& row : input["rows_as_arrays"]) {
      auto& to = rows.emplace_back();
      for (json const& cell : row) append_cell(to, cell.get<std::string>());
    }
    return {{"text", csv_text(rows)}};
  }
  auto const s = read_family(input);
  bool const lowered = csv_format_of(input["format"].get<std::string>()) == row_contents::with_communication;
  return {{"text", schedule_csv(lowered ? lower(s, {.messages = message_order::rounds}) : s)}};
}

/// Maps errors of the library to upstream's.
json run_csv(json const& input) {
  using enum row_fault::kind;
  try {
    return input.contains("text") ? run_load(input) : run_dump(input);
  } catch (csv_format_error const&) {
    return {{"refused", "NotImplementedError"}};
  } catch (cell_error const&) {
    return {{"refused", "RuntimeError"}};
  } catch (row_error const& e) {
    return {{"refused", e.witness.what == communication ? "ValueError" : "AssertionError"}};
  } catch (cleave::error const&) {
    return {{"refused", "ValueError"}};
  }
}

}  // namespace

outcome run_schedules_csv(test_case const& c, json const& body) {
  json const got = run_csv(c.input());
  outcome result;
  if (body.contains("defect")) {
    // For all defects here, rejection is correct.
    if (!got.contains("refused")) result.differences.push_back({"csv", "a refusal", shortened(got)});
  } else {
    compare(body.contains("error") ? json{{"refused", body["error"]["type"]}} : body["expect"], got, "csv",
            result.differences);
  }
  return result;
}

}  // namespace cleave::conformance
