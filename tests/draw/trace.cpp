// SPDX-License-Identifier: MIT
#include "cleave/draw/trace.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/random_run.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("write_trace: has a track for each stage and each interval once, without overlaps") {
  testing::rng random(32);
  auto const timeline = testing::random_run(random, 3, 5);
  auto const trace = nlohmann::json::parse(write_trace(timeline));
  std::size_t tracks = 0;
  std::map<int, std::vector<std::pair<double, double>>> spans;
  for (auto const& e : trace.at("traceEvents")) {
    if (e.at("ph") == "M") {
      CHECK(e.at("args").at("name") == "stage " + std::to_string(e.at("tid").get<int>()));
      ++tracks;
    } else {
      spans[e.at("tid")].emplace_back(e.at("ts"), e.at("ts").get<double>() + e.at("dur").get<double>());
    }
  }
  CHECK(tracks == 3);
  std::size_t count = 0;
  for (auto& [stage, list] : spans) {
    std::sort(list.begin(), list.end());
    count += list.size();
    for (std::size_t i = 1; i < list.size(); ++i) CHECK(list[i].first >= list[i - 1].second - 1e-6);
  }
  CHECK(count == timeline.size());
  CHECK(nlohmann::json::parse(write_trace({})).at("traceEvents").empty());
}
