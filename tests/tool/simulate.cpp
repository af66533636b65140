// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "support/tool.hpp"

using namespace cleave::testing;
using nlohmann::json;

TEST_CASE("cleave simulate: the unit of a cost file shows no control characters") {
  scratch_folder const at;
  std::ofstream(at / "s.csv") << run_tool({"schedule", "1F1B", "-p", "2", "-m", "2", "--csv"}).said;
  std::ofstream(at / "c.json") << R"({"unit": "\u001b[31m", "stages": {"F": 1, "B": 2}})";
  auto const r = run_tool({"simulate", at / "s.csv", "--costs", at / "c.json"});
  CHECK(r.exit == 0);
  CHECK(r.said.find('\x1b') == std::string::npos);
  CHECK(r.said.find("\\x1b[31m") != std::string::npos);
}

TEST_CASE("cleave simulate: gives a schedule file the same times as cleave schedule") {
  scratch_folder const out;
  for (std::string const name : {"Interleaved1F1B", "ZBVZeroBubble", "GPipe"}) {
    auto const family = cleave::schedule_family_of(name);
    auto const s = cleave::make_schedule(family, {3, cleave::stages_per_rank_of(family).value_or(2), 6});
    std::ofstream(out / "a.csv", std::ios::binary) << schedule_csv(s);
    std::ofstream(out / "b.csv", std::ios::binary) << schedule_csv(lower(s));
    auto const want =
        json::parse(run_tool({"schedule", name, "-p", "3", "-m", "6", "--hop", "0.5", "--json"}).said);
    for (std::string const file : {"a.csv", "b.csv"}) {
      auto const r = run_tool({"simulate", out / file, "--hop", "0.5", "--json"});
      CAPTURE(r.to_stderr);
      REQUIRE(r.exit == 0);
      CHECK(json::parse(r.said).at("busy") == want.at("busy"));
    }
    auto const same = json::parse(run_tool({"simulate", out / "a.csv", "--hop", "0.5", "--json"}).said);
    CHECK(same.at("makespan") == want.at("makespan"));
    CHECK(same.at("spans") == want.at("spans"));
    CHECK(run_tool({"simulate", out / "a.csv", "--html"}).said.find("</html>") != std::string::npos);
    CHECK(run_tool({"simulate", out / "a.csv"}).said.starts_with("a: 3 ranks"));
  }
}

TEST_CASE("cleave simulate: rejects a schedule that never ends and names the place") {
  scratch_folder const out;
  std::ofstream(out / "a.csv") << "0B0,0F0\n1F0,1B0\n";
  auto const r = run_tool({"simulate", out / "a.csv"});
  CHECK(r.exit == 1);
  CHECK(r.said.empty());
  CHECK(r.to_stderr.find("a.csv:1:1: out-of-order: ") != std::string::npos);
}
