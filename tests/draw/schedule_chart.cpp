// SPDX-License-Identifier: MIT
#include "cleave/draw/schedule_chart.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

#include "support/timed_order.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::vector<std::string> lines_of(std::string const& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::size_t width_of(std::string const& line) {
  return static_cast<std::size_t>(std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string without_memory(testing::timed_order const& t, schedule_chart_options const& options = {}) {
  auto shown = t.shown();
  shown.memory.clear();
  return schedule_chart(shown, options);
}

}  // namespace

TEST_CASE("schedule_chart: prints 1F1B and forward-only exactly as drawn by hand") {
  CHECK(without_memory(testing::timed_order(make_schedule(schedule_family::one_f_one_b, {2, 1, 3}))) ==
        "rank 0  F0F1····B0--F2B1--··B2--\n"
        "rank 1  ··F0B0--F1B1--F2B2--····\n"
        "        0         5         10\n");
  CHECK(without_memory(testing::timed_order(make_schedule(schedule_family::forward_only, {2, 2, 2}))) ==
        "rank 0  F0F1f0f1··\n"
        "rank 1  ··F0F1f0f1\n"
        "        0         5\n");
}

TEST_CASE("schedule_chart: each pass appears once with its letter, at any line width") {
  for (auto const& t : testing::timed_orders())
    for (std::size_t const columns : {40u, 100u, 237u}) {
      auto const text = without_memory(t, {.columns = columns});
      auto const letters = static_cast<std::size_t>(std::ranges::count_if(
          text, [](char c) { return std::string("FBIWfbiw").find(c) != std::string::npos; }));
      CHECK(letters == bars_of(t.order, t.times).size());
      for (auto const& line : lines_of(text))
        CHECK(width_of(line) <= columns + 8);  // the last mark of the axis
    }
}

TEST_CASE("schedule_chart: a schedule too long for the line fills one line per rank") {
  testing::timed_order const t(make_schedule(schedule_family::gpipe, {4, 1, 512}));
  auto const lines = lines_of(without_memory(t, {.columns = 80}));
  REQUIRE(lines.size() == 5);
  for (std::size_t r = 0; r < 4; ++r) CHECK(width_of(lines[r]) == 80);
}

TEST_CASE("schedule_chart: memory bars reach the full block at the peak, and colours change no letter") {
  testing::timed_order const t(make_schedule(schedule_family::one_f_one_b, {4, 1, 8}));
  auto const text = schedule_chart(t.shown());
  auto const lines = lines_of(text.substr(text.find("memory")));
  CHECK(lines[0] == "memory 4\u00a0passes");
  REQUIRE(lines.size() == 5);
  CHECK(lines[1].find("\u2588") != std::string::npos);
  CHECK(lines[4].find("\u2588") == std::string::npos);
  CHECK(lines[4].find("\u2582") != std::string::npos);

  auto coloured = schedule_chart(t.shown(), {.colours = schedule_chart_options::ink::ansi});
  std::string letters;
  for (std::size_t i = 0; i < coloured.size(); ++i) {
    if (coloured[i] == '\x1b')
      i = coloured.find('m', i);
    else
      letters += coloured[i] == ' ' ? '-' : coloured[i];
  }
  auto plain = text;
  std::ranges::replace(plain, ' ', '-');
  CHECK(letters == plain);
}

TEST_CASE("schedule_chart: draws an empty schedule") {
  testing::timed_order const t(schedule{loop_placement(2), 0, {{}, {}}});
  CHECK(lines_of(schedule_chart(t.shown())).size() >= 3);
}

TEST_CASE("schedule_chart: the smallest and the largest times are drawn like others, whatever their ratio") {
  auto const drawn = [](double forward, double backward) {
    auto const s = make_schedule(schedule_family::one_f_one_b, {2, 1, 3});
    auto const times = simulate(s, {.costs = {{forward, backward, backward, 0, 0}}});
    auto lines = lines_of(schedule_chart({"drawn", s, times}));
    REQUIRE(lines.size() == 3);
    lines.pop_back();  // the axis
    return lines;
  };
  auto const equal = drawn(1, 1);
  CHECK(equal == std::vector<std::string>{"rank 0  F0F1··B0F2B1··B2", "rank 1  ··F0B0F1B1F2B2··"});
  for (double const each : {5e-324, 4e-323, 1e-310, 1e-307, 1e-30, 1e30, 1e100}) {
    CAPTURE(each);
    CHECK(drawn(each, each) == equal);
  }
  // The shorter passes vanish.
  CHECK(drawn(1e100, 5e-324) == drawn(1, 1e-300));
  CHECK(drawn(5e-324, 1e100) == drawn(1e-300, 1));
  CHECK(drawn(1e100, 5e-324)[0] == "rank 0  F0F1F2··");
}
