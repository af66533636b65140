// SPDX-License-Identifier: MIT
#include "cleave/schedule/model/simulate_options.hpp"

#include <doctest/doctest.h>

#include "cleave/schedule/families/gpipe.hpp"
#include "cleave/schedule/families/one_f_one_b.hpp"
#include "cleave/schedule/families/zbv.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("most_kept_passes: rank r keeps m passes in GPipe, p - r in 1F1B and 2p in ZBV") {
  for (std::uint32_t r = 0; r < 4; ++r) {
    CHECK(most_kept_passes(gpipe(4, 9))[r] == kept_passes{9, 9});
    CHECK(most_kept_passes(one_f_one_b(4, 9))[r] == kept_passes{4 - r, 4 - r});
    CHECK(most_kept_passes(zbv(4, 9))[r].passes == 8);
  }
}

TEST_CASE("most_kept_passes: B or W frees a pass and I does not, and stages share a microbatch") {
  auto const of = [](char const* row) {
    return most_kept_passes(schedule_from_rows({read_row(row)})).front();
  };
  CHECK(of("0F0,1F0,1B0,0B0") == kept_passes{2, 1});
  CHECK(of("0F0,0I0,0F1,0I1,0W0,0W1") == kept_passes{2, 2});
  CHECK(of("0F0,0I0,0W0,0F1,0B1") == kept_passes{1, 1});
  CHECK(of("0B0,0F0") == kept_passes{1, 1});
}
