// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/send_waits.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using kind = send_wait_fault::kind;

std::optional<kind> fault_of(std::string_view row) {
  auto const fault = find_send_wait_fault(read_row(row));
  return fault ? std::optional(fault->what) : std::nullopt;
}

}  // namespace

TEST_CASE("add_send_waits: waits for an activation after its first B or I, for all else at the end") {
  CHECK(row_text(add_send_waits(read_row("1F0,1SEND_F0,(1F1;1B0)OVERLAP_F_B,1SEND_F1,1SEND_B0"))) ==
        "1F0,1SEND_F0,(1F1;1B0)OVERLAP_F_B,1WAIT_SEND_F0,1SEND_F1,1SEND_B0,1WAIT_SEND_F1,1WAIT_SEND_B0");
  CHECK(row_text(add_send_waits(read_row("0F0,0SEND_F0,0I0,0W0"))) == "0F0,0SEND_F0,0I0,0WAIT_SEND_F0,0W0");
}

TEST_CASE("add_send_waits: adds one wait for each stage that a value is sent to") {
  CHECK(row_text(add_send_waits(read_row("0F0,0SEND_F0,0SEND_F0@2,0B0"))) ==
        "0F0,0SEND_F0,0SEND_F0@2,0B0,0WAIT_SEND_F0,0WAIT_SEND_F0@2");
}

TEST_CASE("add_send_waits: rejects a second send before the wait, and a send without a microbatch") {
  CHECK_THROWS_AS(add_send_waits(read_row("0SEND_F0,0SEND_F0")), send_wait_error);
  CHECK_THROWS_AS(add_send_waits(read_row("0SEND_F")), send_wait_error);
  CHECK(row_text(add_send_waits(read_row("0SEND_F0,0B0,0SEND_F0"))) ==
        "0SEND_F0,0B0,0WAIT_SEND_F0,0SEND_F0,0WAIT_SEND_F0");
}

TEST_CASE("find_send_wait_fault: finds each way in which sends and waits do not pair") {
  CHECK(fault_of("0SEND_F0,0WAIT_SEND_F0,0F0,0RECV_B0") == std::nullopt);
  CHECK(fault_of("0SEND_F0") == kind::wait_missing);
  CHECK(fault_of("0WAIT_SEND_F0,0SEND_F0") == kind::send_missing);
  CHECK(fault_of("0SEND_F0,0WAIT_SEND_F0,0WAIT_SEND_F0") == kind::send_missing);
  CHECK(fault_of("0SEND_F0,0WAIT_SEND_B0") == kind::send_missing);
  CHECK(fault_of("0SEND_F0,0WAIT_SEND_F0,0SEND_F0,0WAIT_SEND_F0") == kind::sent_twice);
  CHECK(fault_of("0SEND_F") == kind::microbatch_missing);
}

TEST_CASE("add_send_waits: sends of every family have waits afterwards and not before") {
  for (std::size_t f = 0; f < schedule_names.size(); ++f) {
    auto const family = static_cast<schedule_family>(f);
    auto const s = send_in_rounds(make_schedule(family, {4, stages_per_rank_of(family).value_or(2), 8}));
    CHECK(find_send_wait_fault(s));
    CHECK_THROWS_AS(require_send_waits(s), send_wait_error);
    CHECK(!find_send_wait_fault(add_send_waits(s)));
  }
}
