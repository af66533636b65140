// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/lower.hpp"

#include <doctest/doctest.h>

#include "cleave/schedule/text/schedule_csv.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("passes_done: a pass is ready after its dependencies, and other actions are always ready") {
  stage_neighbours const chain{loop_placement(2)};
  passes_done done(chain, 1);
  auto const may = [&](char const* cell) { return done.is_ready(read_cell(cell)[0]); };
  auto const run = [&](char const* cell) { return done.do_all(read_cell(cell)); };
  CHECK(may("0F0"));
  CHECK(!may("1F0"));
  CHECK(!may("0B0"));
  CHECK(may("0UNSHARD"));
  CHECK(may("0SEND_F0"));
  CHECK(run("0F0") == 1);
  CHECK(!may("1B0"));
  CHECK(run("1F0") == 1);
  CHECK(!may("0B0"));
  CHECK(!may("1W0"));
  CHECK(run("1I0") == 1);
  CHECK(may("1W0"));
  CHECK(may("0B0"));
}

TEST_CASE("passes_done: do_all does all parts or none, and later parts see earlier ones") {
  stage_neighbours const chain{loop_placement(1, 2)};
  passes_done done(chain, 1);
  auto const parts = read_row("0F0,1F0,0B0");
  CHECK(done.do_all(parts) == 2);
  CHECK(!done.is_ready(parts[1]));
  CHECK(done.do_all(std::span(parts).first(2)) == 2);
  CHECK(done.is_ready(read_cell("1B0")[0]));
}
