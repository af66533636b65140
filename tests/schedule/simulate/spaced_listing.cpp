// SPDX-License-Identifier: MIT
#include "cleave/schedule/simulate/spaced_listing.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cleave/schedule/text/schedule_csv.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::vector<std::string> spaced(std::vector<std::string> const& rows,
                                row_contents contents = row_contents::compute_only) {
  std::vector<std::vector<action>> lists;
  for (auto const& row : rows) lists.push_back(read_row(row));
  std::vector<std::string> text;
  for (auto const& row : spaced_listing(schedule_from_rows(lists, contents)).ranks)
    text.push_back(row_text(row));
  return text;
}

}  // namespace

TEST_CASE("spaced_listing: adds an idle step for each unit that a rank waits, and none for a long pass") {
  CHECK(spaced({"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"}) ==
        std::vector<std::string>{"0F0,0F1,,,0B0,,0B1", ",1F0,1B0,1F1,1B1,"});
}

TEST_CASE("spaced_listing: drops the idle steps that were there") {
  CHECK(spaced({"0F0,,,,0B0", ",,1F0,,1B0"}) == std::vector<std::string>{"0F0,,,,0B0", ",1F0,1B0,"});
}

TEST_CASE("spaced_listing: a compound begins when all its parts can and takes their total time") {
  CHECK(spaced({"0F0,(0F1;0B0)OVERLAP_F_B,0B1", "1F0,1B0,1F1,1B1"}) ==
        std::vector<std::string>{"0F0,,,,(0F1;0B0)OVERLAP_F_B,,,,0B1", ",1F0,1B0,,,,1F1,1B1,"});
}

TEST_CASE("spaced_listing: messages take no time") {
  CHECK(
      spaced({"0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"}, row_contents::with_communication) ==
      std::vector<std::string>{"0F0,0SEND_F0,0RECV_B0,,,,0B0", "1RECV_F0,,1F0,1B0,1SEND_B0,"});
}

TEST_CASE("spaced_listing: rejects a schedule that deadlocks") {
  CHECK_THROWS_AS(spaced({"0B0,0F0"}), deadlock_error);
}
