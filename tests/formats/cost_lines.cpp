// SPDX-License-Identifier: MIT
#include "cleave/formats/cost_table.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace cleave;

using namespace cleave::detail;

namespace {

/// The place and message of an error; (0, 0) and an empty message if there is none.
struct refusal {
  cost_place at;
  std::string why;
};
refusal refused(std::string const& text) {
  try {
    read_cost_lines(text);
    return {};
  } catch (cost_line_error const& e) {
    return {e.witness, e.what()};
  }
}
void check_refusal(std::string const& text, cost_place at, std::string const& why) {
  auto const r = refused(text);
  CAPTURE(text);
  CAPTURE(r.why);
  CHECK(r.at == at);
  CHECK(r.why.find(why) != std::string::npos);
}

}  // namespace

TEST_CASE("read_cost_lines: reads one line per stage, columns in any order, with blanks and comments") {
  auto const table = read_cost_lines("# measured\nstage, W ,F,B\r\n0,1,2,3\r\n\n1, ,4.5e0,\n");
  REQUIRE(table.stages.size() == 2);
  CHECK(table.stages[0] == stage_cost{2, 3, 2, 1, 2});
  CHECK(table.stages[1] == stage_cost{4.5, 9, 4.5, 4.5, 4.5});
  CHECK(table.bytes == schedule_bytes{});
  CHECK(read_cost_lines("F,OVERLAP_F_B\n1,2.5\n1,").stages ==
        std::vector<stage_cost>{{1, 2, 1, 1, 1, 0, 0, 0, 0, 2.5}, {1, 2, 1, 1, 1}});
}

TEST_CASE("read_cost_lines: reads one line for all stages, and bytes with units") {
  auto const table = read_cost_lines("stage,F,stash,weight_stash\n*,1,1.5KiB,7\n");
  REQUIRE(table.stages.size() == 1);
  REQUIRE(table.bytes.stages.size() == 1);
  CHECK(table.bytes.stages[0] == pass_bytes{1536, 7, 0});
  CHECK(read_cost_lines("F\n1\n2").stages.size() == 2);
}

TEST_CASE("read_cost_lines: rejects malformed lines and names line and field") {
  check_refusal("", {0, 0}, "the file has no heading; begin it with");
  check_refusal("stage,F\n", {1, 0}, "no lines of costs below the heading");
  check_refusal("stage,G\n", {1, 2}, "unknown column 'G'; nearest:");
  check_refusal("F,F\n", {1, 2}, "the column 'F' is repeated; keep one");
  check_refusal("stage,B\n", {1, 0}, "the column 'F' is missing");
  check_refusal("stage,F\n0,1\n1\n", {3, 0}, "there are 1 fields, but the heading has 2");
  check_refusal("stage,F\n0,1,2\n", {2, 0}, "there are 3 fields, but the heading has 2");
  check_refusal("stage,F\n1,1\n", {2, 1}, "'1' found where stage 0 was expected");
  check_refusal("stage,F\n0,1\n*,1\n", {3, 1}, "'*' found where stage 1 was expected");
  check_refusal("stage,F\n0,-1\n", {2, 2}, "'-1' is not a time from 0");
  check_refusal("stage,F\n0,nan\n", {2, 2}, "'nan' is not a time from 0");
  check_refusal("stage,F\n0,inf\n", {2, 2}, "'inf' is not a time from 0");
  check_refusal("stage,F\n0,1e200\n", {2, 2}, "'1e200' is not a time from 0");
  check_refusal("stage,F\n0,1ms\n", {2, 2}, "'1ms' is not a time from 0");
  check_refusal("stage,B,F\n0,1,\n", {2, 0}, "the time of F is missing");
  check_refusal("F,stash\n1,-4\n", {2, 2}, "'-4' is not a size in bytes");
  check_refusal("F,stash\n1,99999999999999999999\n", {2, 2}, "is not a size in bytes");
}
