// SPDX-License-Identifier: MIT
#include "cleave/schedule/verify/wait_report.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {

constexpr auto no_list = list_wait::no_list;

list_wait wait_of(std::uint32_t list, std::uint32_t for_list, std::size_t position = 0) {
  return {{rank_id{list}, position, {}, rank_id{for_list}, {}}, list, for_list};
}

}  // namespace

TEST_CASE("report_waits: lists the first wait of each list, and the cycle may use any wait") {
  list_runner const lists({1, 1, 1}, 0);
  std::vector<list_wait> const waits{wait_of(0, no_list), wait_of(0, 1, 1), wait_of(1, 0), wait_of(2, 0)};
  auto const d = report_waits(waits, lists);
  CHECK(d.waiting == std::vector{waits[0].wait, waits[2].wait, waits[3].wait});
  CHECK(d.cycle == std::vector{waits[1].wait, waits[2].wait});
}

TEST_CASE("report_waits: a wait for a finished list is in no cycle") {
  list_runner lists({1, 1}, 0);
  lists.pass(1);
  std::vector<list_wait> const waits{wait_of(0, 1), wait_of(1, 0)};
  CHECK(report_waits(waits, lists).cycle.empty());
  CHECK(report_waits({}, lists) == deadlock{});
}
