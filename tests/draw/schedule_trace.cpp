// SPDX-License-Identifier: MIT
#include "cleave/draw/schedule_trace.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/timed_order.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("schedule_trace: has a named track for each rank and each pass once at its time") {
  for (auto const& t : testing::timed_orders()) {
    auto const trace = nlohmann::json::parse(schedule_trace(t.shown()));
    std::map<std::string, std::pair<double, double>> spans;
    std::size_t names = 0;
    for (auto const& e : trace.at("traceEvents")) {
      names += e.at("name") == "thread_name";
      if (e.at("ph") != "X") continue;
      auto const key = std::to_string(e.at("tid").get<int>()) + ": " + e.at("name").get<std::string>();
      CHECK(spans.emplace(key, std::pair(e.at("ts").get<double>(), e.at("dur").get<double>())).second);
    }
    CHECK(names == t.order.ranks.size());
    auto const bars = bars_of(t.order, t.times);
    CHECK(spans.size() == bars.size());
    for (auto const& b : bars) {
      auto const& [begin, length] = spans.at(std::to_string(index(b.rank)) + ": " + action_text(b.what));
      CHECK(begin == doctest::Approx(1000 * b.begin));
      CHECK(length == doctest::Approx(1000 * (b.end - b.begin)));
    }
  }
}

TEST_CASE("schedule_trace: has one arrow for each message, forward in time between two ranks") {
  for (auto const& t : testing::timed_orders()) {
    auto const trace = nlohmann::json::parse(schedule_trace(t.shown()));
    std::map<std::uint64_t, std::vector<nlohmann::json>> arrows;
    for (auto const& e : trace.at("traceEvents"))
      if (e.at("ph") == "s" || e.at("ph") == "f") arrows[e.at("id").get<std::uint64_t>()].push_back(e);
    CHECK(arrows.size() == count_messages(t.order));
    for (auto const& [id, ends] : arrows) {
      REQUIRE(ends.size() == 2);
      CHECK(ends[0].at("ph") == "s");
      CHECK(ends[1].at("ph") == "f");
      CHECK(ends[0].at("tid") != ends[1].at("tid"));
      CHECK(ends[0].at("ts").get<double>() < ends[1].at("ts").get<double>());
    }
  }
}

TEST_CASE("schedule_trace: memory counters follow the memory of each rank in every unit of time") {
  testing::timed_order const t(make_schedule(schedule_family::zbv, {2, 2, 4}));
  auto shown = t.shown();
  for (auto const& [unit, microseconds] : std::map<std::string, double>{
           {"s", 1e6}, {"ms", 1000}, {"us", 1}, {"ns", 0.001}, {"", 1000}, {"beats", 1000}}) {
    shown.time_unit = unit;
    std::map<int, std::vector<std::pair<double, std::uint64_t>>> counted;
    auto const trace = nlohmann::json::parse(schedule_trace(shown));
    for (auto const& e : trace.at("traceEvents"))
      if (e.at("ph") == "C")
        counted[e.at("tid")].emplace_back(e.at("ts"), e.at("args").at("passes kept").get<std::uint64_t>());
    for (int r = 0; r < 2; ++r) {
      auto const& want = t.memory[static_cast<std::size_t>(r)];
      REQUIRE(counted[r].size() == want.size());
      for (std::size_t i = 0; i < want.size(); ++i) {
        CHECK(counted[r][i].first == doctest::Approx(microseconds * want[i].time));
        CHECK(counted[r][i].second == want[i].bytes);
      }
    }
  }
}

TEST_CASE("schedule_trace: an UNSHARD is a pair of asynchronous begin and end events") {
  schedule s = make_schedule(schedule_family::gpipe, {1, 1, 1});
  s.ranks[0].insert(s.ranks[0].begin(), action{.kind = action_kind::unshard, .stage = stage_id{0}});
  testing::timed_order const t(s, {.costs = {{.unshard = 3}}});
  std::map<std::string, std::vector<double>> times;
  auto const trace = nlohmann::json::parse(schedule_trace(t.shown()));
  for (auto const& e : trace.at("traceEvents"))
    if (e.value("cat", "") == "UNSHARD") times[e.at("ph")].push_back(e.at("ts"));
  CHECK(times == std::map<std::string, std::vector<double>>{{"b", {0}}, {"e", {3000}}});
}
