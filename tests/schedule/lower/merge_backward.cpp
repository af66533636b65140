// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/merge_backward.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "support/run_order.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::string merged(std::string_view row) { return row_text(merge_backward(read_row(row))); }

}  // namespace

TEST_CASE("merge backward: I and the W that comes next are one B, whatever idle steps are between") {
  CHECK(merged("0F0,,0I0,,0W0,") == "0F0,0B0");
  CHECK(merged("0I0,0W0,0I1,0W1") == "0B0,0B1");
  CHECK(merged("") == "");
}

TEST_CASE("merge backward: another stage, another microbatch, another order and parts of a compound stay") {
  for (std::string_view const row :
       {"0I0,1W0,0W0", "0I0,0W1,0W0", "0W0,0I0", "(1F0;0I0)OVERLAP_F_B,0W0", "0I0,0F1,0W0"})
    CHECK(merged(row) == row);
}

TEST_CASE("merge backward: what is left of a generated schedule still does everything once and in order") {
  for (std::uint32_t m = 1; m < 7; ++m) {
    auto const s = merge_backward(make_schedule(schedule_family::zbv, {3, 2, m}));
    CHECK(testing::order_defect(s) == "");
    CHECK(merge_backward(s) == s);
  }
}
