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

TEST_CASE("merge_backward: merges I with the W that comes next, even across idle steps") {
  CHECK(merged("0F0,,0I0,,0W0,") == "0F0,0B0");
  CHECK(merged("0I0,0W0,0I1,0W1") == "0B0,0B1");
  CHECK(merged("") == "");
}

TEST_CASE("merge_backward: keeps I and W of different passes, in the wrong order or within a compound") {
  for (std::string_view const row :
       {"0I0,1W0,0W0", "0I0,0W1,0W0", "0W0,0I0", "(1F0;0I0)OVERLAP_F_B,0W0", "0I0,0F1,0W0"})
    CHECK(merged(row) == row);
}

TEST_CASE("merge_backward: a merged ZBV schedule still runs, and merging it again changes nothing") {
  for (std::uint32_t m = 1; m < 7; ++m) {
    auto const s = merge_backward(make_schedule(schedule_family::zbv, {3, 2, m}));
    CHECK(testing::order_defect(s) == "");
    CHECK(merge_backward(s) == s);
  }
}
