// SPDX-License-Identifier: MIT
#include "cleave/draw/schedule_svg.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "support/markup.hpp"
#include "support/timed_order.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("schedule_svg: each pass is one bar on the row of its rank, at its time and as long as it takes") {
  for (auto const& t : testing::timed_orders()) {
    auto const elements = testing::read_markup(schedule_svg(t.shown()));
    std::vector<testing::element> rows, bars;
    for (auto const& e : elements) {
      if (e.is("bubble")) rows.push_back(e);
      if (e.is("bar")) bars.push_back(e);
    }
    REQUIRE(rows.size() == t.order.ranks.size());
    auto const expected = bars_of(t.order, t.times);
    REQUIRE(bars.size() == expected.size());
    double const scale = rows[0].number("width") / t.times.makespan;
    for (std::size_t i = 0; i < bars.size(); ++i) {
      auto const& want = expected[i];
      auto const& row = rows[index(want.rank)];
      CHECK(bars[i].at("data-action") == action_text(want.what));
      CHECK(std::abs(bars[i].number("x") - row.number("x") - scale * want.begin) < 0.011);
      CHECK(std::abs(bars[i].number("width") - scale * (want.end - want.begin)) < 0.011);
      CHECK(bars[i].number("y") >= row.number("y"));
      CHECK(bars[i].number("y") + bars[i].number("height") <= row.number("y") + row.number("height") + 0.011);
    }
  }
}

TEST_CASE("schedule_svg: all rectangles and texts lie inside the picture") {
  for (auto const& t : testing::timed_orders()) {
    auto const elements = testing::read_markup(schedule_svg(t.shown()));
    double const width = elements[0].number("width"), height = elements[0].number("height");
    for (auto const& e : elements) {
      if (e.tag == "rect") {
        auto const at = [&](char const* name) { return e.attributes.contains(name) ? e.number(name) : 0.0; };
        CHECK(at("x") >= 0);
        CHECK(at("x") + at("width") <= width + 0.011);
        CHECK(at("y") + at("height") <= height + 0.011);
      }
      if (e.tag == "text") CHECK((e.number("x") <= width && e.number("y") <= height));
    }
  }
}

TEST_CASE("schedule_svg: the plain picture has as many bars in fewer bytes") {
  for (auto const& t : testing::timed_orders()) {
    auto const bars = bars_of(t.order, t.times).size();
    auto const plain = schedule_svg(t.shown(), {.bars = schedule_svg_options::detail::plain});
    std::size_t boxes = 0;
    for (auto const& e : testing::read_markup(plain))
      if (e.is("bar")) boxes += static_cast<std::size_t>(std::ranges::count(e.at("d"), 'M'));
    CHECK(boxes == bars);
    if (bars > 50) CHECK(10 * plain.size() < 7 * schedule_svg(t.shown()).size());
  }
}

TEST_CASE("schedule_svg: draws a memory strip with its peak for each rank, and none without memory data") {
  testing::timed_order const t(make_schedule(schedule_family::one_f_one_b, {4, 1, 8}));
  std::vector<std::string> peaks;
  std::size_t strips = 0;
  for (auto const& e : testing::read_markup(schedule_svg(t.shown()))) {
    if (e.tag == "text" && e.text.starts_with("most ")) peaks.push_back(e.text);
    strips += e.is("kept");
  }
  CHECK(strips == 4);
  CHECK(peaks == std::vector<std::string>{"most 4\u00a0passes", "most 3\u00a0passes", "most 2\u00a0passes",
                                          "most 1\u00a0pass"});
  auto shown = t.shown();
  shown.memory.clear();
  CHECK(schedule_svg(shown).find("kept\"") == std::string::npos);
}

TEST_CASE("schedule_svg: draws an empty schedule and one in which nothing takes time") {
  schedule const nothing{loop_placement(2), 0, {{}, {}}};
  testing::timed_order const t(nothing);
  CHECK(testing::read_markup(schedule_svg(t.shown())).size() > 5);
  testing::timed_order const free(make_schedule(schedule_family::gpipe, {2, 1, 2}),
                                  {.costs = {{0, 0, 0, 0}}});
  CHECK(testing::read_markup(schedule_svg(free.shown())).size() > 5);
}
