// SPDX-License-Identifier: MIT
// Fuzzes schedules in CSV and JSON, and costs. Each is read or rejected with an error. A schedule survives a
// round trip and gets all its faults reported; a valid one is lowered and runs to completion.
#include <cstddef>
#include <cstdint>
#include <string>

#include "cleave/core/expects.hpp"
#include "cleave/formats/cost_table.hpp"
#include "cleave/formats/schedule_json.hpp"
#include "cleave/schedule/lower/finish_lowered.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/simulate/simulate.hpp"
#include "cleave/schedule/text/listed_schedule.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "cleave/schedule/verify/deadlock.hpp"
#include "cleave/schedule/verify/verify.hpp"
#include "fuzz/unless_refused.hpp"

using namespace cleave;

using namespace cleave::detail;
using cleave::testing::unless_refused;

namespace {

void check_schedule(schedule const& s, row_contents contents) {
  for (auto const& fault : schedule_faults(s)) expects(!describe(fault).empty(), "a fault in words");
  unless_refused([&] { return simulate(s).makespan; });
  auto const lowered =
      unless_refused([&] { return contents == row_contents::compute_only ? lower(s) : finish_lowered(s); });
  if (!lowered) return;
  expects(!find_deadlock(*lowered), "a lowered schedule that ends");
  unless_refused([&] { return simulate(*lowered).makespan; });
}

void check_lists(std::string const& text) {
  auto rows = unless_refused([&] { return read_csv_rows(text); });
  if (!rows) return;
  expects(read_csv_rows(csv_text(*rows)) == *rows, "lists that come back");
  auto const listed = listed_schedule(std::move(*rows));
  for (auto const& fault : schedule_faults(listed)) expects(!describe(fault).empty(), "a fault in words");
  for (auto const contents : {row_contents::compute_only, row_contents::with_communication})
    if (auto const s = unless_refused([&] { return read_schedule_csv(text, contents); }))
      check_schedule(*s, contents);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string const text(reinterpret_cast<char const*>(data), size);
  check_lists(text);
  unless_refused([&] { return read_costs(text).stages.size(); });
  if (auto const s = unless_refused([&] { return read_schedule_json(text); }))
    check_schedule(*s, row_contents::compute_only);
  return 0;
}
