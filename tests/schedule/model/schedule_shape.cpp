// SPDX-License-Identifier: MIT
#include "cleave/schedule/model/schedule_names.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace cleave;

TEST_CASE("shape_fault: the message says the required and the given number") {
  using enum shape_fault::kind;
  for (auto const what : {stages_per_rank, too_few_microbatches, uneven_rounds, group_too_small,
                          group_too_large, last_group_too_small, stages_not_everywhere}) {
    auto const text = describe(shape_fault{what, 17, 23});
    CHECK(text.find("23") != text.npos);
    std::string const rounds = what == uneven_rounds ? "; a multiple of the number of ranks always fits" : "";
    CHECK(text.ends_with(", not 17" + rounds));
  }
  for (auto const what : {odd_stages_per_rank, odd_ranks, odd_microbatches}) {
    auto const text = describe(shape_fault{what, 17, 0});
    CHECK(text.find("even") != text.npos);
    CHECK(text.ends_with(", not 17"));
  }
  shape_error const e("name", {odd_ranks, 3, 0});
  CHECK(std::string(e.what()) == "name: the number of ranks must be even, not 3");
  CHECK(e.witness == shape_fault{odd_ranks, 3, 0});
}
