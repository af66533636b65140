// SPDX-License-Identifier: MIT
#include "cleave/draw/timeline_svg.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/markup.hpp"
#include "support/random_run.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("write_timeline: each microbatch has one bar in each stage, at its time and as long as it took") {
  testing::rng random(31);
  for (auto const& [stages, microbatches] :
       std::vector<std::pair<std::uint32_t, std::uint32_t>>{{1, 1}, {4, 8}, {8, 30}, {45, 3}}) {
    auto const timeline = testing::random_run(random, stages, microbatches);
    markup_writer to;
    write_timeline(to, timeline, stages);
    auto const elements = testing::read_markup(to.str());

    std::vector<testing::element> tracks;
    std::map<std::pair<std::string, std::string>, testing::element> bars;
    for (auto const& e : elements) {
      if (e.is("track")) tracks.push_back(e);
      if (e.is("bar")) CHECK(bars.emplace(std::pair(e.at("data-stage"), e.at("data-microbatch")), e).second);
    }
    REQUIRE(tracks.size() == stages);
    CHECK(bars.size() == std::size_t{stages} * microbatches);
    double const scale = tracks[0].number("width") / static_cast<double>(timeline_end(timeline));
    for (auto const& i : timeline) {
      if (i.what != activity::forward) continue;
      auto const& bar = bars.at({std::to_string(index(i.stage)), std::to_string(index(i.microbatch))});
      CHECK(std::abs(bar.number("width") - scale * static_cast<double>(i.end - i.begin)) < 0.011);
      CHECK(std::abs(bar.number("x") - tracks[0].number("x") - scale * static_cast<double>(i.begin)) < 0.006);
      CHECK(bar.at("y") == tracks[index(i.stage)].at("y"));
    }
  }
}

TEST_CASE("write_timeline: a stage that takes longer has a longer bar, and other bars stay as they are") {
  std::vector<interval> const before = {
      {stage_id{0}, microbatch_id{0}, activity::forward, 0, 10'000'000},
      {stage_id{1}, microbatch_id{0}, activity::forward, 10'000'000, 20'000'000},
      {stage_id{2}, microbatch_id{0}, activity::forward, 90'000'000, 100'000'000}};
  auto after = before;
  after[1].end += 50'000'000;
  auto const widths = [](std::vector<interval> const& timeline) {
    markup_writer to;
    write_timeline(to, timeline, 3);
    std::vector<double> out;
    for (auto const& e : testing::read_markup(to.str()))
      if (e.is("bar")) out.push_back(e.number("width"));
    return out;
  };
  auto const a = widths(before), b = widths(after);
  CHECK(a[0] == b[0]);
  CHECK(a[2] == b[2]);
  CHECK(b[1] == doctest::Approx(6 * a[1]));
}

TEST_CASE("tick_step: ticks are at round numbers, at most as many as requested") {
  for (double const length : {0.0007, 0.3, 1.0, 7.0, 12.5, 99.0, 100.0, 12345.0}) {
    double const step = tick_step(length, 9);
    CHECK(length / step <= 9.0001);
    CHECK(length / step >= 9 / 2.5 - 0.0001);
    double mantissa = step;
    while (mantissa < 0.9999) mantissa *= 10;
    while (mantissa > 9.9999) mantissa /= 10;
    CHECK(
        (mantissa == doctest::Approx(1) || mantissa == doctest::Approx(2) || mantissa == doctest::Approx(5)));
  }
  CHECK(tick_step(0, 9) == 1);
}

TEST_CASE("write_timeline: draws a timeline without intervals") {
  markup_writer to;
  write_timeline(to, {}, 0);
  CHECK(testing::read_markup(to.str()).size() > 2);
}
