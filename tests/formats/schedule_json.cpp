// SPDX-License-Identifier: MIT
#include "cleave/formats/schedule_json.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "cleave/schedule/lower/lower.hpp"
#include "support/timed_order.hpp"

using namespace cleave;

TEST_CASE("read_schedule_json: every schedule reads back equal, lowered or not") {
  for (auto const& t : testing::timed_orders()) {
    CHECK(read_schedule_json(schedule_json(t.shown())) == t.order);
    testing::timed_order const lowered(lower(t.order));
    CHECK(read_schedule_json(schedule_json(lowered.shown())) == lowered.order);
  }
}

TEST_CASE("schedule json: has the times of every action") {
  for (auto const& t : testing::timed_orders()) {
    auto const said = nlohmann::json::parse(schedule_json(t.shown()));
    CHECK(said.at("makespan").get<double>() == t.times.makespan);
    CHECK(said.at("bubble").get<double>() == bubble_rate(t.times));
    CHECK(said.at("messages") == count_messages(t.order));
    for (std::size_t r = 0; r < t.order.ranks.size(); ++r) {
      CHECK(said.at("busy")[r].get<double>() == t.times.busy[r]);
      REQUIRE(said.at("spans")[r].size() == t.times.spans[r].size());
      for (std::size_t i = 0; i < t.times.spans[r].size(); ++i) {
        CHECK(said.at("spans")[r][i][0].get<double>() == t.times.spans[r][i].begin);
        CHECK(said.at("spans")[r][i][1].get<double>() == t.times.spans[r][i].end);
      }
      REQUIRE(said.at("memory")[r].size() == t.memory[r].size());
    }
  }
}

TEST_CASE("read_schedule_json: rejects an invalid schedule and names the place") {
  auto const message = [](std::string const& text) {
    try {
      read_schedule_json(text);
      return std::string("nothing");
    } catch (cleave::json::error const& e) {
      return std::string(e.what());
    }
  };
  std::string const head = R"({"ranks": 1, "microbatches": 1, "rank_of": [0], )";
  CHECK(message(head + R"("edges": [], "rows": ["0F0"]})") == "nothing");
  CHECK(message("{}").find("is missing the key 'ranks'") != std::string::npos);
  CHECK(message(R"({"ranks": -1})").find("$.ranks: expected an integer") != std::string::npos);
  CHECK(message(head + R"("edges": [[0]], "rows": []})").find("$.edges[0]: an edge is a list of two") !=
        std::string::npos);
  CHECK(message(head + R"("edges": [], "rows": ["0F0,0Q0"]})")
            .find("column #1: '0Q0' has an unknown kind of action") != std::string::npos);
  CHECK(message(head + R"("edges": [], "rows": 3})").find("expected a list") != std::string::npos);
}
