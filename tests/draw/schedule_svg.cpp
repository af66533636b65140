// SPDX-License-Identifier: MIT
#include "cleave/draw/schedule_svg.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <sstream>
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

TEST_CASE("schedule_svg: the smallest and the largest times are drawn like others") {
  auto const drawn = [](double each) {
    auto const s = make_schedule(schedule_family::one_f_one_b, {2, 1, 3});
    auto const times = simulate(s, {.costs = {{each, each, each, 0, 0}}});
    std::vector<double> places;
    for (auto const& e : testing::read_markup(schedule_svg({"drawn", s, times})))
      if (e.is("bar")) places.insert(places.end(), {e.number("x"), e.number("width"), e.number("y")});
    return places;
  };
  auto const equal = drawn(1);
  CHECK(equal.size() == 36);
  for (double const each : {5e-324, 4e-323, 1e-310, 1e-307, 1e-30, 1e30, 1e100}) {
    CAPTURE(each);
    CHECK(drawn(each) == equal);
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

namespace {

/// The area between an outline of steps and the base of each row.
double area_of(std::string const& outline) {
  std::istringstream in(outline);
  double area = 0, x = 0, y = 0, base = 0;
  for (char step = 0; in >> step;) {
    double to = 0;
    if (step == 'M') {
      in >> x >> base;
      y = base;
    } else if (step == 'H') {
      in >> to;
      area += (to - x) * (base - y);
      x = to;
    } else if (step == 'V') {
      in >> y;
    }
  }
  return area;
}

}  // namespace

TEST_CASE("schedule_svg: an overview of narrow passes shows the share of each kind as an area") {
  for (auto const family : {schedule_family::one_f_one_b, schedule_family::zb_h1}) {
    testing::timed_order const t(make_schedule(family, {8, 1, 700}));
    auto const elements = testing::read_markup(
        schedule_svg(t.shown(), {.bars = schedule_svg_options::detail::overview, .width = 908}));
    std::map<std::string, double> area, expected;
    double height = 0, scale = 0;
    for (auto const& e : elements) {
      if (e.is("bubble")) height = e.number("height"), scale = e.number("width") / t.times.makespan;
      if (e.tag == "path" && e.attributes.contains("class") && e.at("class").size() == 2)
        area[e.at("class")] = area_of(e.at("d"));
    }
    double below = 0;  // each outline includes the kinds below it; heights are rounded to half a pixel of 24
    for (auto const kind : {action_kind::forward, action_kind::backward, action_kind::input_gradient,
                            action_kind::weight_gradient}) {
      double time = 0;
      for (auto const& b : bars_of(t.order, t.times))
        if (b.what.kind == kind) time += b.end - b.begin;
      below += time;
      if (time > 0) expected[std::string(hue_of(kind).style) + '0'] = below * scale * height;
    }
    REQUIRE(area.size() == expected.size());
    for (auto const& [style, want] : expected) CHECK(area[style] == doctest::Approx(want).epsilon(0.03));
  }
}

TEST_CASE("schedule_svg: an overview of passes that can be seen has all of them, and all numbers or none") {
  for (std::uint32_t const microbatches : {8u, 60u}) {
    testing::timed_order const t(make_schedule(schedule_family::one_f_one_b, {4, 1, microbatches}));
    auto const elements = testing::read_markup(
        schedule_svg(t.shown(), {.bars = schedule_svg_options::detail::overview, .width = 908}));
    std::size_t bars = 0, numbers = 0;
    for (auto const& e : elements) {
      if (e.is("bar")) bars += static_cast<std::size_t>(std::ranges::count(e.at("d"), 'M'));
      numbers += e.is("number");
    }
    CHECK(bars == 2 * 4 * microbatches);
    CHECK(numbers == (microbatches == 8 ? bars : 0));
  }
}

TEST_CASE("schedule_svg: the default width has room for the numbers of all microbatches") {
  testing::timed_order const t(make_schedule(schedule_family::interleaved_1f1b, {4, 2, 64}));
  std::size_t numbers = 0;
  for (auto const& e : testing::read_markup(schedule_svg(t.shown()))) numbers += e.is("number");
  CHECK(numbers == 2 * 8 * 64);
}

TEST_CASE("schedule_svg: a memory strip with more steps than pixels keeps its peaks") {
  testing::timed_order const t(make_schedule(schedule_family::one_f_one_b, {4, 1, 2000}));
  auto const elements = testing::read_markup(
      schedule_svg(t.shown(), {.bars = schedule_svg_options::detail::overview, .width = 908}));
  std::vector<double> tops, strips;
  for (auto const& e : elements) {
    if (e.is("strip")) strips.push_back(e.number("height"));
    if (!e.is("kept")) continue;
    CHECK(std::ranges::count(e.at("d"), 'H') < 920);
    std::istringstream in(e.at("d"));
    double base = 0, least = 1e9, y = 0, x = 0;
    for (char step = 0; in >> step;) {
      if (step == 'M') in >> x >> base;
      if (step == 'H') in >> x;
      if (step == 'V') in >> y, least = std::min(least, y);
    }
    tops.push_back(base - least);
  }
  REQUIRE(tops.size() == 4);
  for (std::size_t r = 0; r < 4; ++r)  // rank r keeps 4 - r passes, and the scale is that of rank 0
    CHECK(tops[r] == doctest::Approx(strips[r] * static_cast<double>(4 - r) / 4).epsilon(0.03));
}

TEST_CASE("schedule_svg: draws an empty schedule and one in which nothing takes time") {
  schedule const nothing{loop_placement(2), 0, {{}, {}}};
  testing::timed_order const t(nothing);
  CHECK(testing::read_markup(schedule_svg(t.shown())).size() > 5);
  testing::timed_order const free(make_schedule(schedule_family::gpipe, {2, 1, 2}),
                                  {.costs = {{0, 0, 0, 0}}});
  CHECK(testing::read_markup(schedule_svg(free.shown())).size() > 5);
}
