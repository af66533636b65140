// SPDX-License-Identifier: MIT
#include "cleave/draw/schedule_page.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "support/markup.hpp"
#include "support/timed_order.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("schedule_page: has totals, facts, picture and a row for each rank, and loads nothing external") {
  for (auto const& t : testing::timed_orders()) {
    auto const page = schedule_page(t.shown(), {{"Found in", "3 steps"}});
    std::vector<std::string> totals;
    std::size_t bars = 0, rows = 0;
    for (auto const& e : testing::read_markup(page)) {
      if (e.tag == "dd") totals.push_back(e.text);
      bars += e.is("bar");
      rows += e.tag == "tr";
      CHECK(!e.attributes.contains("src"));
      CHECK(!e.attributes.contains("href"));
    }
    REQUIRE(totals.size() == 4);
    CHECK(totals[0] == time_text(t.shown(), t.times.makespan));
    CHECK(totals[1] == percent_text(bubble_rate(t.times)));
    CHECK(totals[2] == count_text(count_messages(t.order)));
    CHECK(totals[3] == "3 steps");
    CHECK(bars == bars_of(t.order, t.times).size());
    CHECK(rows == 1 + t.order.ranks.size());
    CHECK(page.find("url(http") == std::string::npos);
  }
}
