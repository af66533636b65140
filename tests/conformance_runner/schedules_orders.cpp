// SPDX-License-Identifier: MIT
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/schedule_rows.hpp"

/// Compares generated orders with their recordings.
namespace cleave::conformance {

using namespace detail;
namespace {

/// Returns the list without idle steps.
std::vector<action> without_idle(std::vector<action> row) {
  std::erase_if(row, [](action const& a) { return a.kind == action_kind::idle; });
  return row;
}

/// Returns the lists as text. PyTorch's GPipe lists have no idle steps and end with their reductions.
json write_order(schedule const& s, schedule_family family) {
  json rows = json::array();
  for (std::uint32_t r = 0; r < s.ranks.size(); ++r) {
    auto row = s.ranks[r];
    if (family == schedule_family::gpipe) {
      row = without_idle(std::move(row));
      for (auto const kind : {action_kind::reduce_gradient, action_kind::wait_reduce_gradient})
        row.push_back({kind, 0, stage_id{r}, no_microbatch, no_stage});
    }
    rows.push_back(row_text(row));
  }
  return rows;
}

}  // namespace

outcome run_schedules_orders(test_case const& c, json const& body) {
  json const& input = c.input();
  json got;
  try {
    auto const family = family_of(input);
    auto const rows = write_order(read_family(input), family);
    got = json{{family == schedule_family::one_f_one_b ? "compute_order" : "order", rows}};
  } catch (cleave::error const&) {
    got = json{{"type", "ValueError"}};
  } catch (unjudged_error const&) {
    if (!body.contains("error")) throw;
    got = json{{"type", "ValueError"}};  // an unknown name
  }
  outcome result;
  if (body.contains("error"))
    compare(json{{"type", body["error"]["type"]}}, got, "error", result.differences);
  else
    compare(got.contains("compute_order") ? body["better"] : body["expect"], got, "order",
            result.differences);
  return result;
}

}  // namespace cleave::conformance
