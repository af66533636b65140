// SPDX-License-Identifier: MIT
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/verify/deadlock.hpp"
#include "cleave/schedule/verify/verify.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/schedule_options.hpp"
#include "conformance_runner/schedule_rows.hpp"
#include "support/integer_interpretation.hpp"

/// Compares lowered schedules with their recordings, in whole or by hash.
namespace cleave::conformance {

using namespace detail;
namespace {

constexpr std::array<std::pair<char const*, delivery>, 4> deliveries{{
    {"buffered", delivery::buffered},
    {"rendezvous", delivery::rendezvous},
    {"async", delivery::async},
    {"pair_stream", delivery::pair_stream},
}};

std::string hexadecimal(std::uint64_t n) {
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[n >> shift & 15];
  return digits;
}

/// Writes the schedule like the recording: all rows, or their hash and the number of cells of each.
json write_program(schedule const& s, bool whole) {
  json rows = json::array(), cells = json::array();
  std::string text;
  for (auto const& row : s.ranks) {
    auto const line = row_text(row);
    text += (rows.empty() ? "" : "\n") + line;
    rows.push_back(line);
    std::size_t count = 0;
    each_cell(row, [&](action const&, auto) { ++count; });
    cells.push_back(count);
  }
  if (whole) return {{"program", rows}};
  return {{"fnv1a64", hexadecimal(testing::fnv(text))}, {"actions", cells}};
}

json write_derived(schedule const& s) {
  json derived{{"fifo_per_directed_pair", !find_channel_mismatch(s)}};
  for (auto const& [name, d] : deliveries) derived[name] = deadlock_verdict(s, d);
  return derived;
}

/// Returns the passes alone, without idle steps.
std::vector<std::string> pass_rows(schedule s) {
  std::vector<std::string> rows;
  for (auto& row : s.ranks) {
    std::erase_if(row, [](action const& a) { return !is_compute(a.kind) && a.parts == 0; });
    rows.push_back(row_text(row));
  }
  return rows;
}

/// Checks a lowered schedule without a recording. It must have the same passes, send and receive each message
/// once, and keep the order of each pair of ranks.
void check_rule(schedule const& before, schedule const& lowered, outcome& result) {
  auto const require = [&](bool holds, char const* what) {
    if (!holds) result.differences.push_back({"lower", what, "another result"});
  };
  require(pass_rows(before) == pass_rows(lowered), "the same passes");
  require(!find_channel_mismatch(lowered), "the order of each directed pair");
  require(!find_deadlock(lowered, delivery::buffered), "an end where sends are buffered");
  require(!find_deadlock(lowered, delivery::async), "an end where sends are posted");
}

/// Returns the meaning of arrays. A rejected list is written as a list; otherwise an array is a tuple.
array_meaning arrays_of(json const& body) {
  bool const list = body.contains("error") && body["error"].value("message", "").ends_with("]");
  return list ? array_meaning::list : array_meaning::tuple;
}

}  // namespace

outcome run_schedules_lower(test_case const& c, json const& body) {
  json const& input = c.input();
  auto const s = read_family(input);
  outcome result;
  try {
    auto options = read_lower_options(input["options"], arrays_of(body));
    // Defects require the library's own order, other cases PyTorch's.
    if (!body.contains("defect")) options.order = receive_order::as_needed;
    auto const lowered = lower(s, options);
    bool const other_order =
        body.contains("defect") && !body["derived"]["fifo_per_directed_pair"].get<bool>();
    if (other_order) {
      check_rule(s, lowered, result);
    } else {
      json const expected = body.contains("error") ? body["error"] : body["expect"];
      compare(expected, write_program(lowered, expected.contains("program")), "lower", result.differences);
      if (body.contains("derived"))
        compare(body["derived"], write_derived(lowered), "derived", result.differences);
    }
    if (body.contains("defect")) {
      // If deferred receives do not finish with the requested delivery mode, the result finishes with all
      // four.
      auto blocking = options;
      blocking.sends = send_manner::blocking;
      auto const safe = lower(s, blocking);
      check_rule(s, safe, result);
      for (auto const& [name, d] : deliveries)
        if (find_deadlock(safe, d))
          result.differences.push_back({name, "finishes", deadlock_verdict(safe, d)});
    }
  } catch (cleave::error const& e) {
    compare(body.contains("error") ? body["error"]["type"] : body["expect"], "ValueError", "lower",
            result.differences);
  }
  return result;
}

}  // namespace cleave::conformance
