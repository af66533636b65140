// SPDX-License-Identifier: MIT
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/schedule/calls/rank_calls.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/lower/reduce_gradients.hpp"
#include "cleave/schedule/lower/send_at_use.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/schedule_options.hpp"
#include "conformance_runner/schedule_rows.hpp"

/// Compares all calls of one rank during a run of a schedule with the recording.
namespace cleave::conformance {

using namespace detail;
namespace {

/// Reads the program. Upstream runs the two schedules with one stage per rank without lowering them.
schedule read_program(json const& input) {
  auto const family = family_of(input);
  auto const s = read_family(input);
  if (family == schedule_family::gpipe) return send_at_use(reduce_gradients(s));
  if (family == schedule_family::one_f_one_b)
    return send_at_use(reduce_gradients(s), send_pairing::with_next_receive);
  auto options = read_lower_options(input["options"]);
  options.order = receive_order::as_needed;
  return lower(s, options);
}

call_options read_call_options(json const& input) {
  json const& recorded = input["options"];
  call_options options{.scale = gradient_scale::by_microbatches};
  // Gradients from outside are not reduced either.
  if (!recorded.value("loss", true)) {
    options.loss = loss_source::caller;
    options.gradients = gradient_end::kept;
  }
  if (!recorded.value("finalize", true)) options.gradients = gradient_end::kept;
  if (!recorded.value("scale", true)) options.scale = gradient_scale::none;
  if (recorded.value("fsdp", false)) options.weights = weight_storage::sharded;
  if (recorded.value("groups", false)) options.exchanges = exchange_issue::by_rank_pair;
  if (input["stages_per_rank"] == 1) options.releases = release_rule::all;
  if (recorded.contains("custom"))
    for (json const& name : recorded["custom"]) {
      auto const kind = find_action_kind(name.get<std::string>());
      if (!kind) throw unjudged_error("no kind of action is known as " + name.dump());
      options.custom.push_back(*kind);
    }
  return options;
}

}  // namespace

outcome run_schedules_runtime_trace(test_case const& c, json const& body) {
  json got;
  try {
    auto const calls = rank_calls(read_program(c.input()), rank_id{c.input()["rank"].get<std::uint32_t>()},
                                  read_call_options(c.input()));
    got = json{{"events", call_lines(calls)}};
  } catch (call_error const& e) {
    got = json{{"type", "ValueError"}};
  }
  outcome result;
  json const expected = body.contains("error") ? json{{"type", body["error"]["type"]}} : body["expect"];
  compare(expected, got, "calls", result.differences);
  return result;
}

}  // namespace cleave::conformance
