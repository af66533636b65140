// SPDX-License-Identifier: MIT
#include "cleave/draw/schedule_page.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/markup.hpp"
#include "support/timed_order.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// A bar as the page's script reads it, by the rules of `schedule_bars_text`.
struct drawn_bar {
  std::string name;
  double begin, end;
  int lane = 0, lanes = 1;
  bool beside, critical;
};

std::vector<drawn_bar> read_bars(std::string const& text) {
  static std::regex const form(R"(([^@+~/!]+)(?:@([^+]+))?\+([^~/!]+)(?:/(\d+)/(\d+))?(~?)(!?))");
  std::vector<drawn_bar> bars;
  std::istringstream words(text);
  double at = 0;
  for (std::string word; words >> word;) {
    std::smatch m;
    REQUIRE_MESSAGE(std::regex_match(word, m, form), word);
    if (m[2].matched) at = std::stod(m[2]);
    double const end = at + std::stod(m[3]);
    bars.push_back({m[1], at, end, m[4].matched ? std::stoi(m[4]) : 0, m[5].matched ? std::stoi(m[5]) : 1,
                    m[6].length() > 0, m[7].length() > 0});
    at = end;
  }
  return bars;
}

/// The text of the page's element with this id.
std::string text_of(std::vector<testing::element> const& page, std::string const& id) {
  for (auto const& e : page)
    if (e.attributes.contains("id") && e.at("id") == id) return e.text;
  return {};
}

}  // namespace

TEST_CASE("schedule_page: has totals, facts and a row for each rank, and loads nothing external") {
  for (auto const& t : testing::timed_orders()) {
    auto const page = schedule_page(t.shown(), {{"Found in", "3 steps"}});
    std::vector<std::string> totals;
    std::size_t rows = 0;
    for (auto const& e : testing::read_markup(page)) {
      if (e.tag == "dd") totals.push_back(e.text);
      rows += e.tag == "tr";
      CHECK(!e.attributes.contains("src"));
      CHECK(!e.attributes.contains("href"));
    }
    REQUIRE(totals.size() == 4);
    CHECK(totals[0] == time_text(t.shown(), t.times.makespan));
    CHECK(totals[1] == percent_text(bubble_rate(t.times)));
    CHECK(totals[2] == count_text(count_messages(t.order)));
    CHECK(totals[3] == "3 steps");
    CHECK(rows == 1 + t.order.ranks.size());
    CHECK(page.find("url(http") == std::string::npos);
  }
}

TEST_CASE("schedule_page: shows each pass, as a bar with its number or in the text that the script reads") {
  std::size_t readable = 0, zoomable = 0;
  auto orders = testing::timed_orders();
  orders.emplace_back(make_schedule(schedule_family::interleaved_1f1b, {4, 2, 64}));
  orders.emplace_back(make_schedule(schedule_family::dual_pipe_v, {4, 2, 40}),
                      simulate_options{.base_latency = 0.3, .compounds = compound_time::longest_part});
  orders.emplace_back(make_schedule(schedule_family::zb_h1, {3, 1, 120}),
                      simulate_options{.noise = 0.2, .seed = 3});
  for (auto const& t : orders) {
    auto const page = testing::read_markup(schedule_page(t.shown()));
    auto const expected = bars_of(t.order, t.times);
    auto const data = text_of(page, "bars");
    std::size_t bars = 0;
    for (auto const& e : page) bars += e.tag == "rect" && e.is("bar");
    if (data.empty()) {
      CHECK(bars == expected.size());
      ++readable;
      continue;
    }
    ++zoomable;
    CHECK(bars == 0);
    auto const read = nlohmann::json::parse(data);
    std::set<std::pair<std::size_t, std::size_t>> critical;
    auto const shown = t.shown();
    for (auto const& at : shown.critical) critical.emplace(index(at.rank), at.position);
    std::size_t next = 0;
    REQUIRE(read.at("ranks").size() == t.order.ranks.size());
    for (auto const& row : read.at("ranks"))
      for (auto const& bar : read_bars(row.get<std::string>())) {
        REQUIRE(next < expected.size());
        auto const& want = expected[next++];
        CHECK(bar.name == action_text(want.what));
        CHECK(std::abs(bar.begin - want.begin) < 1e-5 * t.times.makespan);
        CHECK(std::abs(bar.end - want.end) < 1e-5 * t.times.makespan);
        CHECK(bar.lane == want.lane);
        CHECK(bar.lanes == want.lanes);
        CHECK(bar.beside == want.is_beside);
        CHECK(bar.critical == critical.contains({index(want.rank), want.position}));
      }
    CHECK(next == expected.size());
  }
  CHECK(readable > 0);
  CHECK(zoomable > 0);
}

TEST_CASE("schedule_page: 64 ranks and 512 microbatches take at most 3 MB, with all microbatches") {
  testing::timed_order const t(make_schedule(schedule_family::one_f_one_b, {64, 1, 512}));
  auto const page = schedule_page(t.shown());
  CHECK(page.size() <= 3'000'000);
  auto const rows = nlohmann::json::parse(text_of(testing::read_markup(page), "bars")).at("ranks");
  std::set<std::string> names;
  for (auto const& bar : read_bars(rows[63].get<std::string>())) names.insert(bar.name);
  CHECK(names.size() == 2 * 512);
  CHECK(names.contains("63B511"));
}

TEST_CASE("schedule_page: times in seconds have a unit in which they can be read") {
  testing::timed_order const t(make_schedule(schedule_family::gpipe, {2, 1, 2}),
                               {.costs = {{1e-6, 2e-6, 1e-6, 1e-6}}});
  auto shown = t.shown();
  shown.time_unit = "s";
  auto const page = testing::read_markup(schedule_page(shown));
  std::vector<std::string> ticks;
  for (auto const& e : page) {
    if (e.tag == "dd" && ticks.empty()) CHECK(e.text != "0\u00a0s");
    if (e.is("tick")) ticks.push_back(e.text);
  }
  CHECK(std::ranges::count(ticks, "µs") == 1);
  CHECK(std::ranges::count(ticks, "1") == 1);
  CHECK(time_text(shown, 8.01e-6) == "8.01\u00a0µs");
  CHECK(time_text(shown, 0) == "0\u00a0s");
  CHECK(time_text(shown, 2.5) == "2.5\u00a0s");
  shown.time_unit = "ms";
  CHECK(time_text(shown, 1e-5) == "10.0\u00a0ns");
  CHECK(time_text(shown, 2e6) == "2000\u00a0s");
  shown.time_unit = "F";
  CHECK(time_text(shown, 8.01e-6) == "0.00000801\u00a0F");
}
