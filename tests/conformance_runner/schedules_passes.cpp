// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/schedule/lower/defer_receives.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/lower/merge_backward.hpp"
#include "cleave/schedule/lower/reduce_gradients.hpp"
#include "cleave/schedule/lower/send_waits.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/schedule_rows.hpp"

/// Compares each lowering pass alone with its recordings.
namespace cleave::conformance {

using namespace detail;
namespace {

/// Runs one pass on the lists of a case, valid or not.
json run_pass(std::string_view pass, json const& input) {
  if (input.contains("row")) {
    auto const row = read_row(input["row"].get<std::string>());
    if (pass == "merge_bw") return row_text(merge_backward(row));
    if (pass == "add_reduce_grad")
      return row_text(reduce_gradients(
          row, input["microbatches"],
          input["defer_reduce_grad_wait"] ? reduction_wait::deferred : reduction_wait::at_once));
    std::uint32_t const active = input.value("max_active_stages", 3u);
    return row_text(
        unshard_stages(row, {.active = active, .lookahead = input.value("unshard_lookahead", active)}));
  }
  auto const s = read_rows(input);
  if (pass == "add_send_recv") return write_rows(send_in_rounds(s).ranks);
  if (pass == "add_wait_send") return write_rows(add_send_waits(s).ranks);
  if (pass == "defer_recv_ops") return write_rows(defer_receives(s, receive_order::as_needed).ranks);
  if (pass == "add_wait_send_budget") return write_rows(limit_sends(s, input["max_outstanding_sends"]).ranks);
  require_send_waits(s);
  return "ok";
}

/// Maps a rejection by a pass to upstream's error.
std::string_view upstream_error(std::string_view pass) {
  return pass == "add_send_recv" || pass == "add_wait_send" || pass == "defer_recv_ops" ? "AssertionError"
                                                                                        : "ValueError";
}

/// Returns the lists without messages and idle steps.
json write_passes(schedule s) {
  for (auto& row : s.ranks)
    std::erase_if(row, [](action const& a) { return a.kind == action_kind::idle || is_message(a.kind); });
  return write_rows(s.ranks);
}

}  // namespace

outcome run_schedules_passes(test_case const& c, json const& body) {
  auto const pass = c.input()["pass"].get<std::string>();
  json got, refused;
  try {
    got = run_pass(pass, c.input());
  } catch (cleave::error const&) {
    refused = upstream_error(pass);
  }
  outcome result;
  if (!body.contains("defect")) {
    json const expected = body.contains("error") ? body["error"]["type"] : body["expect"];
    compare(expected, refused.is_null() ? got : refused, pass, result.differences);
    return result;
  }
  // Invalid input that upstream accepts is rejected here. Input that only upstream rejects keeps its passes.
  if (body.contains("error"))
    compare(write_passes(read_rows(c.input())), refused.is_null() ? got : refused, pass, result.differences);
  else if (refused.is_null())
    result.differences.push_back({pass, "a refusal", shortened(got)});
  return result;
}

}  // namespace cleave::conformance
