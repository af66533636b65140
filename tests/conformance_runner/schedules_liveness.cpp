// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/memory/activation_slots.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/schedule_rows.hpp"

/// Compares activation slots with the recorded analysis.
namespace cleave::conformance {

using namespace detail;
namespace {

schedule listed_passes(json const& input) {
  if (input.contains("row")) {
    schedule s;
    s.microbatches = input["microbatches"];
    s.ranks.push_back(read_row(input["row"].get<std::string>()));
    return s;
  }
  return lower(read_family(input), {.messages = message_order::rounds});
}

/// \throws cleave::error for a grain without a corresponding option
slot_grain read_grain(json const& recorded) {
  if (recorded == "stage_microbatch") return slot_grain::stage_and_microbatch;
  if (recorded == "microbatch") return slot_grain::microbatch;
  throw cleave::error("no grain: " + recorded.dump());
}

json write_slots(activation_slots const& slots) {
  json assignment = json::array();
  for (auto const& [pass, slot] : slots.passes)
    assignment.push_back(
        json::array({index(pass.stage), index(pass.microbatch), slot, pass.alive.first, pass.alive.last}));
  return {{"slots", slots.count}, {"assignment", assignment}};
}

}  // namespace

outcome run_schedules_liveness(test_case const& c, json const& body) {
  json const& input = c.input();
  std::vector<stage_id> stages;
  for (json const& s : input["stage_indices"]) stages.push_back(stage_id{s.get<std::uint32_t>()});
  json got, refused;
  try {
    got = write_slots(slots_of_activations(listed_passes(input), rank_id{input["rank"].get<std::uint32_t>()},
                                           stages, read_grain(input["granularity"])));
  } catch (cleave::error const&) {
    refused = "ValueError";
  }
  outcome result;
  if (body.contains("defect")) {  // invalid input that upstream accepts is rejected here
    if (refused.is_null()) result.differences.push_back({"liveness", "a refusal", shortened(got)});
    return result;
  }
  json const expected = body.contains("error") ? body["error"]["type"] : body["expect"];
  compare(expected, refused.is_null() ? got : refused, "liveness", result.differences);
  return result;
}

}  // namespace cleave::conformance
