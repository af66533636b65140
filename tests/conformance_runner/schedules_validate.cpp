// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/schedule/text/listed_schedule.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "cleave/schedule/verify/verify.hpp"
#include "conformance_runner/outcome.hpp"

/// Compares validation with the reference system's: the rank of each stage, or the fault.
namespace cleave::conformance {

using namespace detail;
namespace {

using enum schedule_fault::kind;

/// The meaning of its messages as faults of the library, one of which must be found.
struct meaning {
  std::string_view phrase;
  std::array<schedule_fault::kind, 3> kinds;
};

constexpr meaning meanings[] = {
    {"incorrect number of ranks", {rank_count, rank_count, rank_count}},
    {"missing actions for rank", {rank_count, rank_count, rank_count}},
    {"without first running", {out_of_order, forward_missing, input_gradient_missing}},
    {"is assigned to both", {other_rank, other_rank, other_rank}},
    {"FORWARD microbatches for stage", {forward_missing, forward_missing, forward_missing}},
    {"expected 2 total backwards", {backward_missing, backward_missing, backward_missing}},
    {"must have equal counts", {weight_gradient_missing, input_gradient_missing, input_gradient_missing}},
};

std::vector<std::vector<action>> read_ranks(json const& input) {
  std::vector<std::vector<action>> rows;
  for (std::size_t i = 0; i < input["rows"].size(); ++i) {
    std::size_t const rank = input.contains("rank_keys") ? input["rank_keys"][i].get<std::size_t>() : i;
    rows.resize(std::max(rows.size(), rank + 1));
    rows[rank] = read_row(input["rows"][i].get<std::string>(), rank);
  }
  return rows;
}

/// Returns pairs of stage and rank, in the order in which the listing names the stages.
json stage_to_rank(schedule const& s, json const& input) {
  json map = json::array();
  std::set<std::uint32_t> seen;
  for (std::size_t i = 0; i < s.ranks.size(); ++i) {
    std::size_t const rank = input.contains("rank_keys") ? input["rank_keys"][i].get<std::size_t>() : i;
    each_action(s.ranks[rank], [&](action const& a) {
      if (seen.insert(index(a.stage)).second)
        map.push_back({index(a.stage), index(s.place.rank_of[index(a.stage)])});
    });
  }
  return map;
}

bool is_meant(std::string_view message, std::vector<schedule_fault> const& faults) {
  for (auto const& m : meanings)
    if (message.find(m.phrase) != message.npos)
      return std::ranges::any_of(faults,
                                 [&](auto const& f) { return std::ranges::count(m.kinds, f.what) > 0; });
  return false;
}

}  // namespace

outcome run_schedules_validate(test_case const& c, json const& body) {
  json const& input = c.input();
  outcome result;
  std::vector<schedule_fault> faults;
  schedule s;
  try {
    s = listed_schedule(
        read_ranks(input),
        {.ranks = input["ranks"], .stages = input["stages"], .microbatches = input["microbatches"]});
    faults = schedule_faults(s);
  } catch (cell_error const&) {
    faults = {{.what = compound}};
  }
  std::string codes;
  for (auto const& f : faults) codes += std::string(code_of(f.what)) + " ";
  if (body.contains("defect")) {
    // For all defects here, rejection is correct.
    if (faults.empty()) result.differences.push_back({"validate", "a refusal", "nothing wrong"});
  } else if (body.contains("error")) {
    auto const& error = body["error"];
    if (error["type"] != "AssertionError" || !is_meant(error["message"].get<std::string>(), faults))
      result.differences.push_back({"validate", shortened(error), codes});
  } else if (!faults.empty()) {
    result.differences.push_back({"validate", "nothing wrong", codes});
  } else {
    compare(body["expect"], json{{"stage_to_rank", stage_to_rank(s, input)}}, "validate", result.differences);
  }
  return result;
}

}  // namespace cleave::conformance
