// SPDX-License-Identifier: MIT
#include "cleave/schedule/model/pass_marks.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "cleave/schedule/text/schedule_csv.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

action read_one(char const* text) { return read_cell(text)[0]; }

}  // namespace

TEST_CASE("pass_marks: F, B and I leave marks of their stage and microbatch, other actions leave none") {
  pass_marks marks({2, 0, 2});
  for (auto const text : {"0F0", "1B1", "0I1", "0W0", "0UNSHARD"}) marks.set_done(read_one(text));
  CHECK(marks.pairs() == 4);
  CHECK(marks.is_done(0, microbatch_id{0}, pass_mark::forward));
  CHECK_FALSE(marks.is_done(0, microbatch_id{1}, pass_mark::forward));
  CHECK(marks.is_done(1, microbatch_id{1}, pass_mark::gradient));
  CHECK_FALSE(marks.is_done(1, microbatch_id{1}, pass_mark::half));
  CHECK(marks.is_done(0, microbatch_id{1}, pass_mark::gradient));
  CHECK(marks.is_done(0, microbatch_id{1}, pass_mark::half));
}

TEST_CASE("pass_marks: count_ready sees earlier actions of its row and leaves no marks") {
  pass_marks marks({1, 0, 1});
  auto const after_forward = [&](action const& a) {
    return a.kind == action_kind::forward || marks.is_done(0, microbatch_id{0}, pass_mark::forward);
  };
  CHECK(marks.count_ready(read_row("0F0,0B0"), after_forward) == 2);
  CHECK(marks.count_ready(read_row("0B0,0F0"), after_forward) == 0);
  CHECK_FALSE(marks.is_done(0, microbatch_id{0}, pass_mark::forward));
  marks.set_done(read_one("0F0"));
  CHECK(marks.count_ready(read_row("0B0,0I0,0B0"), after_forward) == 3);
  CHECK(marks.is_done(0, microbatch_id{0}, pass_mark::forward));
  CHECK_FALSE(marks.is_done(0, microbatch_id{0}, pass_mark::gradient));
}
