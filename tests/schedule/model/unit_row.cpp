// SPDX-License-Identifier: MIT
#include "cleave/schedule/model/unit_row.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>

using namespace cleave;

using namespace cleave::detail;

namespace {

unit_row three_units() {
  unit_row row;
  for (double const sum : {0.0, 1.0, 3.0, 4.0}) row.cost.push_back({sum, 2 * sum, sum, sum});
  return row;
}

std::string fault_in(unit_row const& row, std::size_t stages = 1) {
  auto const f = find_unit_row_fault(row, stages);
  return f ? unit_row_error(*f).what() : "";
}

}  // namespace

TEST_CASE("find_unit_row_fault: finds each fault of a row, and the error says the fix") {
  CHECK(fault_in(three_units(), 3) == "");
  CHECK(fault_in({}) == "row: the row has no units; give prefix sums of costs, one more entry than units");
  CHECK(fault_in(three_units(), 4) ==
        "row: the row has fewer units than the 4 requested stages; request fewer");
  auto row = three_units();
  row.resident = {0, 1};
  CHECK(fault_in(row) == "row: a list has 2 entries; expected one more than units, or none");
  row = three_units();
  row.cost[0].forward = 1;
  CHECK(fault_in(row) == "row: the first entry of each prefix sum must be 0");
  row = three_units();
  row.bytes = {{1, 0, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}};
  CHECK(fault_in(row) == "row: the first entry of each prefix sum must be 0");
  row.bytes[0] = {0, 0, 0};
  CHECK(fault_in(row) == "");
  row.bytes[2].saved_for_weights = 0;
  CHECK(fault_in(row) ==
        "row: the bytes of the units before place 2 must not be less than at the previous place");
  row = three_units();
  row.resident = {0, 5, 4, 6};
  CHECK(fault_in(row) ==
        "row: the bytes of the units before place 2 must not be less than at the previous place");
  row = three_units();
  row.cost[3].backward = 5;
  CHECK(fault_in(row) ==
        "row: the costs of the units before place 3 must not be less than at the previous place, nor above "
        "1e100");
}
